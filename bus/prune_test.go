package bus

import (
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

// prunable returns the directory of a stopped agent's journal of 60 records of half a MiB, with sets of snapshots.
func prunable(t *testing.T) string {
	t.Helper()
	dir := busDir(t)
	b := openBus(t, dir, rareSync)
	appendWide(t, b, 60)
	for _, at := range []uint64{5, 12, 20, 60} {
		must.OK(t, b.Snapshots().Save(testContext(t), at, snapshotsOf(3, at)))
	}
	data := []byte("kind: Pod")
	must.OK(t, b.Manifests().Put(testContext(t), digestOf(data), data))
	closeBus(t, b)
	return dir
}

func TestPruneStoredJournalCutsBehindSnapshots(t *testing.T) {
	for name, c := range map[string]struct {
		r         Retention
		keep      uint64
		permitted uint64
	}{
		"before a record":            {Retention{Before: 15}, 13, 15},
		"exactly behind a set":       {Retention{Before: 13}, 13, 13},
		"before the first set":       {Retention{Before: 5}, 1, 5},
		"beyond the newest 16 MiB":   {Retention{Before: 60}, 21, 28},
		"bytes":                      {Retention{Bytes: 28 << 20}, 13, 12},
		"bytes, behind the next set": {Retention{Bytes: 26 << 20}, 21, 15},
		"bytes of the newest 16 MiB": {Retention{Bytes: 1 << 20}, 29, 29},
	} {
		t.Run(name, func(t *testing.T) {
			dir := prunable(t)
			plan, err := PlanPruneStored(testContext(t), dir, c.r, noon)
			must.OK(t, err)
			t.Logf("%+v", plan)
			got, err := PruneStored(testContext(t), dir, c.r, noon, quiet, nil)
			must.OK(t, err)
			if got.Keep > 1 {
				if got.Manifests != 1 {
					t.Errorf("%d manifests were removed", got.Manifests)
				}
				got.Manifests = 0
			}
			if got != plan || got.First != 1 || got.Keep != c.keep || (got.Bytes == 0) != (c.keep == 1) {
				t.Fatalf("%+v, planned %+v, want the journal to begin with %d", got, plan, c.keep)
			}
			if c.permitted <= 16 && got.Permitted != c.permitted {
				t.Errorf("permitted: %d, want %d", got.Permitted, c.permitted)
			}
			if v, _ := verifyAndMeasure(t, dir); !v.OK() || v.First != c.keep {
				t.Fatalf("%+v", v)
			}
			if o := openBus(t, dir).Opening(); !o.Clean || o.Damage != nil {
				t.Fatalf("%+v", o)
			}
		})
	}
}

func TestPruneRefusesDamagedOrServedJournal(t *testing.T) {
	dir := prunable(t)
	b := openBus(t, dir)
	if _, err := PruneStored(testContext(t), dir, Retention{Before: 20}, noon, quiet, nil); err == nil {
		t.Fatal("pruned the files of a running agent")
	}
	closeBus(t, b)
	flip(2, 1<<20)(t, dir)
	if _, err := PruneStored(testContext(t), dir, Retention{Before: 20}, noon, quiet, nil); err == nil ||
		!strings.Contains(err.Error(), "repair") {
		t.Fatal(err)
	}
}
