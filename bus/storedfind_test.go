package bus

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// appendMixed appends records of three pods and of the agent; every eighth one is wide.
func appendMixed(t *testing.T, b *Bus, n, wide int) {
	t.Helper()
	for i := range n {
		rec := fact(messages.Pod(fmt.Sprintf("uid-%d", i%3)), int64(i))
		if i%5 == 4 {
			rec = fact(messages.Agent, int64(i))
		}
		if i%8 == 0 {
			widen(rec, wide)
		}
		must.OK(t, b.Journal().Append(rec))
	}
	must.OK(t, b.Journal().Flush(testContext(t)))
}

// searches are texts and kinds of actors that records are searched for.
var searches = []struct {
	texts []string
	kind  journaletv1.ActorKind
}{
	{[]string{"uid-1"}, journaletv1.ActorKind_ACTOR_KIND_UNSPECIFIED},
	{[]string{"uid-0", "uid-2"}, journaletv1.ActorKind_ACTOR_KIND_UNSPECIFIED},
	{[]string{"uid-2"}, journaletv1.ActorKind_ACTOR_KIND_AGENT},
	{[]string{"uid-"}, journaletv1.ActorKind_ACTOR_KIND_AGENT},
	{[]string{"nowhere"}, journaletv1.ActorKind_ACTOR_KIND_UNSPECIFIED},
	{nil, journaletv1.ActorKind_ACTOR_KIND_AGENT},
}

// wantFound compares what is found with what is found by reading all records. No block is in memory before a search.
func wantFound(t *testing.T, s *Stored, what string) {
	t.Helper()
	type record struct {
		seq  uint64
		kind journaletv1.ActorKind
		b    []byte
	}
	var all []record
	must.OK(t, s.Read(testContext(t), 0, 0, func(seq uint64, b []byte) error {
		rec, err := messages.Decode(b)
		if err != nil {
			t.Fatalf("%s: record %d: %v", what, seq, err)
		}
		all = append(all, record{seq, rec.GetActor().GetKind(), bytes.Clone(b)})
		return nil
	}))
	first, last := s.Bounds()
	for _, q := range searches {
		for _, r := range [][2]uint64{{0, 0}, {first + 2, last - 1}, {last/2 + 1, last/2 + 3}, {last, last + 9}} {
			var want, got []string
			for _, rec := range all {
				holds := func(text string) bool { return bytes.Contains(rec.b, []byte(text)) }
				if (r[0] == 0 || rec.seq >= r[0] && rec.seq <= r[1]) &&
					(slices.ContainsFunc(q.texts, holds) || q.kind > 0 && rec.kind == q.kind) {
					want = append(want, fmt.Sprintf("%d %x", rec.seq, rec.b))
				}
			}
			s.recent.blocks = nil
			must.OK(t, s.Find(testContext(t), q.texts, q.kind, r[0], r[1], func(seq uint64, b []byte) error {
				got = append(got, fmt.Sprintf("%d %x", seq, b))
				return nil
			}))
			if !slices.Equal(got, want) {
				t.Fatalf("%s: %q and %s in %v: found %d records, want %d", what, q.texts, q.kind, r, len(got), len(want))
			}
		}
	}
}

func TestFindPassesTheRecordsThatReadPasses(t *testing.T) {
	for name, fillIn := range map[string]func(t *testing.T, b *Bus){
		"empty":  func(*testing.T, *Bus) {},
		"a few":  func(t *testing.T, b *Bus) { appendMixed(t, b, 20, 10) },
		"blocks": func(t *testing.T, b *Bus) { appendMixed(t, b, 200, 900<<10) },
		"cut in a block": func(t *testing.T, b *Bus) {
			appendAged(t, b, 90, 80, 70, 10, 9, 8)
			retain(t, b, Retention{Age: 2 * day}, 6)
			appendMixed(t, b, 20, 10)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := busDir(t)
			b := openBus(t, dir)
			fillIn(t, b)
			wantFound(t, openShared(t, dir), "while the agent runs")
			closeBus(t, b)
			wantFound(t, openShared(t, dir), "afterwards")
		})
	}
}

// Whatever byte of a record is damaged, the same records are found as by a reader that checks each.
func TestFindLeavesOutWhatIsDamaged(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendMixed(t, b, 24, 10)
	closeBus(t, b)
	path := (&blocks{dir: streamDir(dir, journalStream)}).path(1)
	whole := readFile(t, path)
	places := scan(whole, blockSum(journalStream, 1), journalSubjects, nil)
	lost := 0
	for _, i := range []int{10, 14} { // of a pod, and of the agent
		for at := places[i].at; at < places[i].at+places[i].size; at++ {
			n := at - places[i].at
			for _, bit := range []byte{1, 0x80} {
				data := bytes.Clone(whole)
				data[at] ^= bit
				writeFile(t, path, data)
				s := openShared(t, dir)
				seqs, records := readShared(t, s, 0, 0)
				if slices.ContainsFunc(records, func(b []byte) bool { _, err := messages.Decode(b); return err != nil }) {
					continue // where the subject and a header end is under no checksum
				}
				wantFound(t, s, fmt.Sprintf("bit %#x of byte %d of record %d", bit, n, i))
				if len(seqs) < len(places) {
					lost++
				}
			}
		}
	}
	if lost < 50 {
		t.Errorf("only %d damages lost a record: too few to show anything", lost)
	}
	writeFile(t, path, slices.Concat(whole, whole[:100])) // a write that was not finished
	wantFound(t, openShared(t, dir), "torn")
}
