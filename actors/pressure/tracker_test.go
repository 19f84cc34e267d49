package pressure

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

var begin = time.Unix(1_000_000, 0)

const mebi = 1 << 20

// follow adds a sample of available mebibytes each second, and returns for each crossing the second, and what is met,
// "!" if it acts.
func follow(t *Tracker, signal Signal, available ...int64) string {
	var out []string
	for i, n := range available {
		at := begin.Add(time.Duration(i) * time.Second)
		s := Sample{At: at, Signals: map[Signal]Measured{}}
		if n >= 0 {
			s.Signals[signal] = Measured{Available: n * mebi, Capacity: 1000 * mebi}
		}
		met, crossing := t.Add(s)
		if !crossing {
			continue
		}
		t.Recorded(met, at)
		out = append(out, fmt.Sprintf("%d:%s", i, short(met)))
	}
	return strings.Join(out, " ")
}

func short(met []*journaletv1.ThresholdMet) string {
	out := ""
	for _, m := range met {
		kind := "hard"
		if m.GetSoft() {
			kind = "soft"
		}
		if m.GetActing() {
			kind += "!"
		}
		out += kind
	}
	return "[" + out + "]"
}

func repeat(n int64, times int) []int64 {
	out := make([]int64, times)
	for i := range out {
		out[i] = n
	}
	return out
}

func TestCrossings(t *testing.T) {
	hard := Threshold{Signal: MemoryAvailable, Value: Amount{Quantity: 100 * mebi}}
	soft := Threshold{Signal: MemoryAvailable, Value: Amount{Percentage: .2}, Soft: true, Grace: 3 * time.Second}
	atOnce := soft
	atOnce.Grace = 0
	more := hard
	more.MinReclaim = Amount{Quantity: 50 * mebi}
	for name, one := range map[string]struct {
		thresholds []Threshold
		available  []int64
		want       string
	}{
		"no pressure":          {[]Threshold{hard, soft}, repeat(500, 30), ""},
		"exactly at the value": {[]Threshold{hard}, repeat(100, 30), ""},
		"a hard one at once":   {[]Threshold{hard}, repeat(99, 30), "0:[hard!]"},
		"a soft one at once": {
			[]Threshold{hard, atOnce}, append(repeat(150, 5), repeat(50, 5)...), "0:[soft!] 5:[hard!soft!]",
		},
		"a soft one later": {[]Threshold{hard, soft}, repeat(150, 30), "0:[soft] 3:[soft!]"},
		"the end":          {[]Threshold{hard}, append(repeat(99, 3), repeat(200, 20)...), "0:[hard!] 12:[]"},
		"a swing":          {[]Threshold{hard}, swing(99, 101, 9), "0:[hard!]"},
		"minimum reclaim": {
			[]Threshold{more}, append(append(repeat(99, 2), repeat(149, 20)...), repeat(150, 20)...), "0:[hard!] 31:[]",
		},
		"unmeasured stays": {[]Threshold{hard}, append(repeat(99, 2), repeat(-1, 60)...), "0:[hard!]"},
		"a soft one's dip": {[]Threshold{soft}, []int64{150, 300, 150, 150, 150}, "0:[soft] 3:[soft!]"},
		"hard after soft": {
			[]Threshold{soft, hard}, append(repeat(150, 5), repeat(50, 5)...), "0:[soft] 3:[soft!] 5:[hard!soft!]",
		},
	} {
		if got := follow(New(one.thresholds, nil), MemoryAvailable, one.available...); got != one.want {
			t.Errorf("%s: got %q, want %q", name, got, one.want)
		}
	}
}

func swing(a, b int64, times int) []int64 {
	var out []int64
	for range times {
		out = append(out, a, b)
	}
	return out
}

// A restart continues: what was met is no crossing, its grace period counts from its first sample, and a threshold that
// is not configured any more ends.
func TestTrackerContinuesAfterRestart(t *testing.T) {
	soft := Threshold{
		Signal: MemoryAvailable, Value: Amount{Quantity: 100 * mebi}, Soft: true, Grace: 5 * time.Second,
	}
	first := New([]Threshold{soft}, nil)
	follow(first, MemoryAvailable, 50, 50)
	second := New([]Threshold{soft}, first.last)
	if got := follow(second, MemoryAvailable, 50, 50, 50, 50, 50, 50); got != "5:[soft!]" {
		t.Errorf("got %q", got)
	}
	if got := follow(New(nil, first.last), MemoryAvailable, 50, 50); got != "0:[]" {
		t.Errorf("without the threshold: %q", got)
	}
}

