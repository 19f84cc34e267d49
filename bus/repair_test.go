package bus

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
)

func checkForRepair(t *testing.T, dir string) *Repair {
	t.Helper()
	before := fingerprint(t, dir)
	r, err := CheckForRepair(testContext(t), dir, nil)
	must.OK(t, err)
	if after := fingerprint(t, dir); !reflect.DeepEqual(before, after) {
		t.Fatal("the check changed files")
	}
	return r
}

// wantRepaired repairs a journal and checks the result: Verify accepts the journal, the next start finds it clean and
// sound, and nothing is left to repair. It returns the records that are left.
func wantRepaired(t *testing.T, dir string) (r *Repair, left []uint64) {
	t.Helper()
	r = checkForRepair(t, dir)
	if r.Report.Sound || len(r.Report.Found) == 0 {
		t.Fatalf("%+v", r.Report)
	}
	must.OK(t, r.Apply(testContext(t), quiet))
	v, _ := verifyAndMeasure(t, dir)
	if !v.OK() {
		t.Fatalf("after the repair: %+v", v)
	}
	if again := checkForRepair(t, dir); !again.Report.Sound {
		t.Fatalf("a second check: %+v", again.Report)
	}
	left, _ = readShared(t, openShared(t, dir), 0, 0)
	b := openBus(t, dir)
	if o := b.Opening(); o.Damage != nil || !o.Clean {
		t.Fatalf("the next start: %+v", o)
	}
	if online, err := b.Journal().Verify(testContext(t), nil); err != nil || !online.OK() {
		t.Fatalf("of the running agent: %+v, %v", online, err)
	}
	closeBus(t, b)
	return r, left
}

// Snapshots that contain all records were taken, so that only what is damaged is set aside.
func TestRepairSetsAsideWhatIsDamaged(t *testing.T) {
	lost := map[string][2]uint64{ // first and last
		"torn tail": {34, 34}, "cut tail": {33, 34}, "flipped byte": {17, 17}, "flipped length": {16, 16},
		"flipped in the last record": {34, 34}, "missing block": {16, 31}, "missing first": {1, 15},
		"truncated block": {24, 31}, "empty block": {16, 31}, "another journal's streams": {34, 34},
		"another node's block":                     {16, 31},
		"torn tail of what was never acknowledged": {}, "no description": {}, "damaged description": {}, "no head": {},
		"torn head": {},
	}
	for name, c := range harms() {
		want, ok := lost[name]
		if !ok {
			continue // nothing is left
		}
		t.Run(name, func(t *testing.T) {
			dir := busDir(t)
			b := openBus(t, dir, rareSync)
			appendToDamage(t, b)
			for _, at := range []uint64{10, damagedLast} {
				must.OK(t, b.Snapshots().Save(testContext(t), at, snapshotsOf(3, at)))
			}
			closeBus(t, b)
			c.do(t, dir)
			damaged := fingerprint(t, streamDir(dir, journalStream))
			r, left := wantRepaired(t, dir)
			for seq := uint64(1); seq <= damagedLast; seq++ {
				isLost := want[0] > 0 && seq >= want[0] && seq <= want[1]
				if seq < want[0] && slices.Contains(left, seq) == isLost {
					t.Errorf("record %d: lost %v, but %v are left", seq, isLost, left)
				}
			}
			if (len(r.Report.Lost) > 0) != (want[0] > 0) || want[0] > 0 &&
				(r.Report.Lost[0].From != want[0] || r.Report.Lost[0].To != want[1]) {
				t.Errorf("lost: %+v, want %v", r.Report.Lost, want)
			}
			if r.Report.Tail != nil && !strings.Contains(name, "streams") {
				t.Errorf("whole records were set aside: %+v", r.Report.Tail)
			}
			for path, was := range damaged { // each block is where it was or set aside
				rel, err := filepath.Rel(dir, path)
				must.OK(t, err)
				if !exists(path) && !exists(filepath.Join(r.Report.SetAside, rel)) && !strings.Contains(was, emptySum) {
					t.Errorf("%s is gone", rel)
				}
			}
		})
	}
}

