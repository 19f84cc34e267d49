package retention

import (
	"path/filepath"
	"testing"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
)

func TestPruneOnRequestCutsBehindSnapshots(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "bus"))
	lost := wide("p")
	for i := range 60 {
		a.host.Outcome(messages.Pod("p"), lost)
		if i == 20 {
			must.OK(t, a.bus.Journal().Flush(t.Context()))
			must.OK(t, a.host.Snapshot(t.Context()))
		}
	}
	must.OK(t, a.bus.Journal().Flush(t.Context()))
	before := bus.Retention{Before: 28}
	plan, err := a.Prune(t.Context(), before, true)
	if err != nil || plan.Keep <= 10 || plan.Keep > 28 || a.bus.Journal().First() != 1 {
		t.Fatalf("%+v, %v", plan, err)
	}
	got, err := a.Prune(t.Context(), before, false)
	if err != nil || got != plan || a.bus.Journal().First() != got.Keep {
		t.Fatalf("%+v, %v, planned %+v", got, err, plan)
	}
	sets, err := a.bus.Snapshots().Sets(t.Context())
	if err != nil || sets[0].Barrier+1 != got.Keep || len(sets) != 2 {
		t.Fatalf("%+v, %v", sets, err)
	}
	a.close(t)
}
