package bus

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// TestKillDuringCutIsNoDamage kills a process that appends and cuts, and finds a sound journal that begins where a
// cut ended.
func TestKillDuringCutIsNoDamage(t *testing.T) {
	if dir := os.Getenv("JOURNALET_TEST_CUT"); dir != "" {
		cutUntilKilled(t, dir)
		return
	}
	dir := busDir(t)
	first := uint64(1)
	for round := range uint64(4) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKillDuringCutIsNoDamage$")
		cmd.Env = append(os.Environ(), "JOURNALET_TEST_CUT="+dir)
		out, err := cmd.StdoutPipe()
		must.OK(t, err)
		must.OK(t, cmd.Start())
		reported := readNumbers(t, out, (round+1)*1500+17*round)
		must.OK(t, cmd.Process.Kill())
		_ = cmd.Wait()
		b := openBus(t, dir)
		if o := b.Opening(); o.Last < reported || o.Damage != nil || o.Clean {
			t.Fatalf("%d were reported as stored, and: %+v", reported, o)
		}
		if now := b.Journal().First(); now <= first {
			t.Fatalf("the first record is %d, and was %d", now, first)
		}
		first = b.Journal().First()
		wantWhole(t, b, first, b.Journal().Last(), true)
		closeBus(t, b)
	}
}

// TestKillDuringCutLeavesJournalThatFoldsFromItsFirstRecord kills a process that appends, takes snapshots and cuts, and
// finds a complete set behind which the journal begins.
func TestKillDuringCutLeavesJournalThatFoldsFromItsFirstRecord(t *testing.T) {
	if dir := os.Getenv("JOURNALET_TEST_SETS"); dir != "" {
		takeSetsUntilKilled(t, dir)
		return
	}
	dir := busDir(t)
	for round := range uint64(4) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKillDuringCutLeavesJournalThatFoldsFromItsFirstRecord$")
		cmd.Env = append(os.Environ(), "JOURNALET_TEST_SETS="+dir)
		out, err := cmd.StdoutPipe()
		must.OK(t, err)
		must.OK(t, cmd.Start())
		readNumbers(t, out, (round+1)*2000+17*round)
		must.OK(t, cmd.Process.Kill())
		_ = cmd.Wait()
		b := openBus(t, dir)
		j := b.Journal()
		sets, err := b.Snapshots().Sets(testContext(t))
		must.OK(t, err)
		newest, snaps, err := b.Snapshots().Load(testContext(t))
		if err != nil || len(snaps) != 20 || newest != sets[len(sets)-1].Barrier || newest > j.Last() ||
			!slices.Contains(barriersOf(sets), j.CutTo()-1) || j.CutTo() == 1 || b.Opening().Damage != nil {
			t.Fatalf("sets at %v, loaded %d states at %d, records %d to %d, %v", barriersOf(sets), len(snaps), newest,
				j.CutTo(), j.Last(), err)
		}
		closeBus(t, b)
	}
}

// takeSetsUntilKilled runs in the process to be killed.
func takeSetsUntilKilled(t *testing.T, dir string) {
	b := openBus(t, dir)
	b.journal.least = 0
	for {
		appendFacts(t, b, 50)
		at := b.Journal().Last()
		must.OK(t, b.Snapshots().Save(testContext(t), at, snapshotsOf(20, at)))
		sets, err := b.Snapshots().Sets(testContext(t))
		must.OK(t, err)
		_, err = b.Journal().Retain(testContext(t), Retention{Bytes: 100_000}, sets, noon)
		must.OK(t, err)
		if b.Journal().CutTo() > 1 {
			fmt.Println(at)
		}
	}
}

// cutUntilKilled runs in the process to be killed: it cuts after every few records, while it appends.
func cutUntilKilled(t *testing.T, dir string) {
	b := openBus(t, dir)
	// Print only what is stored after a cut: on a busy machine the first cut may be late.
	var cut atomic.Bool
	began := b.Journal().First()
	b.Journal().OnStored(func(recs []*journaletv1.Record) {
		if cut.Load() {
			fmt.Println(recs[len(recs)-1].GetSeq())
		}
	})
	go func() {
		for i := int64(0); ; i++ {
			if err := b.Journal().AppendFact(testContext(t), fact(messages.Pod("p"), i)); err != nil {
				return
			}
		}
	}()
	for {
		retain(t, b, Retention{Bytes: 20_000}, b.Journal().Last())
		cut.Store(b.Journal().First() > began)
	}
}
