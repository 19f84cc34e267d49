package bus

import (
	"fmt"
	"os"
	"os/exec"
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
