package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
)

// flushEvery is how many records Store appends before it waits for them.
const flushEvery = 1000

// Store writes a simulated journal into a bus's directory, as an agent's runs would have: with its manifests and sets
// of snapshots. Records are synced to disk at the end only.
func Store(ctx context.Context, m *history.Memory, dir string) error {
	s := &storing{ctx: ctx, m: m, dir: dir}
	err := s.all()
	if s.bus != nil {
		if closed := s.bus.Close(ctx); err == nil {
			err = closed
		}
	}
	if err != nil {
		return fmt.Errorf("store a simulated journal: %w", err)
	}
	return nil
}

type storing struct {
	ctx   context.Context
	m     *history.Memory
	dir   string
	bus   *bus.Bus
	epoch uint64
}

func (s *storing) all() error {
	for _, rec := range s.m.Records {
		if err := s.reach(rec.GetEpoch()); err != nil {
			return err
		}
		// Not CloneOf: the appender sets other fields of the record, not of its body.
		err := s.bus.Journal().Append(&journaletv1.Record{Time: rec.GetTime(), Actor: rec.GetActor(), Body: rec.GetBody()})
		if err != nil {
			return err
		}
		if err := s.after(rec.GetSeq()); err != nil {
			return err
		}
	}
	if err := s.reach(1); err != nil {
		return err
	}
	for _, digest := range slices.Sorted(maps.Keys(s.m.Manifests)) {
		if err := s.bus.Manifests().Put(s.ctx, digest, s.m.Manifests[digest]); err != nil {
			return err
		}
	}
	return s.bus.Journal().Flush(s.ctx)
}

// after stores what follows a record: the set of snapshots that contains it.
func (s *storing) after(seq uint64) error {
	set := s.m.Sets[seq]
	if set == nil && seq%flushEvery != 0 {
		return nil
	}
	if err := s.bus.Journal().Flush(s.ctx); err != nil || set == nil {
		return err
	}
	return s.bus.Snapshots().Save(s.ctx, seq, set)
}

// reach opens the bus again until its run has at least this number.
func (s *storing) reach(epoch uint64) error {
	for s.epoch < epoch {
		if s.bus != nil {
			if err := s.bus.Close(s.ctx); err != nil {
				return err
			}
		}
		var err error
		s.bus, err = bus.Open(s.ctx, bus.Options{
			Dir: s.dir, Node: s.m.Name, Sync: bus.SyncPolicy{Interval: time.Minute}, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return err
		}
		s.epoch++
	}
	return nil
}
