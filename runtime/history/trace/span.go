package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/plain"
	"github.com/journalet/journalet/runtime/history/start"
)

// RootName is the name of the root span.
const RootName = "pod start"

// names are the spans' names: few, so that a tracing system can group by them.
var names = map[start.Kind]string{
	start.Admission: "admission", start.Objects: "wait for object", start.Volumes: "set up volumes",
	start.Sandbox: "create sandbox",
	start.Pull:    "pull image", start.Create: "create container", start.StartContainer: "start container",
	start.Observe: "observe container", start.Init: "run init container", start.Hook: "postStart hook",
	start.Probe: "probe", start.Gates: "readiness gates", start.BackOff: "back-off",
}

// maxMessageBytes bounds the text of a failure in a span: traces leave the node, and the record holds all of it.
const maxMessageBytes = 256

// Spans returns the spans of one start on a node, the root first. at is the end of an open start and of its open
// phases: the time of the newest record that is known.
func Spans(node string, s *start.Start, at time.Time) []*tracepb.Span {
	b := &builder{node: node, start: s, trace: ID(node, s), end: at, used: map[[8]byte]bool{}}
	if s.Outcome != start.Open {
		b.end = s.End
	}
	root := b.root()
	out := []*tracepb.Span{root}
	for _, p := range s.Phases {
		span := b.phase(p)
		span.ParentSpanId = root.GetSpanId()
		out = append(out, span)
	}
	return out
}

// ID returns the trace id of a start. The node is its name, or the token of it that a journal knows. The id depends on
// the time of the first record, too: a journal that was lost begins with 1 again.
func ID(node string, s *start.Start) [16]byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "journalet trace\n%s\n%s\n%d\n%d",
		messages.Token(node), s.UID, s.BeginSeq, s.Begin.UnixNano()))
	return [16]byte(sum[:16])
}

// Sampled reports whether a trace is among so many of a million, as OpenTelemetry samples by trace id: every node and
// every run decides the same.
func Sampled(id [16]byte, perMillion int32) bool {
	const million = 1_000_000
	if perMillion >= million {
		return true
	}
	bound := uint64(max(0, perMillion)) * ((1 << 63) / million)
	return binary.BigEndian.Uint64(id[8:])>>1 < bound
}

type builder struct {
	node  string
	start *start.Start
	trace [16]byte
	end   time.Time
	used  map[[8]byte]bool
}

// span returns a span without attributes. key identifies it within the trace; a second one of the same key gets an id
// of its own.
func (b *builder) span(name, key string, begin, end time.Time) *tracepb.Span {
	var id [8]byte
	for n := 0; ; n++ {
		sum := sha256.Sum256(fmt.Appendf(b.trace[:], "\n%s\n%d", key, n))
		if id = [8]byte(sum[:8]); !b.used[id] {
			break
		}
	}
	b.used[id] = true
	if end.Before(begin) {
		end = begin
	}
	return &tracepb.Span{
		TraceId: b.trace[:], SpanId: id[:], Name: name, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: uint64(begin.UnixNano()), EndTimeUnixNano: uint64(end.UnixNano()),
	}
}

func (b *builder) root() *tracepb.Span {
	s := b.start
	span := b.span(RootName, "root", s.Begin, b.end)
	a := b.pod()
	a.text("journalet.source", s.Source)
	a.text("journalet.manifest.digest", s.Digest)
	a.text("journalet.outcome", outcome(s.Outcome))
	a.records(s.BeginSeq, s.EndSeq)
	if s.Dropped > 0 {
		a.number("journalet.dropped_phases", int64(s.Dropped))
	}
	span.Attributes = a.list
	if s.RunningSeq > 0 {
		span.Events = append(span.Events, event("running", s.Running, s.RunningSeq))
	}
	switch s.Outcome {
	case start.Failed, start.Rejected:
		span.Status = failure(s.Reason, s.Message)
	case start.Ready, start.Succeeded:
		span.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_OK}
	case start.Ended:
		span.Status = &tracepb.Status{} // neither: its owner ended it
		a.text("journalet.reason", s.Reason)
		span.Attributes = a.list
	}
	return span
}

func (b *builder) phase(p *start.Phase) *tracepb.Span {
	end := p.End
	if p.Outcome == start.Open {
		end = b.end
	}
	name := names[p.Kind]
	if p.Kind == start.Probe {
		name = probeName(p.ProbeKind) + " probe"
	}
	key := fmt.Sprintf("%s\n%s\n%s\n%d\n%d\n%d", p.Kind, p.Container, p.Image, p.Attempt, p.ProbeKind, p.BeginSeq)
	span := b.span(name, key, p.Begin, end)
	a := b.pod()
	a.text("k8s.container.name", p.Container)
	a.text("container.id", p.ContainerID)
	a.text("container.image.name", p.Image)
	if p.Bytes > 0 {
		a.number("journalet.image.bytes", p.Bytes)
	}
	if p.Container != "" && p.Kind != start.BackOff && p.Kind != start.Probe || p.Kind == start.Sandbox {
		a.number("journalet.attempt", int64(p.Attempt))
	}
	a.text("journalet.sandbox.id", p.SandboxID)
	a.text("journalet.intent", p.Intent)
	a.text("journalet.outcome", outcome(p.Outcome))
	a.records(p.BeginSeq, p.EndSeq)
	if p.SplitSeq > 0 {
		a.number("journalet.seq.split", int64(p.SplitSeq))
	}
	if p.InDoubt {
		a.flag("journalet.in_doubt")
	}
	if p.Outcome != start.Failed && p.Reason != "" {
		a.text("journalet.reason", strings.TrimSpace(p.Reason+" "+cut(p.Message)))
	}
	span.Attributes = a.list
	if p.DispatchedSeq > 0 && (p.SplitSeq == 0 || p.Kind == start.Create) {
		span.Events = append(span.Events, event("dispatched", p.Dispatched, p.DispatchedSeq))
	}
	if p.Outcome == start.Failed {
		span.Status = failure(p.Reason, p.Message)
	}
	return span
}

func (b *builder) pod() *attributes {
	a := &attributes{}
	a.text("k8s.namespace.name", b.start.Namespace)
	a.text("k8s.pod.name", b.start.Name)
	a.text("k8s.pod.uid", b.start.UID)
	a.text("k8s.node.name", b.node)
	return a
}

func probeName(k journaletv1.ProbeKind) string {
	return strings.ToLower(strings.TrimPrefix(k.String(), "PROBE_KIND_"))
}

func outcome(o start.Outcome) string {
	if o == start.Open {
		return "open"
	}
	return string(o)
}

func event(name string, at time.Time, seq uint64) *tracepb.Span_Event {
	a := &attributes{}
	a.number("journalet.seq", int64(seq))
	return &tracepb.Span_Event{Name: name, TimeUnixNano: uint64(at.UnixNano()), Attributes: a.list}
}

func failure(reason, message string) *tracepb.Status {
	text := reason
	if message != "" {
		text = strings.TrimPrefix(reason+": ", ": ") + cut(message)
	}
	return &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: text}
}

// cut returns at most maxMessageBytes of a text, on one line.
func cut(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxMessageBytes {
		return plain.Cut(text, maxMessageBytes)
	}
	return plain.Cut(text, maxMessageBytes) + " ..."
}
