package bundle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
)

// ErrNothing means that a journal holds nothing of what was requested.
var ErrNothing = errors.New("the journal holds nothing of that")

// span returns the first and the last record that were requested.
func (o *Options) span(src history.Reader) (from, to uint64, err error) {
	first, last := src.Bounds()
	if first > last {
		return 0, 0, fmt.Errorf("%w: it is empty", ErrNothing)
	}
	from, to = max(o.From, first), last
	if o.From > 0 && o.From < first {
		return 0, 0, fmt.Errorf("record %d: %w: the journal holds records %d to %d", o.From, history.ErrGone, first, last)
	}
	if o.To > 0 {
		to = min(to, o.To)
	}
	if from > to {
		return 0, 0, fmt.Errorf("%w: it holds records %d to %d, and none was requested of them", ErrNothing, first, last)
	}
	return from, to, nil
}

// choice is the set of records of a bundle of some pods.
type choice struct {
	first uint64
	// marks are the marks of the records from first on; back is how far before a record its cause is.
	marks []mark
	back  []uint32
	pods  pods
	names []string        // as requested
	named map[string]bool // the requested names that were found
}

// pods are the pods of a bundle, by UID.
type pods map[string]*journaletv1.BundlePod

// mark is what is known of a record.
type mark uint8

const (
	chosen    mark = 1 << iota
	continues      // it is a part of a step, and not the first one
	continued      // it is a part of a step, and not the last one
	present
)

// maxChoice bounds the records that are searched for pods: at 5 bytes each, 1 GiB.
const maxChoice = 200_000_000

// choosePods selects the records that concern the requested pods, and the records that led to these. It finds the pods'
// names in the states at the beginning, and in the records.
func choosePods(ctx context.Context, src history.Reader, o *Options, begin, to uint64,
	set []*journaletv1.Snapshot) (*choice, error) {
	if to-begin >= maxChoice {
		return nil, fmt.Errorf("%d records, and at most %d can be searched for pods: request fewer with --from and --to",
			to-begin+1, maxChoice)
	}
	c := &choice{
		first: begin, marks: make([]mark, to-begin+1), back: make([]uint32, to-begin+1), names: o.Pods,
		pods: pods{}, named: map[string]bool{},
	}
	for _, s := range set {
		if ref := messages.RefOf(s.GetActor()); ref.Kind == journaletv1.ActorKind_ACTOR_KIND_POD {
			st := &journaletv1.PodState{}
			if err := proto.Unmarshal(s.GetState(), st); err != nil {
				return nil, fmt.Errorf("state of %s: %w", ref, err)
			}
			c.consider(src.Node(), ref.ID, st.GetPod().GetNamespace(), st.GetPod().GetName())
			c.consider(src.Node(), ref.ID, st.GetReportedAs().GetNamespace(), st.GetReportedAs().GetName())
		}
	}
	err := src.Read(ctx, begin, to, func(e history.Entry) error {
		o.progress(e.Seq-begin, 2*(to-begin+1))
		rec, err := e.Record()
		if err != nil {
			return problemf("record %d: %v", e.Seq, err)
		}
		c.add(src.Node(), rec)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, name := range o.Pods {
		if !c.named[name] {
			return nil, fmt.Errorf("pod %s: %w: records %d to %d name no such pod; `journalet observe` shows those that they "+
				"name", name, ErrNothing, begin, to)
		}
	}
	c.addCauses()
	return c, nil
}

// consider adds a pod if it was requested.
func (c *choice) consider(node, uid, namespace, name string) {
	for _, want := range c.names {
		if uid == "" || want != uid && (name == "" || !history.MatchesName(want, node, namespace, name)) {
			continue
		}
		c.named[want] = true
		if p := c.pods[uid]; p == nil || p.GetName() == "" {
			c.pods[uid] = &journaletv1.BundlePod{Uid: uid, Namespace: namespace, Name: name}
		}
	}
}

// add considers a record.
func (c *choice) add(node string, rec *journaletv1.Record) {
	i := rec.GetSeq() - c.first
	c.marks[i] |= present
	author := messages.RefOf(rec.GetActor())
	for _, e := range messages.Events(rec) {
		for _, p := range history.NamedPods(e) {
			c.consider(node, p.GetUid(), p.GetNamespace(), p.GetName())
		}
		if o := e.GetPodObserved(); o.GetPodName() != "" {
			c.consider(node, o.GetUid(), o.GetPodNamespace(), o.GetPodName())
		}
		if len(c.named) < len(c.names) {
			for _, uid := range history.PodsOf(author, e) {
				c.consider(node, uid, "", "")
			}
		}
		if c.pods.concern(author, e) {
			c.marks[i] |= chosen
		}
	}
	if step := rec.GetStep(); step != nil {
		if step.GetOffset() > 0 {
			c.marks[i] |= continues
		}
		if step.GetMore() {
			c.marks[i] |= continued
		}
		if cause := step.GetCause(); cause >= c.first && cause < rec.GetSeq() {
			c.back[i] = uint32(rec.GetSeq() - cause)
		}
	}
}

// concern reports whether an event is about one of the pods, or goes to it or to all actors.
func (p pods) concern(author messages.Ref, e *journaletv1.Event) bool {
	audience, everyone := messages.Audience(author, e)
	if everyone || author == messages.Agent && e.GetQuarantined() == nil && e.GetQuarantineLifted() == nil {
		return true
	}
	for _, ref := range audience {
		if ref.Kind == journaletv1.ActorKind_ACTOR_KIND_POD && p[ref.ID] != nil {
			return true
		}
	}
	return slices.ContainsFunc(history.PodsOf(author, e), func(uid string) bool { return p[uid] != nil })
}

// addCauses adds the parts of the chosen steps and, backwards, the records that led to them.
func (c *choice) addCauses() {
	for i := range c.marks[:len(c.marks)-1] {
		if c.marks[i]&(chosen|continued) == chosen|continued {
			c.marks[i+1] |= chosen
		}
	}
	for i := len(c.marks) - 1; i >= 0; i-- {
		if c.marks[i]&chosen == 0 {
			continue
		}
		if c.back[i] > 0 {
			c.marks[i-int(c.back[i])] |= chosen
		}
		if c.marks[i]&continues != 0 && i > 0 {
			c.marks[i-1] |= chosen
		}
	}
}

// has reports whether a record is chosen; all are without a choice.
func (c *choice) has(seq uint64) bool { return c == nil || c.marks[seq-c.first]&chosen != 0 }

// list returns the pods by namespace and name.
func (p pods) list() []*journaletv1.BundlePod {
	return slices.SortedFunc(maps.Values(p), func(a, b *journaletv1.BundlePod) int {
		return slices.Compare([]string{a.GetNamespace(), a.GetName(), a.GetUid()},
			[]string{b.GetNamespace(), b.GetName(), b.GetUid()})
	})
}
