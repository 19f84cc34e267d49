package history

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Memory is a journal in memory: of a simulation, or a part of another one.
type Memory struct {
	// Name is the node's name as a token of subjects.
	Name string
	// Records are in order.
	Records []*journaletv1.Record
	// Manifests are by digest, Sets are sets of snapshots by barrier.
	Manifests map[string][]byte
	Sets      map[uint64][]*journaletv1.Snapshot
}

// Node returns the node's name.
func (m *Memory) Node() string { return m.Name }

// Bounds returns the first and the last record.
func (m *Memory) Bounds() (first, last uint64) {
	if len(m.Records) == 0 {
		return 1, 0
	}
	return m.Records[0].GetSeq(), m.Records[len(m.Records)-1].GetSeq()
}

// Read passes records in order.
func (m *Memory) Read(ctx context.Context, from, to uint64, f func(Entry) error) error {
	first, last := m.Bounds()
	if from < first && from > 0 {
		return fmt.Errorf("record %d: %w: the journal begins with %d", from, ErrGone, first)
	}
	if to == 0 {
		to = last
	}
	for _, rec := range m.Records[m.index(from):] {
		if rec.GetSeq() > to {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := messages.Encode(rec)
		if err != nil {
			return err
		}
		if err := f(Entry{rec.GetSeq(), b}); err != nil {
			return err
		}
	}
	return nil
}

func (m *Memory) index(seq uint64) int {
	i, _ := slices.BinarySearchFunc(m.Records, seq, func(rec *journaletv1.Record, seq uint64) int {
		return int(int64(rec.GetSeq() - seq))
	})
	return i
}

// Get returns one record.
func (m *Memory) Get(_ context.Context, seq uint64) (*journaletv1.Record, error) {
	if first, _ := m.Bounds(); seq < first && seq > 0 {
		return nil, fmt.Errorf("record %d: %w: the journal begins with %d", seq, ErrGone, first)
	}
	if i := m.index(seq); i < len(m.Records) && m.Records[i].GetSeq() == seq {
		return m.Records[i], nil
	}
	return nil, fmt.Errorf("record %d: %w", seq, ErrNoRecord)
}

// Manifest returns the manifest with a digest.
func (m *Memory) Manifest(_ context.Context, digest string) ([]byte, error) {
	if b, ok := m.Manifests[digest]; ok {
		return b, nil
	}
	return nil, fmt.Errorf("manifest %s: %w", digest, ErrNoManifest)
}

// Snapshots returns the barriers of the sets.
func (m *Memory) Snapshots(context.Context) ([]uint64, error) {
	return slices.Sorted(maps.Keys(m.Sets)), nil
}

// Snapshot returns one set.
func (m *Memory) Snapshot(_ context.Context, barrier uint64) ([]*journaletv1.Snapshot, error) {
	if set, ok := m.Sets[barrier]; ok {
		return set, nil
	}
	return nil, fmt.Errorf("there is no set of snapshots at %d", barrier)
}
