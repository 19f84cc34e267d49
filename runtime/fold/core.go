package fold

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

// Core runs the actors over a journal in memory on the caller's goroutine: all actors handle a record before the next
// is stored, the simplest order of Cells. Scenarios use Core, simulation uses Cells.
type Core struct {
	cells   *Cells
	records []*journaletv1.Record
}

// NewCore returns a core with the actors that every node has.
func NewCore(deciders Deciders, manifest func(digest string) (*corev1.Pod, error), epoch uint64) *Core {
	return &Core{cells: NewCells(deciders, manifest, epoch)}
}

// Put appends a fact about an actor at a time, and makes the actors handle it and all resulting steps. An error is the
// failure of an actor; the core must not be used after it.
func (c *Core) Put(at time.Time, about messages.Ref, e *journaletv1.Event) error {
	return c.run(at, []*journaletv1.Record{{
		Time: timestamppb.New(at), Actor: about.Proto(), Body: &journaletv1.Record_Fact{Fact: e},
	}})
}

// handle makes actors handle their queues and returns the steps.
func (c *Core) handle(at time.Time, refs []messages.Ref) ([]*journaletv1.Record, error) {
	var steps []*journaletv1.Record
	for _, ref := range refs {
		for c.cells.Waiting(ref) > 0 {
			step, err := c.cells.Handle(ref, at)
			if err != nil {
				return nil, err
			}
			steps = append(steps, step...)
		}
	}
	return steps, nil
}

// RecoverCore folds a journal, as a start of the host does. A record that an actor took no step on is pending until
// Resume.
func RecoverCore(deciders Deciders, manifest func(digest string) (*corev1.Pod, error), epoch uint64,
	journal []*journaletv1.Record) *Core {
	c := NewCore(deciders, manifest, epoch)
	for _, rec := range journal {
		c.cells.fold.Record(rec)
	}
	c.cells.boxes, c.cells.fold.Pending = c.cells.fold.Pending, map[messages.Ref][]*Delivery{}
	c.records = slices.Clone(journal)
	return c
}

// Resume makes every actor of a recovered core handle its pending records, and all resulting steps. With started, a new
// run starts: each actor handles AgentStarted after its pending records, as in the host. Without, the old run
// continues.
func (c *Core) Resume(at time.Time, started *journaletv1.AgentStarted) error {
	if started != nil {
		rec := &journaletv1.Record{
			Seq: uint64(len(c.records)) + 1, Epoch: c.cells.epoch, Time: timestamppb.New(at), Actor: messages.Agent.Proto(),
			Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(started)},
		}
		c.records = append(c.records, rec)
		c.cells.Stored(rec)
	}
	steps, err := c.handle(at, c.cells.Refs())
	if err != nil {
		return err
	}
	return c.run(at, steps)
}

// run appends records in order, each with all resulting steps.
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

// Records returns the journal so far.
func (c *Core) Records() []*journaletv1.Record { return c.records }

// Refs returns the actors, sorted.
func (c *Core) Refs() []messages.Ref { return c.cells.Refs() }

// Decider returns an actor's decider, nil if there is no such actor.
func (c *Core) Decider(ref messages.Ref) actors.Decider {
	return c.cells.Decider(ref)
}

// Replay folds the journal again and compares every actor's state with the live one. The error names the first actor
// that differs.
func (c *Core) Replay() error {
	again := New(c.cells.fold.deciders, c.cells.fold.manifest)
	again.CreateSingletons()
	for _, rec := range c.records {
		again.Record(rec)
	}
	for _, ref := range again.refs() {
		for _, d := range again.Pending[ref] {
			again.Resolve(d)
			if fail := again.Cells[ref].Refold(d, nil); fail != nil {
				return fmt.Errorf("%s: %w", ref, fail)
			}
		}
	}
	live, folded := c.cells.fold.refs(), again.refs()
	if len(live) != len(folded) {
		return fmt.Errorf("replay has %d actors, live %d", len(folded), len(live))
	}
	slices.SortFunc(live, func(a, b messages.Ref) int { return strings.Compare(a.String(), b.String()) })
	for _, ref := range live {
		other := again.Cells[ref]
		if other == nil {
			return fmt.Errorf("%s: missing after replay", ref)
		}
		if !proto.Equal(c.cells.fold.Cells[ref].Decider.State(), other.Decider.State()) {
			return fmt.Errorf("%s: replay differs:\nlive   %v\nreplay %v",
				ref, c.cells.fold.Cells[ref].Decider.State(), other.Decider.State())
		}
	}
	return nil
}
