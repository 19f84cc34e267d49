package replay

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// A session keeps at most podCheckpoints states of a pod and singleCheckpoints of any other actor, spread over its
// steps: the states of 2,000 pods have some 100 MB.
const (
	podCheckpoints    = 16
	singleCheckpoints = 256
	// firstSpacing is the number of steps between the first states.
	firstSpacing = 16
)

// checkpoint is an actor's state after a record. To continue, fold the records that concern the actor from position
// from on: the fold recognizes and skips records that the state contains.
type checkpoint struct {
	// seq is the record, fromSeq the first record that the actor had received and not handled then, or the next record.
	// at and from are their positions.
	seq, fromSeq uint64
	at, from     uint32
	snapshot     *journaletv1.Snapshot
}

// before returns the index of the last checkpoint before a position, -1 for none.
func (t *track) before(end uint32) int {
	i, _ := slices.BinarySearchFunc(t.checkpoints, end, func(c checkpoint, end uint32) int {
		return cmp.Compare(c.at, end)
	})
	return i - 1
}

// keeper takes the checkpoints of the actors of one fold.
type keeper struct {
	fold *fold.Fold
	kept map[messages.Ref]*kept
}

// kept are the checkpoints of one actor.
type kept struct {
	all []checkpoint
	// spacing is how many steps are between two checkpoints, steps counts the steps since the last checkpoint.
	spacing, steps int
}

// after takes a checkpoint of the author of a folded step if one is due.
func (k *keeper) after(rec *journaletv1.Record) {
	if rec.GetStep() == nil {
		return
	}
	ref := messages.RefOf(rec.GetActor())
	c := k.fold.Cells[ref]
	if c == nil || c.Diverged || c.Behind {
		return
	}
	taken := k.kept[ref]
	if taken == nil {
		taken = &kept{spacing: firstSpacing}
		k.kept[ref] = taken
	}
	if taken.steps++; taken.steps < taken.spacing {
		return
	}
	b, err := proto.Marshal(c.Decider.State())
	if err != nil {
		return // one checkpoint less
	}
	from := rec.GetSeq() + 1
	if pending := k.fold.Pending[ref]; len(pending) > 0 {
		from = pending[0].Seq()
	}
	taken.steps = 0
	taken.all = append(taken.all, checkpoint{seq: rec.GetSeq(), fromSeq: from, snapshot: &journaletv1.Snapshot{
		Actor: ref.Proto(), Handled: c.Handled, State: b,
	}})
	most := singleCheckpoints
	if ref.Kind == journaletv1.ActorKind_ACTOR_KIND_POD {
		most = podCheckpoints
	}
	if len(taken.all) > most {
		taken.spacing *= 2
		for i := range len(taken.all) / 2 {
			taken.all[i] = taken.all[2*i+1]
		}
		taken.all = slices.Delete(taken.all, len(taken.all)/2, len(taken.all))
	}
}

// merged returns the positions in either of two sorted lists, from one on and before another, in order.
func merged(a, b []uint32, from, end uint32) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		i, _ := slices.BinarySearch(a, from)
		j, _ := slices.BinarySearch(b, from)
		for {
			next := end
			if i < len(a) {
				next = min(next, a[i])
			}
			if j < len(b) {
				next = min(next, b[j])
			}
			if next >= end || !yield(next) {
				return
			}
			if i < len(a) && a[i] == next {
				i++
			}
			if j < len(b) && b[j] == next {
				j++
			}
		}
	}
}

func compareRefs(a, b messages.Ref) int { return strings.Compare(a.String(), b.String()) }
