package simulation

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/test/must"
)

var (
	oneSeed    = flag.Int64("sim.seed", -1, "carry out the plan of this seed alone, and print the hash of its journal")
	hashesFile = flag.String("sim.hashes", "", "file with the hashes of the journals that have to be the same on each "+
		"machine; it is written if it is not there")
	withKept     = flag.Bool("sim.kept", true, "try the kept seeds too")
	keepOps      = flag.String("sim.keep", "", "of that plan, only the ops with these numbers, as a failure prints them")
	outDir       = flag.String("sim.out", "", "directory to write the journals of that seed, and of failures, to")
	further      = flag.Uint64("sim.seeds", 14, "how many seeds are tried after the kept ones: by all tests some 40")
	stop         = flag.Bool("sim.stop", false, "begin no further seed after a failure")
	only         = flag.String("sim.only", "", "the only invariant that counts; empty: all of them")
	shrink       = flag.Bool("sim.shrink", true, "leave out of a plan that fails whatever can be left out")
	pods         = flag.Int("sim.pods", 0, "how many files of pods each plan has; 0: as the seed says")
	allPressed   = flag.Bool("sim.pressed", false, "all further seeds with pressure, not a part of them")
	allExclusive = flag.Bool("sim.exclusive", false, "all further seeds with exclusive resources, not a part of them")
	allClustered = flag.Bool("sim.clustered", false, "all further seeds with an API server, not a part of them")
	allAttached  = flag.Bool("sim.attached", false, "all further seeds with volumes of CSI drivers, not a part of them")
	allClaimed   = flag.Bool("sim.claimed", false, "all further seeds with claims of DRA drivers, not a part of them")
	allExported  = flag.Bool("sim.exported", false, "all further seeds with NFS volumes, not a part of them")
	allSized     = flag.Bool("sim.sized", false, "all further seeds with resources of pods as a whole, not a part of them")
	cycles       = flag.Int("sim.cycles", 2, "how often a node runs short of something at the end of a plan with pressure")
	duration     = flag.Duration("sim.for", 0, "begin no further seed after this time; 0: no bound")
)

// first is the first of the seeds after the kept ones. They are the same ones each time: a seed that finds an old
// defect is no failure of the change that it happens to meet. Others are tried where they are asked for.
var first uint64 = 1

func init() {
	flag.Func("sim.first", "the first seed after the kept ones; fresh: the present time in microseconds (default 1)",
		func(s string) (err error) {
			if s == "fresh" {
				first = uint64(time.Now().UnixMicro())
				return nil
			}
			first, err = strconv.ParseUint(s, 10, 64)
			return err
		})
}

// keptSeeds returns the seeds of a file of testdata: each found a defect once.
func keptSeeds(t *testing.T, file string) []uint64 {
	t.Helper()
	if !*withKept {
		return nil
	}
	f, err := os.Open(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var seeds []uint64
	for in := bufio.NewScanner(f); in.Scan(); {
		text, _, _ := strings.Cut(in.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, seed)
	}
	return seeds
}

func seedsOf(t *testing.T) []uint64 {
	t.Helper()
	if *oneSeed >= 0 {
		return furtherSeeds()
	}
	return append(keptSeeds(t, "seeds.txt"), furtherSeeds()...)
}

// furtherSeeds returns the seeds that are tried beside the kept ones.
func furtherSeeds() (seeds []uint64) {
	if *oneSeed >= 0 {
		return []uint64{uint64(*oneSeed)}
	}
	for i := range *further {
		seeds = append(seeds, first+i)
	}
	return seeds
}

// partOf returns the first of some seeds: one of them for each share, and of a rest.
func partOf(seeds []uint64, share int) []uint64 { return seeds[:(len(seeds)+share-1)/share] }

func planOf(t *testing.T, seed uint64) *Plan {
	t.Helper()
	return keepOnly(t, planWith(seed, *pods))
}

// keepOnly returns a plan with the ops that the command line names.
func keepOnly(t *testing.T, p *Plan) *Plan {
	t.Helper()
	if *keepOps == "" {
		return p
	}
	var numbers []int
	for _, text := range strings.Split(*keepOps, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("-sim.keep: %v", err)
		}
		numbers = append(numbers, n)
	}
	return p.Keep(numbers)
}

// TestNothingBreaksUnderFaults carries out the plans of kept and of further seeds. A failure is shrunk, and printed
// with the command that reproduces it.
func TestNothingBreaksUnderFaults(t *testing.T) { nothingBreaks(t, seedsOf(t), planOf, nil) }

// TestNothingBreaksUnderOperators is the same with operators who restart pods and drain the node, and with shutdowns.
func TestNothingBreaksUnderOperators(t *testing.T) {
	operated := func(t *testing.T, seed uint64) *Plan {
		t.Helper()
		return keepOnly(t, Operated(seed))
	}
	seeds := furtherSeeds()
	if *oneSeed < 0 {
		seeds = append(keptSeeds(t, "operated.txt"), seeds...)
	}
	nothingBreaks(t, seeds, operated, notWithOperators)
}

