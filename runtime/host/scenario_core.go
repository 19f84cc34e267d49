package host

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

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
