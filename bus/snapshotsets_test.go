package bus

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func barriersOf(sets []SnapshotSet) (out []uint64) {
	for _, s := range sets {
		out = append(out, s.Barrier)
	}
	return out
}

func setsAt(every uint64, barriers ...uint64) (out []SnapshotSet) {
	for _, at := range barriers {
		out = append(out, SnapshotSet{Barrier: at, NeededAfter: at, Taken: noon.Add(time.Duration(at/every) * time.Hour)})
	}
	return out
}

func TestThinnedSetsKeepTheNewestAndTheBase(t *testing.T) {
	cases := map[string]struct {
		sets  []SnapshotSet
		cut   uint64
		limit int
		want  []uint64
	}{
		"few":               {setsAt(10, 10, 20, 30), 1, 4, []uint64{10, 20, 30}},
		"one too many":      {setsAt(10, 10, 20, 30, 40, 50), 1, 4, []uint64{20, 30, 40, 50}},
		"those between":     {setsAt(10, 30, 60, 61, 90, 120), 1, 4, []uint64{30, 60, 90, 120}},
		"below the cut":     {setsAt(10, 10, 20, 30, 40), 21, 4, []uint64{20, 30, 40}},
		"the base":          {setsAt(10, 20, 21, 22, 30), 21, 2, []uint64{20, 30}},
		"cut below a set":   {setsAt(10, 10, 20, 30, 40), 17, 4, []uint64{20, 30, 40}},
		"only an older one": {setsAt(10, 10), 21, 4, []uint64{10}},
		"none":              {nil, 21, 4, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := barriersOf(thinned(c.sets, c.cut, c.limit)); !slices.Equal(got, c.want) {
				t.Fatalf("%v stay, want %v", got, c.want)
			}
		})
	}
}

// However many sets were taken, the sets that stay are spread over the journal: no gap is much wider than others.
func TestThinnedSetsAreSpreadOverJournal(t *testing.T) {
	var sets []SnapshotSet
	const every = 20_000
	for i := range uint64(500) {
		sets = thinned(append(sets, setsAt(every, (i+1)*every)...), 1, MaxSets)
		before, widest := uint64(0), uint64(0)
		for _, s := range sets {
			widest = max(widest, s.Barrier-before)
			before = s.Barrier
		}
		if last := sets[len(sets)-1].Barrier; len(sets) > MaxSets || last != (i+1)*every ||
			widest > max(every, last/6) {
			t.Fatalf("%v: the widest gap is %d of %d", barriersOf(sets), widest, last)
		}
	}
}

// A quiet time keeps sets too: a cut for age ends behind one.
func TestThinnedSetsAreSpreadOverTime(t *testing.T) {
	var sets []SnapshotSet
	for i := range 200 { // a busy hour, then a quiet week
		at, taken := uint64(i+1)*20_000, noon.Add(time.Duration(i)*time.Minute)
		if i >= 60 {
			at, taken = uint64(1_200_000+i), noon.Add(time.Duration(i-59)*time.Hour)
		}
		sets = thinned(append(sets, SnapshotSet{Barrier: at, NeededAfter: at, Taken: taken}), 1, MaxSets)
	}
	busy := 0
	for _, s := range sets {
		if s.Barrier <= 1_200_000 {
			busy++
		}
	}
	if busy < 4 || len(sets)-busy < 4 {
		t.Fatalf("%d of %d sets are of the busy hour", busy, len(sets))
	}
}

func TestOlderSetsStayUntilTheirRecordsAreCut(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendAged(t, b, slices.Repeat([]int{90}, 40)...)
	s := b.Snapshots()
	quarantined := snapshotsOf(3, 30)
	quarantined[1].Quarantined, quarantined[1].Contained = &journaletv1.Quarantined{}, 25
	for _, at := range []uint64{10, 20, 30, 40} {
		set := snapshotsOf(3, at)
		if at == 30 {
			set = quarantined
		}
		must.OK(t, s.Save(testContext(t), at, set))
	}
	sets, err := s.Sets(testContext(t))
	if err != nil || len(sets) != 4 || sets[2].NeededAfter != 25 || sets[3].NeededAfter != 40 || sets[0].Actors != 3 ||
		sets[0].Bytes == 0 || sets[0].Taken.Before(time.Now().Add(-time.Hour)) {
		t.Fatalf("%+v, %v", sets, err)
	}
	b.journal.least = 0
	// All records are old, and the last one stays: the cut ends behind a set below it.
	if n, err := b.Journal().Retain(testContext(t), Retention{Age: day}, sets, noon); err != nil || n != 25 {
		t.Fatalf("%d were cut, %v", n, err)
	}
	appendFacts(t, b, 10)
	must.OK(t, s.Save(testContext(t), 45, snapshotsOf(3, 45)))
	if sets, err = s.Sets(testContext(t)); err != nil || !slices.Equal(barriersOf(sets), []uint64{30, 40, 45}) {
		t.Fatalf("%v, %v", barriersOf(sets), err)
	}
	closeBus(t, b)
	shared := openShared(t, dir)
	first, _ := shared.Bounds()
	at, err := shared.Snapshots(testContext(t))
	if err != nil || first != 26 || !slices.Equal(at, []uint64{30, 40, 45}) {
		t.Fatalf("%v from %d, %v", at, first, err)
	}
}

