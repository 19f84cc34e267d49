package host

import (
	"fmt"
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
// goroutine, each heard by all before the next is stored: cells in the plainest of their orders.
// Stories drive it; simulation drives Cells.
type Core struct {
	cells   *Cells
	records []*journaletv1.Record
}

// NewCore makes a core with the actors that every node has.
func NewCore(deciders Deciders, manifest func(digest string) (*corev1.Pod, error), epoch uint64) *Core {
	return &Core{cells: NewCells(deciders, manifest, epoch)}
}

// Put appends a fact about an actor at a moment, and lets every actor handle it and all that follows
// from it. An error is the failure of an actor; the core cannot be used after it.
func (c *Core) Put(at time.Time, about messages.Ref, e *journaletv1.Event) error {
	return c.run(at, []*journaletv1.Record{{
		Time: timestamppb.New(at), Actor: about.Proto(), Body: &journaletv1.Record_Fact{Fact: e},
	}})
}

// handle lets actors handle all that waits for them, and gives their steps.
func (c *Core) handle(at time.Time, refs []messages.Ref) ([]*journaletv1.Record, error) {
	var steps []*journaletv1.Record
	for _, ref := range refs {
		for c.cells.Waiting(ref) > 0 {
			step, err := c.cells.Handle(ref, at)
			if err != nil {
				return nil, err
			}
			if step != nil {
				steps = append(steps, step)
			}
		}
	}
	return steps, nil
}

// RecoverCore makes a core by folding a journal, as a start of the host does. Records that an actor
// has no step for stay open until Resume.
func RecoverCore(deciders Deciders, manifest func(digest string) (*corev1.Pod, error), epoch uint64, journal []*journaletv1.Record) *Core {
	c := NewCore(deciders, manifest, epoch)
	for _, rec := range journal {
		c.cells.fold.record(rec)
	}
	c.cells.boxes, c.cells.fold.open = c.cells.fold.open, map[messages.Ref][]*delivery{}
	c.records = slices.Clone(journal)
	return c
}

// Resume lets every actor of a recovered core handle again what it has no step for, and all that
// follows. With started, that is the first record of a new run, and each actor hears of it after
// what it had left open, as in the host. Without, the old run goes on as if nothing had happened.
func (c *Core) Resume(at time.Time, started *journaletv1.AgentStarted) error {
	if started != nil {
		rec := &journaletv1.Record{
			Seq: uint64(len(c.records)) + 1, Epoch: c.cells.epoch, Time: timestamppb.New(at), Actor: messages.Agent.Proto(),
			Body: &journaletv1.Record_Fact{Fact: &journaletv1.Event{Kind: &journaletv1.Event_AgentStarted{AgentStarted: started}}},
		}
		c.records = append(c.records, rec)
		c.cells.Stored(rec)
	}
	waiting, err := c.handle(at, c.cells.Refs())
	if err != nil {
		return err
	}
	return c.run(at, waiting)
}

// run appends records in order, and all that follows from each.
func (c *Core) run(at time.Time, waiting []*journaletv1.Record) error {
	for len(waiting) > 0 {
		rec := waiting[0]
		waiting = waiting[1:]
		rec.Seq, rec.Epoch = uint64(len(c.records))+1, c.cells.epoch
		c.records = append(c.records, rec)
		steps, err := c.handle(at, c.cells.Stored(rec))
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
	return c.cells.Decider(ref)
}

// Replay folds the journal anew and compares every actor's state with the live one; the error names
// the first that differs.
func (c *Core) Replay() error {
	again := newFold(c.cells.fold.deciders, c.cells.fold.manifest)
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
	live, folded := c.cells.fold.hearers(), again.hearers()
	if len(live) != len(folded) {
		return fmt.Errorf("replay has %d actors, live running %d", len(folded), len(live))
	}
	slices.SortFunc(live, func(a, b messages.Ref) int { return strings.Compare(a.String(), b.String()) })
	for _, ref := range live {
		other := again.cells[ref]
		if other == nil {
			return fmt.Errorf("%s: missing after replay", ref)
		}
		if !proto.Equal(c.cells.fold.cells[ref].decider.State(), other.decider.State()) {
			return fmt.Errorf("%s: replay differs:\nlive   %v\nreplay %v", ref, c.cells.fold.cells[ref].decider.State(), other.decider.State())
		}
	}
	return nil
}
