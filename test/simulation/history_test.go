package simulation

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/clean"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/replay"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/promises"
	"github.com/journalet/journalet/test/recording"
)

const (
	histories = "testdata/histories"
	// recordSeeds is how many seeds the recorder chooses from, operatedSeeds how many of them with operators,
	// clusteredSeeds how many with an API server, pressedSeeds how many with pressure, exclusiveSeeds how many with
	// exclusive resources, on a node that was a kubelet's, and refusedSeeds how many with an agent that refuses what runs.
	recordSeeds    = 400
	operatedSeeds  = 60
	clusteredSeeds = 40
	pressedSeeds   = 40
	exclusiveSeeds = 40
	refusedSeeds   = 40
	// fewRecords is how many records make a history no worse than an empty one.
	fewRecords = 1000
)

// `make histories` records the histories when JournalFormat is raised, and at no other time. From the first release on
// it only adds histories of events that none holds.
var recordHistories = flag.Bool("sim.record", false, "record the histories again")

// TestRecordedHistoriesFoldToTheirState folds recorded journals of runs under faults to the states recorded with
// them. If one folds to another state, and JournalFormat was not raised, the code is wrong.
func TestRecordedHistoriesFoldToTheirState(t *testing.T) {
	if *recordHistories {
		record(t)
	}
	all, err := filepath.Glob(histories + "/*.records")
	if err != nil || len(all) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	seen := map[string]bool{}
	for _, path := range all {
		t.Run(filepath.Base(path), func(t *testing.T) {
			base := strings.TrimSuffix(path, ".records")
			recs := readRecords(t, path)
			eventsIn(recs, seen)
			got, err := StateText(recs, readManifests(t, path))
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(base + ".state")
			if err != nil {
				t.Fatal(err)
			}
			if diff := Difference(string(want), string(got)); diff != "" {
				t.Errorf("it folds to another state: %s", diff)
			}
		})
	}
	for _, name := range eventNames() {
		switch not := slices.Contains(notSimulated, name); {
		case !seen[name] && !not:
			t.Errorf("no history holds the event %s: add one, `make sim SEED=n OUT=test/simulation/%s`", name, histories)
		case seen[name] && not:
			t.Errorf("a history holds the event %s, which notSimulated names", name)
		}
	}
}

// A journal that was recorded before facts were cleaned holds what would be stored today.
func TestFactsOfRecordedHistoriesAreClean(t *testing.T) {
	all, err := filepath.Glob(histories + "/*.records")
	if err != nil || len(all) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	for _, path := range all {
		for _, rec := range readRecords(t, path) {
			if fact := rec.GetFact(); fact != nil && clean.Fact(fact) != fact {
				t.Errorf("%s: record %d would be changed: %.300v", filepath.Base(path), rec.GetSeq(), fact)
			}
		}
	}
}

