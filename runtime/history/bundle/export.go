package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/history"
)

// Options are what to export.
type Options struct {
	// From and To are the first and the last record; 0: the journal's first and last.
	From, To uint64
	// Pods are names, namespace/name or UIDs; none: everything.
	Pods []string
	// Redact drops names, texts and manifests.
	Redact bool
	// Version is the program's version, Now the time.
	Version string
	Now     time.Time
	// Progress may be nil.
	Progress func(done, total uint64)
}

func (o *Options) progress(done, total uint64) {
	if o.Progress != nil && done%4096 == 0 {
		o.Progress(done, total)
	}
}

// Result is what was exported.
type Result struct {
	Header *journaletv1.BundleHeader
	Index  *journaletv1.BundleIndex
	// Bytes is the size of the bundle, RecordBytes the size of its encoded records.
	Bytes, RecordBytes uint64
	// Notices are what a reader of the bundle will miss.
	Notices []string
}

// Export writes a bundle of a journal. Errors: ErrNothing, history.ErrGone, and any error of src or w.
func Export(ctx context.Context, src history.Reader, w io.Writer, o Options) (*Result, error) {
	from, to, err := o.span(src)
	if err != nil {
		return nil, err
	}
	x := &export{src: src, o: &o, digests: newDigests(), named: map[string]bool{}, to: to}
	if err := x.findStates(ctx, from); err != nil {
		return nil, err
	}
	if len(o.Pods) > 0 {
		if x.choice, err = choosePods(ctx, src, &o, x.states.begin, to, x.states.set); err != nil {
			return nil, err
		}
		x.pods = x.choice.pods
	}
	x.header(from)
	if o.Redact {
		x.redact = newRedactor()
		x.redact.header(x.h)
	}
	if x.w, err = NewWriter(w, x.h); err != nil {
		return nil, err
	}
	if err := x.snapshots(ctx); err != nil {
		return nil, err
	}
	if err := x.records(ctx); err != nil {
		return nil, err
	}
	x.w.Bounds(x.states.begin, to)
	return x.end(ctx)
}

// export is an Export under way.
type export struct {
	src     history.Reader
	o       *Options
	to      uint64
	states  *states
	own     bool // the set of states is not the journal's
	choice  *choice
	pods    pods // nil: all
	redact  *redactor
	digests *digests
	named   map[string]bool // digests of manifests
	h       *journaletv1.BundleHeader
	w       *Writer
	r       Result
}

func (x *export) notice(format string, args ...any) {
	x.r.Notices = append(x.r.Notices, fmt.Sprintf(format, args...))
}