// After a restart with a clock that was set back, a threshold acts after its grace period, and ends.
func TestClockThatIsSetBackDelaysNothing(t *testing.T) {
	soft := Threshold{
		Signal: MemoryAvailable, Value: Amount{Quantity: 100 * mebi}, Soft: true, Grace: 3 * time.Second,
	}
	first := New([]Threshold{soft}, nil)
	if met, _ := first.Add(Sample{
		At: begin.Add(2 * time.Hour), Signals: map[Signal]Measured{MemoryAvailable: {50 * mebi, 1000 * mebi}},
	}); len(met) != 1 {
		t.Fatal(met)
	} else {
		first.Recorded(met, begin.Add(2*time.Hour))
	}
	available := append(repeat(50, 5), repeat(500, 20)...)
	if got := follow(New([]Threshold{soft}, first.last), MemoryAvailable, available...); got != "3:[soft!] 14:[]" {
		t.Errorf("got %q", got)
	}
}

// A thousand cycles of pressure: each costs one begin and one end, and nothing in between.
func TestThousandCyclesDoNotFlap(t *testing.T) {
	tracker := New([]Threshold{{
		Signal: MemoryAvailable, Value: Amount{Quantity: 100 * mebi}, MinReclaim: Amount{Quantity: 20 * mebi},
	}}, nil)
	at, facts := begin, 0
	for range 1000 {
		for _, n := range append(swing(95, 118, 10), repeat(400, 12)...) {
			at = at.Add(time.Second)
			met, crossing := tracker.Add(Sample{At: at, Signals: map[Signal]Measured{
				MemoryAvailable: {Available: n * mebi, Capacity: 1000 * mebi},
			}})
			if crossing {
				facts++
				tracker.Recorded(met, at)
			}
		}
	}
	if facts != 2000 {
		t.Errorf("%d crossings in 1000 cycles, want 2000", facts)
	}
}

func TestThresholdsOfContainerFS(t *testing.T) {
	all := []Threshold{{Signal: NodeFsAvailable}, {Signal: NodeFsInodesFree}, {Signal: ImageFsAvailable}}
	for layout, want := range map[journaletv1.FilesystemLayout]int{
		journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_ONE:        3,
		journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_OWN_IMAGES: 3,
		journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_SPLIT:      5,
	} {
		if got := len(WithContainerFS(all, layout)); got != want {
			t.Errorf("%s: %d thresholds, want %d", layout, got, want)
		}
	}
}

func TestWhatIsNotMeasuredDoesNotAct(t *testing.T) {
	tracker := New([]Threshold{{Signal: MemoryAvailable, Value: Amount{Quantity: 100 * mebi}}}, nil)
	follow(tracker, MemoryAvailable, 50)
	if met, _ := tracker.Add(Sample{At: begin.Add(time.Second)}); len(met) != 1 || Acting(met) != nil {
		t.Errorf("%v", met)
	}
}

// Far from every threshold samples are rare, near one they are not.
func TestPauseFollowsTheDistance(t *testing.T) {
	hundred := Amount{Quantity: 100 * mebi}
	hard := Threshold{Signal: MemoryAvailable, Value: hundred, MinReclaim: hundred}
	for available, want := range map[int64]time.Duration{
		1000: MaxPause, 900: 4 * time.Second, 600: 2 * time.Second, 300: time.Second, 150: time.Second, 50: time.Second,
		-1: MaxPause,
	} {
		tracker := New([]Threshold{hard}, nil)
		s := Sample{At: begin, Signals: map[Signal]Measured{MemoryAvailable: {available * mebi, 1000 * mebi}}}
		if available < 0 {
			delete(s.Signals, MemoryAvailable)
		}
		tracker.Add(s)
		if got := tracker.Pause(s, time.Second); got != want {
			t.Errorf("%d MiB are left: %s, want %s", available, got, want)
		}
	}
	if got := New(nil, nil).Pause(Sample{}, time.Second); got != MaxPause {
		t.Errorf("without a threshold: %s", got)
	}
}
