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
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	snapshotStream = "SNAPSHOTS"
	indexToken     = "index"
	// snapshotWindow is how many snapshots are in flight.
	snapshotWindow = 128
	// maxSnapshotBytes bounds one actor's state.
	maxSnapshotBytes = MaxManifestBytes
	// loadTries is how often Load tries if a Save replaces the set meanwhile.
	loadTries = 3
)

// Snapshots stores sets of the actors' folded states: the newest one, which a start folds from, and older ones spread
// over the journal, so that the state at any record is a short fold away. A set counts once its index is stored, which
// is done last.
type Snapshots struct {
	reader   *reader
	node     string
	blocks   *blocks
	stream   jetstream.Stream
	reopener reopener
	// cutTo and last are the journal's.
	cutTo, last func() uint64
}

func openSnapshots(ctx context.Context, r *reader, e *embedded, node string) (*Snapshots, error) {
	s, err := r.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name:              snapshotStream,
		Description:       "folded states of actors, by barrier",
		Subjects:          []string{messages.SnapshotPrefix(node) + ">"},
		Storage:           jetstream.FileStorage,
		MaxMsgsPerSubject: 1,
		AllowDirect:       true,
	})
	if err != nil {
		return nil, fmt.Errorf("bus: open the snapshots: %w", err)
	}
	return &Snapshots{reader: r, node: node, stream: s, blocks: &blocks{dir: streamDir(e.dir, snapshotStream)}}, nil
}

func (s *Snapshots) subject(barrier uint64, rest string) string {
	return snapshotSubject(s.node, barrier, rest)
}

// Save stores a complete set that contains all records up to barrier, which is above 0, and then removes sets that are
// not worth their space any more (ADR 032). On an error the sets before it stay. One Save at a time.
func (s *Snapshots) Save(ctx context.Context, barrier uint64, snaps []*journaletv1.Snapshot) error {
	begun := time.Now()
	if err := s.reopener.note(ctx, begun, s.save(ctx, barrier, snaps)); err != nil {
		return fmt.Errorf("save snapshots at %d: %w", barrier, err)
	}
	return nil
}

func (s *Snapshots) save(ctx context.Context, barrier uint64, snaps []*journaletv1.Snapshot) error {
	if barrier == 0 {
		return errors.New("the barrier must be above 0")
	}
	size := 0
	waiting := make([]jetstream.PubAckFuture, 0, snapshotWindow)
	for part := range slices.Chunk(snaps, snapshotWindow) {
		waiting = waiting[:0]
		for _, snap := range part {
			b, err := proto.MarshalOptions{Deterministic: true}.Marshal(snap)
			if err != nil {
				return err
			}
			size += len(b)
			r := messages.RefOf(snap.GetActor())
			if len(b) > maxSnapshotBytes {
				return fmt.Errorf("the state of %s has %d bytes, more than the limit of %d", r, len(b), maxSnapshotBytes)
			}
			f, err := s.reader.js.PublishAsync(s.subject(barrier, r.KindName()+"."+r.ID), b)
			if err != nil {
				return err
			}
			waiting = append(waiting, f)
		}
		if err := await(ctx, waiting); err != nil {
			return err
		}
	}
	// First the states, then the index that makes them complete, then the removal of other sets.
	if err := s.blocks.force(); err != nil {
		return err
	}
	b, err := proto.Marshal(&journaletv1.SnapshotIndex{
		Actors: uint32(len(snaps)), NeededAfter: NeededAfter(barrier, snaps), Time: timestamppb.Now(), Bytes: uint64(size),
	})
	if err != nil {
		return err
	}
	if _, err := s.reader.js.Publish(ctx, s.subject(barrier, indexToken), b); err != nil {
		return err
	}
	if err := s.blocks.force(); err != nil {
		return err
	}
	return s.removeOthers(ctx, barrier)
}

func await(ctx context.Context, waiting []jetstream.PubAckFuture) error {
	for _, f := range waiting {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// sets returns the actors of each set by its barrier; the index counts as an actor with an empty name.
func (s *Snapshots) sets(ctx context.Context) (map[uint64][]string, error) {
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(messages.SnapshotPrefix(s.node)+">"))
	if err != nil {
		return nil, fmt.Errorf("list the snapshots: %w", err)
	}
	return groupSets(s.node, maps.Keys(info.State.Subjects)), nil
}

// Load returns the newest complete set, in the order of the actors' names. If there is no complete set, the barrier is
// 0. Load skips incomplete sets, and sets of records that a crash has lost.
func (s *Snapshots) Load(ctx context.Context) (barrier uint64, snaps []*journaletv1.Snapshot, err error) {
	for range loadTries {
		var found bool
		if barrier, snaps, found, err = s.newest(ctx); err != nil || barrier > 0 || !found {
			return barrier, snaps, err
		}
		// A Save replaced the listed sets, or none of them is complete.
	}
	return 0, nil, nil
}

// newest is one attempt of Load; found reports whether there was any set.
func (s *Snapshots) newest(ctx context.Context) (barrier uint64, snaps []*journaletv1.Snapshot, found bool, err error) {
	sets, err := s.sets(ctx)
	if err != nil {
		return 0, nil, false, err
	}
	last := s.last()
	for _, at := range slices.Backward(slices.Sorted(maps.Keys(sets))) {
		if at > last {
			continue
		}
		snaps, err := s.load(ctx, at, sets[at])
		if err == nil {
			return at, snaps, true, nil
		}
		if !errors.Is(err, errIncomplete) {
			return 0, nil, false, fmt.Errorf("load snapshots at %d: %w", at, err)
		}
	}
	return 0, nil, len(sets) > 0, nil
}

var errIncomplete = errors.New("the set is not complete")

func (s *Snapshots) load(ctx context.Context, barrier uint64, names []string) ([]*journaletv1.Snapshot, error) {
	slices.Sort(names)
	if _, err := s.index(ctx, barrier, names); err != nil {
		return nil, err
	}
	snaps := make([]*journaletv1.Snapshot, 0, len(names)-1)
	for _, name := range names[1:] {
		m, err := s.reader.latest(ctx, snapshotStream, s.subject(barrier, name))
		if errors.Is(err, errNotStored) {
			return nil, errIncomplete
		}
		if err != nil {
			return nil, err
		}
		snap := new(journaletv1.Snapshot)
		if proto.Unmarshal(m.Data, snap) != nil {
			return nil, errIncomplete
		}
		snaps = append(snaps, snap)
	}
	return snaps, nil
}
