package host

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Core runs the actors over a journal in memory, one record after the other on the caller's
// goroutine: the same cells and the same fold as the host, without protoactor, bus or clock.
// Scenarios and simulation drive it.
type Core struct {
	fold    *fold
	epoch   uint64
	records []*journaletv1.Record
}

// NewCore makes a core with the actors that every node has.
func NewCore(deciders Deciders, manifest func(digest string) (*corev1.Pod, error), epoch uint64) *Core {
	c := &Core{fold: newFold(deciders, manifest), epoch: epoch}
	for _, ref := range singletons {
		c.fold.bear(ref)
	}
	return c
}

// Put appends a fact about an actor at a moment, and lets every actor handle it and all that follows
// from it. An error is the failure of an actor; the core cannot be used after it.
func (c *Core) Put(at time.Time, about messages.Ref, e *journaletv1.Event) error {
	return c.run(at, []*journaletv1.Record{{
		Time: timestamppb.New(at), Actor: about.Proto(), Body: &journaletv1.Record_Fact{Fact: e},
	}})
}

func (c *Core) deliver(at time.Time, rec *journaletv1.Record) ([]*journaletv1.Record, error) {
	c.fold.lifecycle(rec)
	var steps []*journaletv1.Record
	to := route(rec, c.fold.hearers)
	refs := slices.SortedFunc(maps.Keys(to), func(a, b messages.Ref) int { return strings.Compare(a.String(), b.String()) })
	for _, ref := range refs {
		d := to[ref]
		cell := c.fold.cells[ref]
		if cell == nil && bearing(ref, d) {
			cell = c.fold.bear(ref)
		}
		if cell == nil {
			continue
		}
		c.fold.resolve(d)
		step, fail := cell.handle(d, c.epoch, at)
		if fail != nil {
			return nil, fmt.Errorf("%s: %w", ref, fail)
		}
		if step != nil {
			steps = append(steps, step)
		}
	}
	c.fold.forget(rec)
	return steps, nil
}

// RecoverCore makes a core by folding a journal, as a start of the host does. Records that an actor
// has no step for stay open until Resume.
func RecoverCore(deciders Deciders, manifest func(digest string) (*corev1.Pod, error), epoch uint64, journal []*journaletv1.Record) *Core {
	c := NewCore(deciders, manifest, epoch)
	for _, rec := range journal {
		c.fold.record(rec)
	}
	c.records = slices.Clone(journal)
	return c
}

// Resume lets every actor of a recovered core handle again what it has no step for, and all that
// follows. With started, that is the first record of a new run, and each actor hears of it after
// what it had left open, as in the host. Without, the old run goes on as if nothing had happened.
func (c *Core) Resume(at time.Time, started *journaletv1.AgentStarted) error {
	var waiting []*journaletv1.Record
	var start *delivery
	if started != nil {
		rec := &journaletv1.Record{
			Seq: uint64(len(c.records)) + 1, Epoch: c.epoch, Time: timestamppb.New(at), Actor: messages.Agent.Proto(),
			Body: &journaletv1.Record_Fact{Fact: &journaletv1.Event{Kind: &journaletv1.Event_AgentStarted{AgentStarted: started}}},
		}
		c.records = append(c.records, rec)
		c.fold.lifecycle(rec)
		start = &delivery{rec: rec, heard: []int{0}}
	}
	order := slices.SortedFunc(maps.Keys(c.fold.cells), func(a, b messages.Ref) int { return cmp.Compare(a.String(), b.String()) })
	for _, ref := range order {
		open := c.fold.open[ref]
		delete(c.fold.open, ref)
		if start != nil {
			open = append(open, start)
		}
		for _, d := range open {
			c.fold.resolve(d)
			step, fail := c.fold.cells[ref].handle(d, c.epoch, at)
			if fail != nil {
				return fail
			}
			if step != nil {
				waiting = append(waiting, step)
			}
		}
	}
	return c.run(at, waiting)
}

// run appends records in order, and all that follows from each.
func (c *Core) run(at time.Time, waiting []*journaletv1.Record) error {
	for len(waiting) > 0 {
		rec := waiting[0]
		waiting = waiting[1:]
		rec.Seq, rec.Epoch = uint64(len(c.records))+1, c.epoch
		c.records = append(c.records, rec)
		steps, err := c.deliver(at, rec)
		if err != nil {
			return err
		}
		waiting = append(waiting, steps...)
	}
	return nil
}

// Records is the journal so far.
func (c *Core) Records() []*journaletv1.Record { return c.records }

// Decider is an actor's decider, nil if there is no such actor.
func (c *Core) Decider(ref messages.Ref) actors.Decider {
	if cell := c.fold.cells[ref]; cell != nil {
		return cell.decider
	}
	return nil
}

// Replay folds the journal anew and compares every actor's state with the live one; the error names
// the first that differs.
func (c *Core) Replay() error {
	again := newFold(c.fold.deciders, c.fold.manifest)
	for _, ref := range singletons {
		again.bear(ref)
	}
	for _, rec := range c.records {
		again.record(rec)
	}
	for _, ref := range again.hearers() {
		for _, d := range again.open[ref] {
			again.resolve(d)
			if fail := again.cells[ref].refold(d, nil); fail != nil {
				return fmt.Errorf("%s: %w", ref, fail)
			}
		}
	}
	live, folded := c.fold.hearers(), again.hearers()
	if len(live) != len(folded) {
		return fmt.Errorf("replay has %d actors, live running %d", len(folded), len(live))
	}
	slices.SortFunc(live, func(a, b messages.Ref) int { return strings.Compare(a.String(), b.String()) })
	for _, ref := range live {
		other := again.cells[ref]
		if other == nil {
			return fmt.Errorf("%s: missing after replay", ref)
		}
		if !proto.Equal(c.fold.cells[ref].decider.State(), other.decider.State()) {
			return fmt.Errorf("%s: replay differs:\nlive   %v\nreplay %v", ref, c.fold.cells[ref].decider.State(), other.decider.State())
		}
	}
	return nil
}