func nothingBreaks(t *testing.T, seeds []uint64, planOf func(*testing.T, uint64) *Plan, except []string) {
	t.Helper()
	began := time.Now()
	var mu sync.Mutex
	var virtual time.Duration
	var records, instances, runs, done int
	covered := map[string]int{}
	o := Options{Except: except, Cycles: *cycles}
	if *only != "" {
		o.Only = []string{*only}
	}
	each(seeds, func(seed uint64) {
		if *duration > 0 && time.Now().After(began.Add(*duration)) || *stop && t.Failed() {
			return
		}
		r := Run(planOf(t, seed), o)
		if r.Violation == nil {
			if err := decidedAgain(t.Context(), r); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
		mu.Lock()
		virtual += r.Virtual
		records, instances, runs, done = records+r.Records, instances+r.Instances, runs+r.Runs, done+1
		for name, n := range r.Covered {
			covered[name] += n
		}
		mu.Unlock()
		if *oneSeed >= 0 {
			t.Log(r.Report())
		}
		if r.Violation != nil {
			if *keepOps == "" && *shrink {
				r = Shrink(r, o)
			}
			t.Error(r.Report())
		}
		if *outDir != "" && (*oneSeed >= 0 || r.Violation != nil) {
			if err := r.Write(*outDir, fmt.Sprintf("seed-%d", seed)); err != nil {
				t.Error(err)
			}
		}
	})
	took := time.Since(began)
	t.Logf(
		"%d seeds, %s of virtual time in %s, %.0f times as fast; %d records, %d runs of the agent, %d containers started",
		done, virtual.Round(time.Minute), took.Round(time.Second), virtual.Seconds()/took.Seconds(), records, runs, instances)
	t.Logf("events: %v", covered)
}

// each calls do for every seed, on all cores.
func each[T any](seeds []T, do func(seed T)) {
	var wg sync.WaitGroup
	work := make(chan T)
	for range min(runtime.GOMAXPROCS(0), len(seeds)) {
		wg.Go(func() {
			for seed := range work {
				do(seed)
			}
		})
	}
	for _, seed := range seeds {
		work <- seed
	}
	close(work)
	wg.Wait()
}

// TestRunLeavesNoGoroutines: thousands of runs follow each other in one process.
func TestRunLeavesNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	Run(PlanOf(1), Options{})
	after := runtime.NumGoroutine()
	// The last ones end by themselves, and need a processor for that.
	for end := time.Now().Add(time.Minute); after > before && time.Now().Before(end); after = runtime.NumGoroutine() {
		<-time.After(time.Millisecond)
	}
	if after > before {
		t.Errorf("%d goroutines are left", after-before)
	}
}

// TestSameSeedGivesSameJournal runs every seed several times, in parallel with others. Two runs store the same records,
// byte for byte, and the clock has as many events: what happens beside the journal is the same, too.
func TestSameSeedGivesSameJournal(t *testing.T) {
	hashes := map[string]string{}
	for _, c := range []struct {
		name   string
		planOf func(uint64) *Plan
		seeds  []uint64
	}{
		{"alone", PlanOf, []uint64{1000, 1001, 1002, 1003}},
		// 6000139: what the Node reports without a change was random once.
		{"in a cluster", Clustered, []uint64{1000, 1001, 1002, 1003, 6000139}},
		{"with operators", Operated, []uint64{1000, 1001}},
		{"with exclusive resources", Exclusive, []uint64{1000, 1001, 1002}},
		{"with a hostile tenant", func(seed uint64) *Plan { return Hostile(seed, 4*time.Minute) }, []uint64{1000}},
		{"under pressure", Pressed, []uint64{1000, 1001, 1002, 1003}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed, r := range sameSeeds(t, c.planOf, c.seeds...) {
				hashes[fmt.Sprint(c.name, ", seed ", seed)] = r.Hash
			}
		})
	}
	if *hashesFile != "" {
		compareHashes(t, hashes)
	}
}

// compareHashes compares with the hashes that another machine has written to the file, or writes it.
func compareHashes(t *testing.T, got map[string]string) {
	t.Helper()
	b, err := os.ReadFile(*hashesFile)
	if errors.Is(err, fs.ErrNotExist) {
		b, err = json.MarshalIndent(got, "", "  ")
		must.OK(t, err)
		must.OK(t, os.WriteFile(*hashesFile, b, 0o600))
		return
	}
	must.OK(t, err)
	want := map[string]string{}
	must.OK(t, json.Unmarshal(b, &want))
	for _, plan := range slices.Sorted(maps.Keys(want)) {
		if got[plan] != want[plan] {
			t.Errorf("%s: the journal has the hash %s here, and %s where %s was written", plan, got[plan], want[plan],
				*hashesFile)
		}
	}
	t.Logf("%d journals are the same as where %s was written", len(want), *hashesFile)
}

// sameSeeds returns the first run of each seed.
func sameSeeds(t *testing.T, planOf func(uint64) *Plan, seeds ...uint64) map[uint64]*Result {
	t.Helper()
	const times = 3
	var mu sync.Mutex
	first := map[uint64]*Result{}
	each(slices.Repeat(seeds, times), func(seed uint64) {
		r := Run(planOf(seed), Options{})
		mu.Lock()
		defer mu.Unlock()
		was := first[seed]
		if was == nil {
			first[seed] = r
			return
		}
		if was.Hash != r.Hash || was.Events != r.Events {
			t.Errorf("seed %d: hash %s after %d events of the clock, and before %s after %d; %s", seed, r.Hash, r.Events,
				was.Hash, was.Events, firstDifference(was, r))
		}
	})
	distinct := map[string]bool{}
	for _, r := range first {
		distinct[r.Hash] = true
	}
	if len(distinct) != len(seeds) {
		t.Errorf("%d seeds gave %d journals", len(seeds), len(distinct))
	}
	return first
}

// firstDifference names the first record that differs in the journals of two runs.
func firstDifference(a, b *Result) string {
	x, y := a.sim.journal.stored, b.sim.journal.stored
	for i := range min(len(x), len(y)) {
		if !proto.Equal(x[i], y[i]) {
			return fmt.Sprintf("record %d is\n%v\nand\n%v", i+1, x[i], y[i])
		}
	}
	return fmt.Sprintf("of %d and %d records no common one differs", len(x), len(y))
}
