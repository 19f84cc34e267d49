package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/journalet/journalet/messages"
)

// Pruned is what a cut of the journal's front removes.
type Pruned struct {
	// First is the first record before the cut, Keep the first record after it; they are equal if nothing is cut.
	First uint64 `json:"first"`
	Keep  uint64 `json:"keep"`
	// Bytes is the size on disk of the records between.
	Bytes uint64 `json:"bytes"`
	// Permitted is the first record that the bounds alone would keep. The cut ends below Permitted if no set of
	// snapshots is there, and always below the newest MinKept bytes.
	Permitted uint64 `json:"permitted"`
	// Manifests is how many manifests were removed because nothing names them any more.
	Manifests int `json:"manifests"`
}

func (c *cutting) pruned() Pruned {
	k := c.keep()
	return Pruned{First: c.first, Keep: k.next, Bytes: k.gone, Permitted: c.permitted.next}
}

// PlanPrune returns what Prune would remove after one more set of snapshots.
func (j *Journal) PlanPrune(ctx context.Context, r Retention, sets []SnapshotSet, now time.Time) (Pruned, error) {
	c, err := j.findCut(ctx, r, oneMore(sets, j.Last()), now)
	if err != nil {
		return Pruned{}, fmt.Errorf("find the records to prune: %w", err)
	}
	return c.pruned(), nil
}

// Prune cuts the journal's oldest records as Retain does, once, and changes no bound of Retain.
func (j *Journal) Prune(ctx context.Context, r Retention, sets []SnapshotSet, now time.Time) (Pruned, error) {
	p, err := j.prune(ctx, r, sets, now)
	if err != nil {
		return p, fmt.Errorf("prune the journal: %w", err)
	}
	return p, nil
}

func (j *Journal) prune(ctx context.Context, r Retention, sets []SnapshotSet, now time.Time) (Pruned, error) {
	c, err := j.findCut(ctx, r, sets, now)
	if err != nil {
		return Pruned{}, err
	}
	p := c.pruned()
	if p.Keep > p.First {
		err = j.cutBefore(ctx, p.Keep)
	}
	return p, err
}

// PlanPruneStored returns what PruneStored would remove. It reads the files, and changes nothing.
func PlanPruneStored(ctx context.Context, dir string, r Retention, now time.Time) (Pruned, error) {
	s, err := OpenShared(ctx, dir)
	if err != nil {
		return Pruned{}, err
	}
	sets, err := s.snapshotSets(ctx)
	if err != nil {
		return Pruned{}, err
	}
	bytes := uint64(0)
	err = s.eachBlock(ctx, func(c *block) error {
		for i := range c.places {
			if p := &c.places[i]; p.isRecord() && p.seq >= s.span.first {
				bytes += uint64(p.size)
			}
		}
		return c.err
	})
	if err != nil {
		return Pruned{}, fmt.Errorf("measure the journal: %w", err)
	}
	c := newCutting(s.span.first, s.span.last, sets)
	manifests, _, err := s.newest(ctx, manifestStream)
	if err != nil {
		return Pruned{}, fmt.Errorf("measure the manifests: %w", err)
	}
	c.bound(r, bytes, manifests, MinKept)
	if c.limit >= c.first {
		err = c.ignoreFound(s.Read(ctx, 0, c.limit, func(_ uint64, b []byte) error {
			rec, err := messages.Decode(b)
			if err != nil {
				return err
			}
			return c.addRecord(rec, uint64(len(b)+len(messages.Subject(s.stream.node, rec)))+storedFrame, r, now)
		}))
	}
	return c.pruned(), err
}

// snapshotSets describes the complete sets of snapshots.
func (s *Stored) snapshotSets(ctx context.Context) (out []SnapshotSet, err error) {
	barriers, err := s.Snapshots(ctx)
	if err != nil {
		return nil, err
	}
	names, err := s.sets(ctx)
	if err != nil {
		return nil, err
	}
	for _, at := range barriers {
		index, err := s.index(ctx, at, names[at])
		if err != nil {
			return nil, err
		}
		if index != nil {
			out = append(out, setOf(at, index))
		}
	}
	return out, nil
}

// PruneStored prunes the journal of a stopped agent. It opens the bus as the agent does. A damaged journal is refused:
// its repair comes first. progress, of the check, may be nil.
func PruneStored(ctx context.Context, dir string, r Retention, now time.Time, log *slog.Logger,
	progress func(done, total uint64)) (p Pruned, err error) {
	s, err := OpenStored(dir)
	if err != nil {
		return p, err
	}
	v, err := s.Verify(ctx, progress)
	if err != nil {
		return p, err
	}
	if !v.OK() || s.stream.node == "" {
		return p, errors.New("prune the journal: it is damaged: run journal repair first")
	}
	b, err := Open(ctx, Options{Dir: dir, Node: strings.ReplaceAll(s.stream.node, "_", "."), Log: log})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, b.Close(ctx)) }()
	if d := b.Opening().Damage; d != nil {
		return p, errors.Join(appendDamage(b, d), fmt.Errorf("prune the journal: it is damaged: %s", d.GetMessage()))
	}
	sets, err := b.Snapshots().Sets(ctx)
	if err != nil {
		return p, err
	}
	if p, err = b.Journal().Prune(ctx, r, sets, now); err != nil || p.Keep == p.First {
		return p, err
	}
	p.Manifests, err = b.RemoveUnreferenced(ctx, r)
	return p, err
}

// RemoveUnreferenced removes the manifests that nothing names any more, except those just put. It returns how many.
func (b *Bus) RemoveUnreferenced(ctx context.Context, r Retention) (int, error) {
	exceed, err := b.ManifestsExceed(ctx, r)
	if err != nil {
		return 0, err
	}
	grace := ManifestGrace
	if exceed {
		grace = fullGrace
	}
	unreferenced, err := b.UnreferencedManifests(ctx)
	if err != nil {
		return 0, err
	}
	return b.Manifests().Collect(ctx, unreferenced, grace)
}

// ManifestsExceed reports whether manifests take more than half of the bytes to be kept, which is their share.
func (b *Bus) ManifestsExceed(ctx context.Context, r Retention) (bool, error) {
	_, manifests, err := b.journal.bytes(ctx)
	return r.Bytes > 0 && manifests > r.Bytes/2, err
}