// Without snapshots after the loss no state can be computed from the records behind it: they are set aside too, in a
// directory that can be read as a journal.
func TestRepairSetsAsideRecordsBehindALoss(t *testing.T) {
	for name, c := range map[string]struct {
		sets  []uint64
		block uint64
		at    int
		left  uint64
		tail  LostRecords
	}{
		"no snapshots":             {nil, 2, 1 << 20, 16, LostRecords{From: 18, To: 34}},
		"snapshots before it":      {[]uint64{10}, 2, 1 << 20, 16, LostRecords{From: 18, To: 34}},
		"snapshots with it":        {[]uint64{10, 17}, 2, 1 << 20, 34, LostRecords{}},
		"snapshots right after it": {[]uint64{20}, 2, 1 << 20, 34, LostRecords{}},
		"the first record":         {nil, 1, 100, 0, LostRecords{From: 2, To: 34}},
		"the last one":             {nil, 3, 1200 << 10, 33, LostRecords{}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := busDir(t)
			b := openBus(t, dir, rareSync)
			appendToDamage(t, b)
			for _, at := range c.sets {
				must.OK(t, b.Snapshots().Save(testContext(t), at, snapshotsOf(3, at)))
			}
			closeBus(t, b)
			flip(c.block, c.at)(t, dir)
			r, left := wantRepaired(t, dir)
			whole := slices.DeleteFunc(slices.Clone(left), func(seq uint64) bool { return seq > c.left })
			if c.left > 0 && (len(whole) == 0 || whole[len(whole)-1] != c.left) || c.left == 0 && left[0] != 35 {
				t.Errorf("%v are left, want those up to %d", left, c.left)
			}
			if (r.Report.Tail == nil) != (c.tail.From == 0) ||
				r.Report.Tail != nil && !reflect.DeepEqual(*r.Report.Tail, c.tail) {
				t.Fatalf("%+v, want %+v", r.Report.Tail, c.tail)
			}
			if r.Report.Tail == nil {
				return
			}
			aside, _ := readShared(t, openShared(t, r.Report.SetAside), 0, 0)
			if !slices.Contains(aside, 34) || !slices.Contains(aside, c.tail.From) {
				t.Errorf("%v were set aside", aside)
			}
		})
	}
}

// emptySum begins the hash of an empty file.
const emptySum = "e3b0c44298fc1c14"

func TestRepairNamesPodsOfLostRecords(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendFacts(t, b, 3)
	must.OK(t, b.Journal().Append(fact(messages.Pod("0c1d-lost"), 0)))
	appendFacts(t, b, 3)
	must.OK(t, b.Snapshots().Save(testContext(t), 7, nil))
	closeBus(t, b)
	path := (&blocks{dir: streamDir(dir, journalStream)}).path(1)
	data := readFile(t, path)
	i := strings.Index(string(data), "0c1d-lost.pod_observed")
	data[i+60] ^= 1
	writeFile(t, path, data)
	r := checkForRepair(t, dir)
	if len(r.Report.Lost) != 1 || !slices.Equal(r.Report.Lost[0].Pods, []string{"0c1d-lost"}) {
		t.Fatalf("%+v", r.Report)
	}
}

func TestRepairRestoresSnapshotsAndManifestsBehindDamage(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendFacts(t, b, 30)
	for _, at := range []uint64{10, 20} {
		must.OK(t, b.Snapshots().Save(testContext(t), at, snapshotsOf(30, at)))
	}
	crash(b)
	path := (&blocks{dir: streamDir(dir, snapshotStream)}).path(1)
	data := readFile(t, path)
	data[200] ^= 1 // in the set at 10
	writeFile(t, path, data)
	wantRepaired(t, dir)
	if at, set, err := openBus(t, dir).Snapshots().Load(testContext(t)); err != nil || at != 20 || len(set) != 30 {
		t.Fatalf("%d states at %d, %v", len(set), at, err)
	}
}

func TestRepairDoesNothingToSoundOrServedJournal(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendFacts(t, b, 30)
	if _, err := CheckForRepair(testContext(t), dir, nil); !errors.Is(err, ErrServed) {
		t.Fatal(err)
	}
	crash(b)
	before := fingerprint(t, dir)
	r := checkForRepair(t, dir)
	must.OK(t, r.Apply(testContext(t), quiet))
	if !r.Report.Sound || !reflect.DeepEqual(before, fingerprint(t, dir)) {
		t.Fatalf("%+v", r.Report)
	}
	// An agent started after the check.
	flip(1, 100)(t, dir)
	r = checkForRepair(t, dir)
	b = openBus(t, dir)
	if err := r.Apply(testContext(t), quiet); err == nil || !strings.Contains(err.Error(), "stop it first") {
		t.Fatal(err)
	}
	closeBus(t, b)
	if err := r.Apply(testContext(t), quiet); err == nil {
		t.Fatal("repaired what was checked before an agent ran")
	}
	if _, err := os.Stat(filepath.Join(dir, damagedDir, repairedPrefix)); err == nil {
		t.Fatal("something was set aside")
	}
}

func TestFoldsUpTo(t *testing.T) {
	for name, c := range map[string]struct {
		lost []Loss
		sets []uint64
		want uint64
	}{
		"whole":                   {nil, nil, 101},
		"no sets":                 {[]Loss{{From: 40, To: 50}}, nil, 40},
		"a set after it":          {[]Loss{{From: 40, To: 50}}, []uint64{20, 60}, 101},
		"a set at its end":        {[]Loss{{From: 40, To: 50}}, []uint64{50}, 101},
		"a set in it":             {[]Loss{{From: 40, To: 50}}, []uint64{20, 45}, 40},
		"two, a set between":      {[]Loss{{From: 40, To: 50}, {From: 70, To: 71}}, []uint64{60}, 70},
		"two, a set in the later": {[]Loss{{From: 40, To: 50}, {From: 70, To: 75}}, []uint64{30, 72}, 40},
		"the beginning":           {[]Loss{{From: 1, To: 5}}, nil, 1},
		"the end":                 {[]Loss{{From: 101, To: 120}}, []uint64{60}, 101},
	} {
		if got := foldsUpTo(c.lost, c.sets, 100); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
