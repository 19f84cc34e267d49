package fold

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Cells runs the actors one delivery at a time on the caller's goroutine: the cells, the fold and the routes of the
// host, without protoactor, bus or clock. The caller chooses when a record is stored and which actor handles its next
// record, and so can produce every order that is possible in the host. After an error of Handle it must not be used.
type Cells struct {
	fold  *Fold
	epoch uint64
	boxes map[messages.Ref][]*Delivery
}

// NewCells returns the actors that every node has.
func NewCells(deciders Deciders, manifest func(digest string) (*corev1.Pod, error), epoch uint64) *Cells {
	c := &Cells{fold: New(deciders, manifest), epoch: epoch, boxes: map[messages.Ref][]*Delivery{}}
	c.fold.CreateSingletons()
	return c
}

// RecoverCells folds a set of snapshots, if there is one, and the records after it, as a start of the host does.
// A record that an actor took no step on is queued for the actor again.
func RecoverCells(
	deciders Deciders, manifest func(digest string) (*corev1.Pod, error), epoch uint64,
	snaps []*journaletv1.Snapshot, journal []*journaletv1.Record,
) (*Cells, error) {
	c := &Cells{fold: New(deciders, manifest), epoch: epoch, boxes: map[messages.Ref][]*Delivery{}}
	for _, s := range snaps {
		if err := c.fold.Restore(s); err != nil {
			return nil, err
		}
	}
	c.fold.CreateSingletons()
	for _, rec := range journal {
		if err := CheckRecord(rec); err != nil {
			return nil, err
		}
		c.fold.Record(rec)
	}
	c.boxes, c.fold.Pending = c.fold.Pending, map[messages.Ref][]*Delivery{}
	return c, nil
}

// Stored queues a stored record for the actors that it concerns and returns them, sorted. The parts of a step count
// with the last one.
func (c *Cells) Stored(rec *journaletv1.Record) []messages.Ref {
	if rec = c.fold.parts.Join(rec); rec == nil {
		return nil
	}
	c.fold.lifecycle(rec)
	to := Route(rec, c.fold.refs)
	refs := sortedRefs(to)
	refs = slices.DeleteFunc(refs, func(ref messages.Ref) bool {
		if c.fold.Cells[ref] == nil && (!Creates(ref, to[ref]) || c.fold.create(ref) == nil) {
			return true
		}
		c.boxes[ref] = append(c.boxes[ref], to[ref])
		return false
	})
	c.fold.forget(rec)
	maps.DeleteFunc(c.boxes, func(ref messages.Ref, _ []*Delivery) bool { return c.fold.Cells[ref] == nil })
	return refs
}

// Waiting returns the number of records queued for an actor.
func (c *Cells) Waiting(ref messages.Ref) int { return len(c.boxes[ref]) }

// Handle makes an actor handle the next record in its queue and returns its step to record, in its parts; none if the
// actor decides nothing or the queue is empty.
func (c *Cells) Handle(ref messages.Ref, now time.Time) ([]*journaletv1.Record, error) {
	box, cell := c.boxes[ref], c.fold.Cells[ref]
	if len(box) == 0 || cell == nil {
		return nil, nil
	}
	if c.boxes[ref] = box[1:]; len(box) == 1 {
		delete(c.boxes, ref)
	}
	c.fold.Resolve(box[0])
	step, fail := cell.Handle(box[0], c.epoch, now)
	if fail != nil {
		return nil, fmt.Errorf("%s: %w", ref, fail)
	}
	return step, nil
}

// Refs returns the actors, sorted.
func (c *Cells) Refs() []messages.Ref { return c.fold.Refs() }

// Each implements Recovered.
func (c *Cells) Each(do func(messages.Ref, actors.Decider)) {
	for _, ref := range c.Refs() {
		do(ref, c.fold.Cells[ref].Decider)
	}
}

// Decider returns an actor's decider, read-only; nil if there is no such actor.
func (c *Cells) Decider(ref messages.Ref) actors.Decider {
	if cell := c.fold.Cells[ref]; cell != nil {
		return cell.Decider
	}
	return nil
}

// Handled returns the last record that an actor has handled, 0 for none.
func (c *Cells) Handled(ref messages.Ref) uint64 {
	if cell := c.fold.Cells[ref]; cell != nil {
		return cell.Handled
	}
	return 0
}

// Pending calls do for the records queued for an actor, in order.
func (c *Cells) Pending(ref messages.Ref, do func(*journaletv1.Record)) {
	for _, d := range c.boxes[ref] {
		do(d.Rec)
	}
}

// Snapshots returns the states of all actors. No record may be queued.
func (c *Cells) Snapshots() ([]*journaletv1.Snapshot, error) {
	if len(c.boxes) > 0 {
		return nil, fmt.Errorf("snapshots: records are queued for %d actors", len(c.boxes))
	}
	var snaps []*journaletv1.Snapshot
	if c.fold.Started != nil {
		run, err := messages.Encode(c.fold.Started)
		if err != nil {
			return nil, err
		}
		snaps = append(snaps, &journaletv1.Snapshot{Actor: messages.Agent.Proto(), State: run})
	}
	for _, ref := range c.Refs() {
		cell := c.fold.Cells[ref]
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(cell.Decider.State())
		if err != nil {
			return nil, fmt.Errorf("snapshot of %s: %w", ref, err)
		}
		snaps = append(snaps, &journaletv1.Snapshot{Actor: ref.Proto(), Handled: cell.Handled, State: b})
	}
	return snaps, nil
}

// Refs returns all actors, sorted by kind and id.
func (f *Fold) Refs() []messages.Ref { return sortedRefs(f.Cells) }

func sortedRefs[V any](m map[messages.Ref]V) []messages.Ref {
	return slices.SortedFunc(maps.Keys(m), func(a, b messages.Ref) int {
		return strings.Compare(a.String(), b.String())
	})
}
