package bundle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// states are the states of all actors before the first record of a bundle.
type states struct {
	// begin is the first record that the bundle must hold, so that these states fold on. The states contain the
	// records before begin.
	begin uint64
	set   []*journaletv1.Snapshot
	// incomplete are the actors that do not fold from here, as kind/id: they were quarantined, and have missed records.
	incomplete []string
}

// statesBefore folds the journal up to the record before from. An actor that has not handled one of these records by
// then, with a decision that comes later, needs that record in the bundle: begin is the first such record, mostly a
// few records before from. States may contain more than the records before begin, but no record from from on.
func statesBefore(ctx context.Context, src history.Reader, from uint64, progress func(uint64)) (*states, error) {
	f, at, err := restoreBase(ctx, src, from-1)
	if err != nil {
		return nil, err
	}
	gone := &forgotten{}
	if at < from {
		err := src.Read(ctx, at, from-1, func(e history.Entry) error {
			progress(e.Seq)
			rec, err := e.Record()
			if err != nil {
				return problemf("record %d: %v", e.Seq, err)
			}
			return guarded(e.Seq, func() error {
				if err := fold.CheckRecord(rec); err != nil {
					return err
				}
				if e.Seq <= f.Barrier {
					f.Missed(rec)
					return nil
				}
				gone.add(f, rec)
				f.Record(rec)
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
	}
	s := &states{begin: from}
	if err := s.collect(f, from); err != nil {
		return nil, err
	}
	return s, s.addForgotten(f, gone)
}

// forgotten are actors that the fold has dropped, the newest last. A bundle that begins before the record that dropped
// an actor may hold a late step of that actor.
type forgotten []struct {
	seq  uint64
	cell *fold.Cell
}

// maxForgotten bounds the forgotten actors: a bundle begins a few records before the first requested record.
const maxForgotten = 4096

func (f *forgotten) add(in *fold.Fold, rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		c := in.Cells[messages.Pod(e.GetPodForgotten().GetUid())]
		if e.GetPodForgotten() == nil || c == nil {
			continue
		}
		if len(*f) == maxForgotten {
			*f = slices.Delete(*f, 0, maxForgotten/2)
		}
		*f = append(*f, struct {
			seq  uint64
			cell *fold.Cell
		}{rec.GetSeq(), c})
	}
}

// addForgotten adds the actors that are dropped by a record of the bundle.
func (s *states) addForgotten(in *fold.Fold, gone *forgotten) error {
	for _, g := range *gone {
		if g.seq < s.begin || in.Cells[g.cell.Ref] != nil {
			continue
		}
		in.Cells[g.cell.Ref] = g.cell // two of one UID are one actor
		if err := s.add(g.cell); err != nil {
			return err
		}
	}
	return nil
}

// add adds the state of an actor.
func (s *states) add(c *fold.Cell) error {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c.Decider.State())
	if err != nil {
		return fmt.Errorf("state of %s: %w", c.Ref, err)
	}
	s.set = append(s.set, &journaletv1.Snapshot{Actor: c.Ref.Proto(), Handled: c.Handled, State: b})
	return nil
}

// guarded turns a panic of a decider into an error.
func guarded(seq uint64, do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("record %d cannot be folded: panic: %v", seq, p)
		}
	}()
	return do()
}

// errNoBase means that no set of snapshots replaces the records that retention cut.
var errNoBase = errors.New("no set of snapshots replaces the records that were cut: nothing can be folded")

// restoreBase returns a fold of the newest set with a barrier of at most last, and the record to fold on with.
func restoreBase(ctx context.Context, src history.Reader, last uint64) (*fold.Fold, uint64, error) {
	f := fold.New(fold.AllDeciders, func(digest string) (*corev1.Pod, error) {
		b, err := src.Manifest(ctx, digest)
		if err != nil {
			return nil, err
		}
		return manifest.Load(b)
	})
	barriers, err := src.Snapshots(ctx)
	if err != nil {
		return nil, 0, err
	}
	first, _ := src.Bounds()
	for _, barrier := range slices.Backward(barriers) {
		if barrier > last || barrier+1 < first {
			continue
		}
		set, err := src.Snapshot(ctx, barrier)
		if err != nil {
			return nil, 0, err
		}
		f.Barrier = barrier
		from := barrier + 1
		for _, s := range set {
			if err := guarded(barrier, func() error { return f.Restore(s) }); err != nil {
				return nil, 0, fmt.Errorf("snapshots at %d: %w", barrier, err)
			}
			if s.GetQuarantined() != nil {
				from = min(from, max(first, s.GetContained()+1))
			}
		}
		f.CreateSingletons()
		return f, from, nil
	}
	if first > 1 {
		return nil, 0, errNoBase
	}
	f.CreateSingletons()
	return f, 1, nil
}

// collect adds the states of a fold of all records before from.
func (s *states) collect(f *fold.Fold, from uint64) error {
	if f.Started != nil {
		run, err := messages.Encode(f.Started)
		if err != nil {
			return err
		}
		s.set = append(s.set, &journaletv1.Snapshot{Actor: messages.Agent.Proto(), State: run})
	}
	refs := slices.SortedFunc(maps.Keys(f.Cells), func(a, b messages.Ref) int {
		return strings.Compare(a.String(), b.String())
	})
	for _, ref := range refs {
		c := f.Cells[ref]
		if c.Quarantined == nil {
			if err := handleQuiet(f, c); err != nil {
				return err
			}
		}
		if err := s.add(c); err != nil {
			return err
		}
		snap := s.set[len(s.set)-1]
		switch pending := f.Pending[ref]; {
		case c.Quarantined != nil:
			snap.Quarantined, snap.Contained = c.Quarantined, from-1
			if len(pending) > 0 || c.Diverged {
				s.incomplete = append(s.incomplete, ref.String())
			}
		case len(pending) > 0:
			s.begin = min(s.begin, pending[0].Seq())
		}
	}
	return nil
}

var errDecides = errors.New("it decides")

// handleQuiet folds an actor's pending records up to the first record that the actor decides something on. A record
// without a decision leaves no step, and folds the same whether it was handled or not.
func handleQuiet(f *fold.Fold, c *fold.Cell) error {
	pending := f.Pending[c.Ref]
	for len(pending) > 0 {
		b, err := proto.Marshal(c.Decider.State())
		if err != nil {
			return fmt.Errorf("state of %s: %w", c.Ref, err)
		}
		trial, err := f.Cell(&journaletv1.Snapshot{Actor: c.Ref.Proto(), Handled: c.Handled, State: b})
		if err != nil {
			return err
		}
		f.Resolve(pending[0])
		decides := func(*journaletv1.Event) error { return errDecides }
		if trial.Decide(pending[0], 0, decides) != nil || c.Refold(pending[0], nil) != nil {
			break
		}
		pending = pending[1:]
	}
	f.Pending[c.Ref] = pending
	return nil
}
