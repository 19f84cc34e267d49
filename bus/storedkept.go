package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// kept is where the newest message of a subject is.
type kept struct {
	block, seq uint64
	at, size   int
}

// keptMessages finds the messages of a stream that keeps the newest one of each subject.
type keptMessages struct {
	stream string

	mu    sync.Mutex
	index map[string]kept // nil: not read yet
}

// scan reads all blocks and returns where each message is.
func (k *keptMessages) scan(ctx context.Context, s *Stored) (map[string]kept, error) {
	index, subjects := map[string]kept{}, map[uint64]string{}
	bl := s.blocks(k.stream)
	numbers, err := s.numbers(bl)
	if err != nil {
		return nil, err
	}
	prefix := strings.ToLower(strings.TrimSuffix(k.stream, "S")) + "."
	return index, bl.eachBlock(ctx, k.stream, prefix, numbers, func(c *block) error {
		if c.err != nil {
			return c.err
		}
		for i := range c.places {
			p := &c.places[i]
			switch {
			case p.bad != nil:
			case p.removes:
				if at := subjects[p.seq]; index[at].seq == p.seq {
					delete(index, at)
				}
				delete(subjects, p.seq)
			case p.isRecord():
				subject := string(p.subject)
				delete(subjects, index[subject].seq)
				index[subject], subjects[p.seq] = kept{c.number, p.seq, p.at, p.size}, subject
			}
		}
		return nil
	})
}

// subjects returns the subjects with a message, and where it is.
func (k *keptMessages) subjects(ctx context.Context, s *Stored) (index map[string]kept, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.index == nil {
		k.index, err = k.scan(ctx, s)
	}
	return k.index, err
}

// get returns the newest message of a subject; errNotStored if the subject has no message. A running agent may have
// moved or removed the message since its files were read; then get reads the files again.
func (k *keptMessages) get(ctx context.Context, s *Stored, subject string) ([]byte, error) {
	index, err := k.subjects(ctx, s)
	if err != nil {
		return nil, err
	}
	if b := k.read(s, index[subject], subject); b != nil {
		return b, nil
	}
	if index, err = k.scan(ctx, s); err != nil {
		return nil, err
	}
	k.mu.Lock()
	k.index = index
	k.mu.Unlock()
	if b := k.read(s, index[subject], subject); b != nil {
		return b, nil
	}
	return nil, errNotStored
}

// read returns a message, nil if it is not there.
func (k *keptMessages) read(s *Stored, at kept, subject string) []byte {
	if at.seq == 0 {
		return nil
	}
	b, err := s.blocks(k.stream).readAt(at.block, at.at, at.size)
	if err != nil {
		return nil
	}
	fr, err := parseFrame(b, blockSum(k.stream, at.block))
	if err != nil || fr.removes || fr.gone || fr.seq != at.seq || string(fr.subject) != subject {
		return nil
	}
	return fr.data
}

// Manifest returns the manifest with a digest, checked against it. ErrNoManifest if none is kept.
func (s *Stored) Manifest(ctx context.Context, digest string) ([]byte, error) {
	if err := digestForm(digest); err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", digest, err)
	}
	subject := messages.ManifestSubject(s.stream.node, digest)
	b, err := s.manifests.get(ctx, s, subject)
	if err == nil {
		b, err = join(digest, b, func(sums []string) (map[string][]byte, error) { return s.parts(ctx, sums) })
	}
	if errors.Is(err, errPartMissing) {
		// Unless a running agent has collected it meanwhile, it is damaged.
		if _, again := s.manifests.get(ctx, s, subject); errors.Is(again, errNotStored) {
			err = again
		}
	}
	if errors.Is(err, errNotStored) {
		err = ErrNoManifest
	}
	if err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", digest, err)
	}
	return b, nil
}

// sets returns the subjects of each set of snapshots by its barrier; the index has the empty subject.
func (s *Stored) sets(ctx context.Context) (map[uint64][]string, error) {
	index, err := s.snapshots.subjects(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("read the snapshots: %w", err)
	}
	return groupSets(s.stream.node, maps.Keys(index)), nil
}

// Snapshots returns the barriers of the complete sets of snapshots, ascending: a fold of the journal's records can
// begin at each of them.
func (s *Stored) Snapshots(ctx context.Context) ([]uint64, error) {
	return s.barriers(ctx, func(at uint64) bool { return at+1 >= s.span.first && at <= s.span.last })
}

// barriers returns the barrier of each complete set of snapshots whose barrier a caller wants, ascending.
func (s *Stored) barriers(ctx context.Context, wanted func(at uint64) bool) ([]uint64, error) {
	sets, err := s.sets(ctx)
	if err != nil {
		return nil, err
	}
	var out []uint64
	for _, at := range slices.Sorted(maps.Keys(sets)) {
		if !wanted(at) {
			continue
		}
		if index, err := s.index(ctx, at, sets[at]); err != nil {
			return nil, err
		} else if index != nil {
			out = append(out, at)
		}
	}
	return out, nil
}

// index returns the index of a set, nil if the set is not complete.
func (s *Stored) index(ctx context.Context, barrier uint64, names []string) (*journaletv1.SnapshotIndex, error) {
	if !slices.Contains(names, "") {
		return nil, nil
	}
	b, err := s.snapshots.get(ctx, s, snapshotSubject(s.stream.node, barrier, indexToken))
	if errors.Is(err, errNotStored) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the snapshots at %d: %w", barrier, err)
	}
	index := new(journaletv1.SnapshotIndex)
	if proto.Unmarshal(b, index) != nil || int(index.GetActors()) != len(names)-1 {
		return nil, nil
	}
	return index, nil
}

// Snapshot returns the set of snapshots with a barrier, in the order of the actors' names. ErrGone if it was removed.
func (s *Stored) Snapshot(ctx context.Context, barrier uint64) ([]*journaletv1.Snapshot, error) {
	sets, err := s.sets(ctx)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(slices.Values(sets[barrier]))
	index, err := s.index(ctx, barrier, names)
	if err != nil {
		return nil, err
	}
	gone := fmt.Errorf("the snapshots at %d: %w: open the journal again", barrier, ErrGone)
	if index == nil {
		return nil, gone
	}
	names = names[1:] // the index has the empty name
	out := make([]*journaletv1.Snapshot, 0, len(names))
	for _, name := range names {
		b, err := s.snapshots.get(ctx, s, snapshotSubject(s.stream.node, barrier, name))
		if errors.Is(err, errNotStored) {
			return nil, gone
		}
		if err != nil {
			return nil, fmt.Errorf("read the snapshots at %d: %w", barrier, err)
		}
		snap := new(journaletv1.Snapshot)
		if err := proto.Unmarshal(b, snap); err != nil {
			return nil, fmt.Errorf("read the snapshots at %d: the state of %s: %w", barrier, name, err)
		}
		out = append(out, snap)
	}
	return out, nil
}

// groupSets groups the subjects of snapshots by their barrier; the index counts as an actor with an empty name.
func groupSets(node string, subjects func(yield func(string) bool)) map[uint64][]string {
	sets := map[uint64][]string{}
	for subject := range subjects {
		at, rest, ok := strings.Cut(strings.TrimPrefix(subject, messages.SnapshotPrefix(node)), ".")
		n, err := strconv.ParseUint(at, 10, 64)
		if !ok || err != nil {
			continue
		}
		if rest == indexToken {
			rest = ""
		}
		sets[n] = append(sets[n], rest)
	}
	return sets
}

func snapshotSubject(node string, barrier uint64, rest string) string {
	return messages.SnapshotPrefix(node) + strconv.FormatUint(barrier, 10) + "." + rest
}
