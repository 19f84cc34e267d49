package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// MaxSets is how many sets of snapshots are kept: with the journal at its bound, a fold to any record reads at most
	// an eighth of it. A state of a pod has 1 to 2 KiB.
	MaxSets = 16
	// KeptForQuarantined bounds how many records below a set of snapshots are kept for a quarantined actor: at some 300
	// bytes each, 60 MB beyond the bounds of the journal. A quiet node appends fewer in a month.
	KeptForQuarantined = 200_000
)

// SnapshotSet describes a complete set of snapshots.
type SnapshotSet struct {
	// Barrier is the last record that the states contain.
	Barrier uint64
	// NeededAfter is the last record that no fold from this set needs; 0 if it is not known.
	NeededAfter uint64
	Taken       time.Time
	Actors      int
	Bytes       uint64 // of the states, as encoded
}

// NeededAfter returns the last record that no actor of a set needs any more: the set's barrier, or, within a bound, a
// lower record because a quarantined actor needs the records after it.
func NeededAfter(barrier uint64, set []*journaletv1.Snapshot) uint64 {
	needed := barrier
	for _, s := range set {
		if s.GetQuarantined() != nil {
			needed = min(needed, s.GetContained())
		}
	}
	return max(needed, barrier-min(barrier, KeptForQuarantined))
}

// Sets returns the complete sets in the order of their barriers.
func (s *Snapshots) Sets(ctx context.Context) ([]SnapshotSet, error) {
	names, err := s.sets(ctx)
	if err != nil {
		return nil, err
	}
	return s.complete(ctx, names)
}

// complete returns the complete sets, in the order of their barriers.
func (s *Snapshots) complete(ctx context.Context, names map[uint64][]string) ([]SnapshotSet, error) {
	var out []SnapshotSet
	for _, at := range slices.Sorted(maps.Keys(names)) {
		index, err := s.index(ctx, at, names[at])
		if errors.Is(err, errIncomplete) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the index of the snapshots at %d: %w", at, err)
		}
		out = append(out, setOf(at, index))
	}
	return out, nil
}

func setOf(barrier uint64, index *journaletv1.SnapshotIndex) SnapshotSet {
	return SnapshotSet{
		Barrier: barrier, NeededAfter: min(index.GetNeededAfter(), barrier), Taken: index.GetTime().AsTime(),
		Actors: int(index.GetActors()), Bytes: index.GetBytes(),
	}
}

// index returns the index of a set, errIncomplete if it has none or does not match the set's actors.
func (s *Snapshots) index(ctx context.Context, barrier uint64, names []string) (*journaletv1.SnapshotIndex, error) {
	if !slices.Contains(names, "") {
		return nil, errIncomplete
	}
	m, err := s.reader.latest(ctx, snapshotStream, s.subject(barrier, indexToken))
	if errors.Is(err, errNotStored) {
		return nil, errIncomplete
	}
	if err != nil {
		return nil, err
	}
	index := new(journaletv1.SnapshotIndex)
	if proto.Unmarshal(m.Data, index) != nil || int(index.GetActors()) != len(names)-1 {
		return nil, errIncomplete
	}
	return index, nil
}

// each passes the encoded states and indexes of all sets to f.
func (s *Snapshots) each(ctx context.Context, f func(state []byte)) error {
	return s.reader.each(ctx, snapshotStream, "", f)
}

// removeOthers removes the sets that are not kept, and what is left of incomplete ones. newest is the barrier of the
// set just stored; sets above it are of records that a crash has lost.
func (s *Snapshots) removeOthers(ctx context.Context, newest uint64) error {
	names, err := s.sets(ctx)
	if err != nil {
		return err
	}
	sets, err := s.complete(ctx, names)
	if err != nil {
		return err
	}
	sets = slices.DeleteFunc(sets, func(set SnapshotSet) bool { return set.Barrier > newest })
	for _, set := range thinned(sets, s.cutTo(), MaxSets) {
		delete(names, set.Barrier)
	}
	return s.remove(ctx, slices.Sorted(maps.Keys(names)))
}

// removeAbove removes the sets of records that are lost. Their numbers are used again.
func (s *Snapshots) removeAbove(ctx context.Context, last uint64) error {
	names, err := s.sets(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(names, func(at uint64, _ []string) bool { return at <= last })
	return s.remove(ctx, slices.Sorted(maps.Keys(names)))
}

func (s *Snapshots) remove(ctx context.Context, barriers []uint64) error {
	for _, at := range barriers {
		if err := s.stream.Purge(ctx, jetstream.WithPurgeSubject(s.subject(at, ">"))); err != nil {
			return fmt.Errorf("remove the snapshots at %d: %w", at, err)
		}
	}
	return nil
}

// thinned returns the sets to keep of sets in ascending order: the newest set, the base (a fold of the journal from its
// first record needs it), and at most limit in all. Of the others, sets whose neighbours are closest, by records and by
// time, go first. cut is 1 if retention has cut nothing: then the fold begins without a set.
func thinned(sets []SnapshotSet, cut uint64, limit int) []SnapshotSet {
	for len(sets) > 1 && sets[0].Barrier+1 < cut {
		sets = sets[1:] // records behind it are gone
	}
	sets = slices.Clone(sets)
	base := 0
	if cut > 1 {
		base = 1 // the first set stays
	}
	for len(sets) > max(limit, base+1) {
		drop := base
		for i := base + 1; i < len(sets)-1; i++ {
			if closeness(sets, i) < closeness(sets, drop) {
				drop = i
			}
		}
		sets = slices.Delete(sets, drop, drop+1)
	}
	return sets
}

// closeness returns how far the neighbours of set i, which is not the last one, are apart, as a share of all records
// and of all the time. The smaller it is, the less the set is worth.
func closeness(sets []SnapshotSet, i int) float64 {
	first, last := sets[0], sets[len(sets)-1]
	before, after := SnapshotSet{Taken: first.Taken}, sets[i+1]
	if i > 0 {
		before = sets[i-1]
	}
	share := float64(after.Barrier-before.Barrier) / float64(last.Barrier)
	if all := last.Taken.Sub(first.Taken); all > 0 { // a clock set back counts for nothing
		share += float64(max(after.Taken.Sub(before.Taken), 0)) / float64(all)
	}
	return share
}