// A journal that lost its end assigns the same numbers again: snapshots of the lost records must not be taken for
// snapshots of the new records.
func TestSnapshotsOfLostRecordsAreNotLoaded(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendWide(t, b, 34)
	for _, at := range []uint64{12, 34} {
		must.OK(t, b.Snapshots().Save(testContext(t), at, snapshotsOf(3, at)))
	}
	crash(b)
	bl := &blocks{dir: streamDir(dir, journalStream)}
	must.OK(t, os.Remove(bl.path(3)))
	must.OK(t, os.Remove(filepath.Join(bl.dir, indexFile)))
	b = openBus(t, dir)
	last := b.Journal().Last()
	if o := b.Opening(); o.Damage == nil || last >= 34 {
		t.Fatalf("%+v", o)
	}
	if at, _, err := b.Snapshots().Load(testContext(t)); err != nil || at != 12 {
		t.Fatalf("loaded the set at %d, %v", at, err)
	}
	appendFacts(t, b, 40)
	crash(b)
	b = openBus(t, dir)
	if at, _, err := b.Snapshots().Load(testContext(t)); err != nil || at != 12 {
		t.Fatalf("loaded the set at %d, %v", at, err)
	}
}

// Where the cut ends, by what goes for bytes (each record has 100) and which records are old.
func TestCutEndsBehindSnapshots(t *testing.T) {
	cases := map[string]struct {
		old    uint64 // all records up to it
		over   uint64 // records
		places []uint64
		want   uint64
	}{
		"age, behind a set":                     {30, 0, []uint64{11, 21, 41}, 21},
		"age, exactly":                          {30, 0, []uint64{11, 31, 41}, 31},
		"age, no set that old":                  {30, 0, []uint64{41}, 1},
		"nothing":                               {0, 0, []uint64{11, 21}, 1},
		"bytes, behind the next set":            {0, 30, []uint64{11, 21, 41, 51}, 41},
		"bytes, exactly":                        {0, 30, []uint64{11, 31, 41}, 31},
		"bytes, no set left by the newest ones": {0, 30, []uint64{11, 21, 95}, 31},
		"bytes, none above":                     {0, 30, []uint64{11, 21}, 21},
		"both, age goes further":                {60, 30, []uint64{11, 41, 51, 71}, 51},
		"both, age finds none":                  {35, 30, []uint64{11, 41, 51, 71}, 41},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var sets []SnapshotSet
			for _, place := range c.places {
				sets = append(sets, SnapshotSet{Barrier: place - 1, NeededAfter: place - 1})
			}
			p := newCutting(1, 100, sets)
			p.over = c.over * 100
			for seq := uint64(1); seq <= min(p.limit, 90); seq++ { // the newest ten stay
				p.gone += 100
				if p.add(seq, seq <= c.old) {
					break
				}
			}
			if got := p.keep(); got.next != c.want || got.gone != (c.want-1)*100 {
				t.Fatalf("the first record kept is %d, want %d: %+v", got, c.want, p)
			}
		})
	}
}

func TestManifestOfAnOlderSetStays(t *testing.T) {
	b := openBus(t, busDir(t))
	appendFacts(t, b, 5)
	data := []byte("kind: Pod")
	must.OK(t, b.Manifests().Put(testContext(t), digestOf(data), data))
	for at := range uint64(3) {
		state := bytes.Repeat([]byte("x"), 10)
		if at == 0 {
			state = []byte(digestOf(data))
		}
		set := []*journaletv1.Snapshot{{Actor: messages.Node.Proto(), State: state}}
		for i := range 700 { // more than one batch
			set = append(set, &journaletv1.Snapshot{Actor: messages.Pod(fmt.Sprint(i)).Proto()})
		}
		must.OK(t, b.Snapshots().Save(testContext(t), at+1, set))
	}
	if got, err := b.UnreferencedManifests(testContext(t)); err != nil || len(got) != 0 {
		t.Fatalf("%v, %v", got, err)
	}
}