// findStates finds the states before the first record, unless the journal begins there.
func (x *export) findStates(ctx context.Context, from uint64) error {
	x.states = &states{begin: from}
	first, _ := x.src.Bounds()
	if from == 1 {
		return nil
	}
	partial := false
	if p, ok := x.src.(interface{ Complete(messages.Ref) bool }); ok {
		partial = !p.Complete(messages.Node)
	}
	if r, ok := x.src.(interface{ Redacted() bool }); partial || ok && r.Redacted() {
		if from > first {
			x.notice("its first records cannot be folded: they are of a bundle of some pods, or a redacted one")
		}
		return nil
	}
	st, err := statesBefore(ctx, x.src, from, func(seq uint64) { x.o.progress(seq, from) })
	if errors.Is(err, errNoBase) && from == first {
		x.notice("%v until the first set of snapshots in it", err)
		return nil
	}
	if errors.Is(err, errNoBase) || errors.Is(err, history.ErrNoManifest) {
		x.notice("it has no states at its beginning: %v", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("fold the records before %d: %w", from, err)
	}
	x.states, x.own = st, true
	return nil
}

func (x *export) header(from uint64) {
	first, last := x.src.Bounds()
	x.h = &journaletv1.BundleHeader{
		Node: x.src.Node(), Version: x.o.Version, WrittenAt: timestamppb.New(x.o.Now), Redacted: x.o.Redact,
		JournalFirst: first, JournalLast: last, From: from, To: x.to,
	}
	if r, ok := x.src.(interface{ Redacted() bool }); ok {
		x.h.Redacted = x.h.Redacted || r.Redacted()
	}
	if b, ok := x.src.(*Reader); ok && x.pods == nil && len(b.Header().GetPods()) > 0 {
		x.pods = pods{}
		for _, p := range b.Header().GetPods() {
			x.pods[p.GetUid()] = p
		}
	}
	x.h.Pods = x.pods.list()
}

// keeps reports whether the bundle holds the states of an actor.
func (x *export) keeps(ref messages.Ref) bool {
	return x.pods == nil || ref == messages.Agent ||
		ref.Kind == journaletv1.ActorKind_ACTOR_KIND_POD && x.pods[ref.ID] != nil
}

// snapshots writes the states at the beginning, and the journal's own sets within the records.
func (x *export) snapshots(ctx context.Context) error {
	if x.h.GetRedacted() {
		return nil
	}
	barriers, err := x.src.Snapshots(ctx)
	if err != nil {
		return err
	}
	if x.own {
		if err := x.set(x.states.begin-1, x.states.set); err != nil {
			return err
		}
	}
	for _, barrier := range barriers {
		if barrier < x.states.begin || barrier > x.to {
			continue
		}
		set, err := x.src.Snapshot(ctx, barrier)
		if err != nil {
			return err
		}
		if err := x.set(barrier, set); err != nil {
			return err
		}
	}
	return nil
}

func (x *export) set(barrier uint64, set []*journaletv1.Snapshot) error {
	kept := make([]*journaletv1.Snapshot, 0, len(set))
	for _, s := range set {
		ref := messages.RefOf(s.GetActor())
		if !x.keeps(ref) {
			continue
		}
		kept = append(kept, s)
		if d := fold.AllDeciders(ref); d != nil && d.Restore(s.GetState()) == nil {
			x.digests.each(d.State().ProtoReflect(), x.names)
		}
	}
	return x.w.Snapshots(barrier, kept)
}

func (x *export) names(digest string) {
	if digest != "" {
		x.named[digest] = true
	}
}

// records writes the records.
func (x *export) records(ctx context.Context) error {
	begin := x.states.begin
	total := x.to - begin + 1
	done := uint64(0)
	if x.choice != nil {
		done, total = total, 2*total
	}
	err := x.src.Read(ctx, begin, x.to, func(e history.Entry) error {
		done++
		x.o.progress(done, total)
		if !x.choice.has(e.Seq) {
			return nil
		}
		rec, err := e.Record()
		if err != nil {
			return problemf("record %d: %v", e.Seq, err)
		}
		x.nameManifests(rec)
		stored := e.Bytes
		if x.redact != nil {
			if stored, err = x.redact.record(rec); err != nil {
				return err
			}
		}
		x.r.RecordBytes += uint64(len(stored))
		return x.w.Record(stored, rec)
	})
	if errors.Is(err, history.ErrGone) {
		return fmt.Errorf("%w: retention removed it meanwhile; run the command again", err)
	}
	return err
}

// nameManifests notes the manifests that a record names. If the bundle is of some pods, it notes only their manifests.
func (x *export) nameManifests(rec *journaletv1.Record) {
	if x.h.GetRedacted() {
		return
	}
	author := messages.RefOf(rec.GetActor())
	for _, e := range messages.Events(rec) {
		if read := e.GetManifestsRead(); read != nil && x.pods != nil {
			for _, p := range history.NamedPods(e) {
				if x.pods[p.GetUid()] != nil {
					x.names(p.GetDigest())
				}
			}
		} else if x.pods == nil || x.pods.concern(author, e) {
			x.digests.each(e.ProtoReflect(), x.names)
		}
	}
}

// end writes the manifests and the index.
func (x *export) end(ctx context.Context) (*Result, error) {
	var missing []string
	for _, digest := range slices.Sorted(maps.Keys(x.named)) {
		b, err := x.src.Manifest(ctx, digest)
		if errors.Is(err, history.ErrNoManifest) {
			missing = append(missing, digest)
			continue
		}
		if err == nil {
			err = x.w.Manifest(digest, b)
		}
		if err != nil {
			return nil, err
		}
	}
	if n := len(missing); n > 0 {
		x.notice("%d manifests that it names are not in the journal any more", n)
	}
	x.w.index.Incomplete = x.states.incomplete
	version := ""
	if b, ok := x.src.(*Reader); ok {
		version = b.Index().GetAgentVersion()
	}
	for _, s := range x.states.set {
		if messages.RefOf(s.GetActor()) == messages.Agent {
			if run, err := messages.Decode(s.GetState()); err == nil {
				version = run.GetFact().GetAgentStarted().GetVersion()
			}
		}
	}
	index, err := x.w.Close(missing, version)
	if err != nil {
		return nil, err
	}
	if n := len(index.GetIncomplete()); n > 0 {
		x.notice("%d actors were quarantined before its first record, and do not fold", n)
	}
	x.r.Header, x.r.Index, x.r.Bytes = x.h, index, x.w.Size()
	return &x.r, nil
}