// TestRecordedHistoriesAreDecidedAgain decides on every record of the histories again. Older versions took other
// decisions now and then; these are logged. But each step of theirs can be compared and folded.
func TestRecordedHistoriesAreDecidedAgain(t *testing.T) {
	all, err := filepath.Glob(histories + "/*.records")
	if err != nil || len(all) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	for _, path := range all {
		t.Run(filepath.Base(path), func(t *testing.T) {
			r, err := checkAll(t.Context(), &history.Memory{
				Records: readRecords(t, path), Manifests: recording.Manifests(t, path),
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range r.Divergences {
				t.Log(d.String())
				if d.Error != "" {
					t.Errorf("%s", d.String())
				}
			}
		})
	}
}

// checkAll replays a journal, and returns an error unless every step is compared.
func checkAll(ctx context.Context, src *history.Memory) (*replay.Report, error) {
	r, err := replay.Check(ctx, src, replay.Options{})
	if err == nil && (r.NotCompared.Base+r.NotCompared.Missing+r.NotCompared.Quarantined > 0 || r.Steps == 0) {
		err = fmt.Errorf("not all steps are compared: %d are, %+v", r.Steps, r.NotCompared)
	}
	return r, err
}

// decidedAgain returns an error unless every actor decides again what it decided in a run, on each record.
func decidedAgain(ctx context.Context, r *Result) error {
	again, err := checkAll(ctx, r.History())
	if err == nil && again.Diverged > 0 {
		err = fmt.Errorf("%d actors decide otherwise than recorded, the first: %s", again.Diverged,
			again.Divergences[0].String())
	}
	return err
}

// notSimulated are the events that no run of the simulation has: an actor that fails is a violation there, a pull
// reports no progress, pods have no cgroups, containers write no logs, nobody works in a pod, no kernel ends a process,
// and there are no DRA drivers.
var notSimulated = []string{
	"quarantined", "quarantine_lifted", "pull_progressed", "pod_cgroup_lost", "log_rotated", "session_started",
	"session_ended", "oom_kill_observed", "claim_health_observed", "node_read_requested",
}

func eventNames() (names []string) {
	kinds := new(journaletv1.Event).ProtoReflect().Descriptor().Oneofs().ByName("kind").Fields()
	for i := range kinds.Len() {
		names = append(names, string(kinds.Get(i).Name()))
	}
	return names
}

// eventsIn adds the names of the events in records to names.
func eventsIn(recs []*journaletv1.Record, names map[string]bool) {
	for _, rec := range recs {
		for _, e := range messages.Events(rec) {
			names[messages.EventName(e)] = true
		}
	}
}

// namedHistories are the histories that other packages read by name.
var namedHistories = []string{"seed-59", "seed-112", "seed-160", "seed-203", "seed-217", "seed-237"}

// recordable returns the runs that the recorder chooses from, by name.
func recordable() map[string]func() *Result {
	runs := map[string]func() *Result{}
	for seed := range uint64(recordSeeds) {
		runs[fmt.Sprintf("seed-%d", seed)] = func() *Result { return Run(PlanOf(seed), Options{}) }
	}
	for seed := range uint64(operatedSeeds) {
		runs[fmt.Sprintf("operated-%d", seed)] = func() *Result {
			return Run(Operated(seed), Options{Except: notWithOperators})
		}
	}
	for seed := range uint64(clusteredSeeds) {
		runs[fmt.Sprintf("clustered-%d", seed)] = func() *Result { return Run(Clustered(seed), Options{}) }
	}
	for seed := range uint64(pressedSeeds) {
		runs[fmt.Sprintf("pressed-%d", seed)] = func() *Result { return Run(Pressed(seed), Options{}) }
	}
	for seed := range uint64(exclusiveSeeds) {
		runs[fmt.Sprintf("exclusive-%d", seed)] = func() *Result { return Run(InAKubeletsPlace(seed), Options{}) }
	}
	for seed := range uint64(refusedSeeds) {
		runs[fmt.Sprintf("refused-%d", seed)] = func() *Result { return Run(Refused(seed), Options{}) }
	}
	return runs
}

// record replaces the histories by namedHistories, and a few more: together they have every event that any of the runs
// has.
func record(t *testing.T) {
	t.Helper()
	runs := recordable()
	found, sizes := eventsOf(runs)
	named := namedHistories
	if promises.Released(t) {
		named = nil
		forget(found, recordedEvents(t))
	} else if err := os.RemoveAll(histories); err != nil {
		t.Fatal(err)
	}
	for {
		// Many events in few records, so that the files stay small.
		best := slices.MaxFunc(slices.Sorted(maps.Keys(runs)), func(a, b string) int {
			return len(found[a])*(fewRecords+sizes[b]) - len(found[b])*(fewRecords+sizes[a])
		})
		if len(named) > 0 {
			best, named = named[0], named[1:]
		} else if len(found[best]) == 0 {
			return
		}
		t.Logf("%s holds %d more events", best, len(found[best]))
		if err := runs[best]().Record(histories, best); err != nil {
			t.Fatal(err)
		}
		forget(found, maps.Clone(found[best]))
	}
}

// forget removes the held events from the events of each run.
func forget(found map[string]map[string]bool, held map[string]bool) {
	for _, names := range found {
		maps.DeleteFunc(names, func(name string, _ bool) bool { return held[name] })
	}
}

// recordedEvents returns the events of the histories in testdata. The histories of a release are never replaced.
func recordedEvents(t *testing.T) map[string]bool {
	t.Helper()
	all, err := filepath.Glob(histories + "/*.records")
	must.OK(t, err)
	held := map[string]bool{}
	for _, path := range all {
		eventsIn(readRecords(t, path), held)
	}
	return held
}

// eventsOf carries out runs, and returns the events and the number of records of each. One with a violation has no
// events.
func eventsOf(runs map[string]func() *Result) (events map[string]map[string]bool, records map[string]int) {
	var mu sync.Mutex
	events, records = map[string]map[string]bool{}, map[string]int{}
	each(slices.Sorted(maps.Keys(runs)), func(name string) {
		r := runs[name]()
		mu.Lock()
		defer mu.Unlock()
		if events[name], records[name] = map[string]bool{}, r.Records; r.Violation == nil {
			eventsIn(r.sim.journal.stored, events[name])
		}
	})
	return events, records
}

// readRecords reads a journal and checks its chain.
func readRecords(t *testing.T, path string) []*journaletv1.Record {
	t.Helper()
	recs := recording.Records(t, path)
	var hash []byte
	for i, rec := range recs {
		if rec.GetSeq() != uint64(i+1) || !bytes.Equal(rec.GetPreviousHash(), hash) {
			t.Fatalf("record %d does not follow from the one before it", rec.GetSeq())
		}
		b, err := messages.Encode(rec)
		must.OK(t, err)
		hash = messages.Hash(b)
	}
	return recs
}

func readManifests(t *testing.T, path string) func(digest string) (*corev1.Pod, error) {
	t.Helper()
	all := recording.Manifests(t, path)
	return func(digest string) (*corev1.Pod, error) {
		b, ok := all[digest]
		if !ok {
			return nil, failedCall("no such manifest: " + digest)
		}
		return manifest.Load(b)
	}
}
