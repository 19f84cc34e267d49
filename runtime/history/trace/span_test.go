package trace_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/journalet/journalet/runtime/history/start"
	"github.com/journalet/journalet/runtime/history/trace"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/recording"
)

var update = flag.Bool("trace.update", false, "write testdata again")

const histories = "../../../test/simulation/testdata/histories"

// starts folds a recorded run of the simulation, until a record.
func starts(t *testing.T, path string, until uint64) (out []*start.Start, end time.Time) {
	t.Helper()
	c := start.NewCollector()
	for _, rec := range recording.Records(t, path) {
		if until > 0 && rec.GetSeq() > until {
			break
		}
		out, end = append(out, c.Add(rec)...), rec.GetTime().AsTime()
	}
	return append(out, c.Open()...), end
}

// TestTraceOfAStart holds the JSON of one start to what a person has read in its journal.
func TestTraceOfAStart(t *testing.T) {
	all, end := starts(t, filepath.Join(histories, "seed-160.records"), 0)
	i := slices.IndexFunc(all, func(s *start.Start) bool { return s.Name == "h1-n1" && s.Outcome == start.Ready })
	got, err := trace.JSON(trace.Resource("n1", "dev", trace.Spans("n1", all[i], end)))
	must.OK(t, err)
	var pretty bytes.Buffer
	must.OK(t, json.Indent(&pretty, got, "", " "))
	pretty.WriteByte('\n')
	golden := filepath.Join("testdata", "seed-160.json")
	if *update {
		must.OK(t, os.WriteFile(golden, pretty.Bytes(), 0o600))
	}
	want, err := os.ReadFile(golden)
	must.OK(t, err)
	if !bytes.Equal(pretty.Bytes(), want) {
		t.Errorf("another trace than in %s; if it is right, run with -trace.update:\n%s", golden, pretty.String())
	}
	ids := regexp.MustCompile(`"(traceId|spanId|parentSpanId)":"([^"]*)"`)
	for _, m := range ids.FindAllStringSubmatch(string(got), -1) {
		if !regexp.MustCompile(`^([0-9a-f]{16}|[0-9a-f]{32})$`).MatchString(m[2]) {
			t.Errorf("%s is %q, want hex", m[1], m[2])
		}
	}
}

// TestSpansFormOneTree holds for all recorded runs: one root, children of it within its time, ids that occur once.
func TestSpansFormOneTree(t *testing.T) {
	all, err := filepath.Glob(histories + "/*.records")
	must.OK(t, err)
	n := 0
	seen := map[string]bool{}
	for _, path := range all {
		every, end := starts(t, path, 0)
		for _, s := range every {
			spans := trace.Spans(filepath.Base(path), s, end)
			root := spans[0]
			if len(root.GetParentSpanId()) != 0 || len(spans) != len(s.Phases)+1 {
				t.Fatalf("%s: %d spans of %d phases", s.Name, len(spans), len(s.Phases))
			}
			for i, span := range spans {
				id := string(span.GetTraceId()) + string(span.GetSpanId())
				switch {
				case seen[id]:
					t.Errorf("%s: the id of %s occurs twice", s.Name, span.GetName())
				case span.GetName() == "" || len(span.GetSpanId()) != 8 || len(span.GetTraceId()) != 16:
					t.Errorf("%s: an incomplete span: %v", s.Name, span)
				case i > 0 && !bytes.Equal(span.GetParentSpanId(), root.GetSpanId()):
					t.Errorf("%s: %s is no child of the root", s.Name, span.GetName())
				case span.GetEndTimeUnixNano() < span.GetStartTimeUnixNano():
					t.Errorf("%s: %s ends before it begins", s.Name, span.GetName())
				}
				seen[id] = true
				n++
			}
		}
	}
	if n < 300 {
		t.Errorf("only %d spans", n)
	}
}

// TestSameStartIsTheSameTrace folds a run twice, once only up to the end of a start: the agent that exported it at once
// and a command that prints it weeks later yield the same bytes.
func TestSameStartIsTheSameTrace(t *testing.T) {
	path := filepath.Join(histories, "seed-112.records")
	all, end := starts(t, path, 0)
	for _, s := range all {
		if s.Outcome == start.Open {
			continue
		}
		early, earlyEnd := starts(t, path, s.EndSeq)
		i := slices.IndexFunc(early, func(e *start.Start) bool { return e.UID == s.UID && e.BeginSeq == s.BeginSeq })
		now, err := trace.JSON(trace.Resource("n", "v", trace.Spans("n", early[i], earlyEnd)))
		must.OK(t, err)
		later, err := trace.JSON(trace.Resource("n", "v", trace.Spans("n", s, end)))
		must.OK(t, err)
		if !bytes.Equal(now, later) {
			t.Errorf("%s: the trace differs:\n%s\n%s", s.Name, now, later)
		}
		if trace.ID("n", s) == trace.ID("m", s) {
			t.Errorf("%s: two nodes have the same trace", s.Name)
		}
	}
}

// TestFailureIsTheStatus shows reason and message of what failed, bounded and on one line.
func TestFailureIsTheStatus(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	s := &start.Start{UID: "u", Begin: at, End: at.Add(time.Second), BeginSeq: 1, EndSeq: 9, Outcome: start.Failed,
		Reason: "DeadlineExceeded", Phases: []*start.Phase{
			{Kind: start.Pull, Image: "x:1", Begin: at, End: at, BeginSeq: 2, EndSeq: 3, Outcome: start.Failed,
				Reason: "Runtime", Message: "no\nsuch " + strings.Repeat("image ", 100)},
			{Kind: start.Create, Container: "c", Begin: at, End: at, BeginSeq: 4, EndSeq: 5, Outcome: start.ImageMissing},
		}}
	spans := trace.Spans("n", s, at)
	for i, want := range []tracepb.Status_StatusCode{2, 2, 0} {
		if got := spans[i].GetStatus(); got.GetCode() != want || len(got.GetMessage()) > 300 {
			t.Errorf("%s: the status is %v", spans[i].GetName(), got)
		}
	}
	if m := spans[1].GetStatus().GetMessage(); !strings.HasPrefix(m, "Runtime: no such image image") {
		t.Errorf("the message is %q", m)
	}
}

func TestSamplingKeepsAShareOfTraces(t *testing.T) {
	kept := map[int32]int{}
	for i := range 20_000 {
		id := trace.ID("n", &start.Start{UID: "u", BeginSeq: uint64(i)})
		for _, rate := range []int32{-1, 0, 10_000, 500_000, 1_000_000} {
			if trace.Sampled(id, rate) {
				kept[rate]++
			}
		}
	}
	if kept[-1] != 0 || kept[0] != 0 || kept[1_000_000] != 20_000 || kept[10_000] < 120 || kept[10_000] > 280 ||
		kept[500_000] < 9_700 || kept[500_000] > 10_300 {
		t.Errorf("kept of 20000, by rate per million: %v", kept)
	}
}
