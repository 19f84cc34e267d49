package timeline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
)

const (
	// DefaultLimit is how many events a picture holds at most if Options sets no limit: what a browser shows fluently.
	DefaultLimit = 10_000
	// foldedBefore is how many records before a picture's beginning are folded to know what was so at its beginning.
	foldedBefore = 100_000
)

// NoPodError means that no record that was read names a pod. It is a history.ErrNoRecord.
type NoPodError struct {
	Pod      string
	From, To uint64
}

func (e *NoPodError) Error() string {
	return fmt.Sprintf("no record from #%d to #%d names pod %s: without a pod, the picture shows all", e.From, e.To, e.Pod)
}

// Unwrap returns history.ErrNoRecord.
func (e *NoPodError) Unwrap() error { return history.ErrNoRecord }

// Options select what a picture shows.
type Options struct {
	// Pods are names, namespace/name or UIDs. None: the node with all its pods.
	Pods []string
	// From and To are the first and the last record; 0: the journal's bounds.
	From, To uint64
	// Limit is the greatest number of events; beyond it they are merged. 0: DefaultLimit.
	Limit int
	// Progress, if set, is called with records read and records to read.
	Progress func(done, total uint64)

	node string
}

// choice selects the pods of a picture.
type choice struct {
	wanted []string
	node   string
	// part, of a journal that holds only some pods, reports whether it holds all records of an actor.
	part func(messages.Ref) bool
	// uids maps the UIDs that the wanted pods have had, as far as they are known, to the entries of wanted.
	uids map[string][]string
}

// learn adds the UIDs that an event names. It gets each event once, in order.
func (c *choice) learn(e *journaletv1.Event) {
	if len(c.wanted) == 0 {
		return
	}
	for _, p := range history.NamedPods(e) {
		c.name(p.GetUid(), p.GetNamespace(), p.GetName())
	}
	if o := e.GetPodObserved(); o.GetPodName() != "" { // the name of an orphan is nowhere else
		c.name(o.GetUid(), o.GetPodNamespace(), o.GetPodName())
	}
}

func (c *choice) name(uid, namespace, name string) {
	for _, wanted := range c.wanted {
		if len(c.uids) < maxPods && !slices.Contains(c.uids[uid], wanted) &&
			history.MatchesName(wanted, c.node, namespace, name) {
			c.uids[uid] = append(c.uids[uid], wanted)
		}
	}
}

// shows reports whether the picture shows the pod with a UID.
func (c *choice) shows(uid string) bool {
	if len(c.wanted) == 0 {
		return c.part == nil || c.part(messages.Pod(uid))
	}
	return len(c.uids[uid]) > 0 || slices.Contains(c.wanted, uid)
}

// Read draws a part of a journal. It returns a NoPodError if a pod that Options names is in no record that it read.
func Read(ctx context.Context, r history.Reader, o Options) (*Timeline, error) {
	first, last := r.Bounds()
	if first > last {
		return nil, fmt.Errorf("the journal is empty: %w", history.ErrNoRecord)
	}
	from, to := max(o.From, first), last
	if o.To > 0 {
		to = min(o.To, last)
	}
	if from > to {
		return nil, fmt.Errorf("there is no record from #%d to #%d: %w: the journal holds #%d to #%d", o.From, o.To,
			history.ErrNoRecord, first, last)
	}
	o.node = r.Node()
	b := newBuilder(o)
	if whole, ok := r.(interface{ Complete(ref messages.Ref) bool }); ok && !whole.Complete(messages.Node) {
		b.choice.part = whole.Complete
	}
	if err := b.learnNames(ctx, r); err != nil {
		return nil, err
	}
	begin := first
	if from > first+foldedBefore {
		begin = from - foldedBefore
	}
	err := r.Read(ctx, begin, to, func(e history.Entry) error {
		if o.Progress != nil && e.Seq%4096 == 0 {
			o.Progress(e.Seq-begin, to-begin)
		}
		return b.read(e, from)
	})
	if err != nil {
		return nil, err
	}
	if err := b.unknown(begin); err != nil {
		return nil, err
	}
	t := b.timeline()
	t.Node = cmp.Or(b.agent.node, r.Node())
	if begin > first {
		t.Notes = append(t.Notes, fmt.Sprintf("what was so at the beginning was folded from record #%d on", begin))
	}
	return t, b.explain(ctx, r, t)
}

// learnNames reads the names of pods from the first and the last set of snapshots: retention may have cut the records
// that named them.
func (b *builder) learnNames(ctx context.Context, r history.Reader) error {
	barriers, err := r.Snapshots(ctx)
	if err != nil || len(barriers) == 0 {
		return err
	}
	for _, barrier := range slices.Compact([]uint64{barriers[0], barriers[len(barriers)-1]}) {
		set, err := r.Snapshot(ctx, barrier)
		if err != nil {
			return err
		}
		for _, snapshot := range set {
			state := &journaletv1.PodState{}
			if snapshot.GetActor().GetKind() != journaletv1.ActorKind_ACTOR_KIND_POD ||
				proto.Unmarshal(snapshot.GetState(), state) != nil {
				continue
			}
			uid, p := snapshot.GetActor().GetId(), state.GetPod()
			if p.GetName() == "" {
				p = state.GetReportedAs()
			}
			if p.GetName() != "" {
				b.names[uid] = p.GetNamespace() + "/" + p.GetName()
				b.describe.Name(uid, p.GetNamespace(), p.GetName())
				b.choice.name(uid, p.GetNamespace(), p.GetName())
			}
		}
	}
	return nil
}

// read adds a record, or passes it. The picture begins with the record from.
func (b *builder) read(e history.Entry, from uint64) error {
	at, skip := b.skim(e)
	var rec *journaletv1.Record
	if !skip {
		var err error
		if rec, err = e.Record(); err != nil {
			return fmt.Errorf("record %d: %w", e.Seq, err)
		}
		at = rec.GetTime().AsTime()
	}
	if b.from == nil && e.Seq >= from {
		b.begins(e.Seq, at)
	}
	if skip {
		b.pass(e.Seq, at)
	} else {
		b.add(rec)
	}
	return nil
}

// unknown returns an error for the first pod that is in no record.
func (b *builder) unknown(begin uint64) error {
	for _, pod := range b.o.Pods {
		shown := slices.ContainsFunc(slices.Collect(maps.Keys(b.pods)), func(uid string) bool {
			return uid == pod || slices.Contains(b.choice.uids[uid], pod)
		})
		if !shown {
			return &NoPodError{pod, begin, b.last}
		}
	}
	return nil
}

// begins notes where the picture begins, before the record is added.
func (b *builder) begins(seq uint64, t time.Time) {
	probe := b.clock
	b.from = &beginning{seq: seq, at: millis(probe.place(seq, t)), time: t, steps: len(probe.steps)}
}

// beginning is where a picture begins.
type beginning struct {
	seq   uint64
	at    float64
	time  time.Time
	steps int
}
