package main

import (
	"math"
	"slices"
	"sync"
	"time"
)

// arrivals holds the times at which each probe reached its target.
type arrivals struct {
	mu sync.Mutex
	at map[string][]time.Time
}

func newArrivals() *arrivals { return &arrivals{at: map[string][]time.Time{}} }

func (a *arrivals) note(probe string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[probe] = append(a.at[probe], at)
}

// probes returns how many probes have arrived at least once.
func (a *arrivals) probes() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.at)
}

// within returns the arrivals from begin to end, in order, of each probe that has any.
func (a *arrivals) within(begin, end time.Time) map[string][]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string][]time.Time{}
	for probe, at := range a.at {
		for _, t := range at {
			if !t.Before(begin) && !t.After(end) {
				out[probe] = append(out[probe], t)
			}
		}
		slices.SortFunc(out[probe], time.Time.Compare)
	}
	return out
}

// rhythm is how well probes kept their period in a window.
type rhythm struct {
	// jitter is the difference of each interval between two runs of one probe from the period, in milliseconds, smallest
	// first.
	jitter       []float64
	runs, missed int
}

// rhythmOf compares the runs of want probes with the period. A gap of k periods, rounded, misses k-1 runs; so does a
// gap between an end of the window and the run next to it.
func rhythmOf(runs map[string][]time.Time, want int, period time.Duration, begin, end time.Time) rhythm {
	var r rhythm
	missed := func(gap time.Duration) int { return max(0, int(math.Round(float64(gap)/float64(period)))-1) }
	seen := 0
	for _, at := range runs {
		if len(at) == 0 {
			continue
		}
		seen++
		r.runs += len(at)
		r.missed += missed(at[0].Sub(begin)) + missed(end.Sub(at[len(at)-1]))
		for i := 1; i < len(at); i++ {
			gap := at[i].Sub(at[i-1])
			r.missed += missed(gap)
			r.jitter = append(r.jitter, math.Abs(float64(gap-period))/float64(time.Millisecond))
		}
	}
	r.missed += (want - seen) * int(end.Sub(begin)/period)
	slices.Sort(r.jitter)
	return r
}

// report adds the figures of a rhythm to a result, under names that begin with the probes' kind.
func (r rhythm) report(kv map[string]any, kind string) {
	kv[kind+"_runs"], kv[kind+"_missed"] = r.runs, r.missed
	if n := len(r.jitter); n > 0 {
		for name, p := range map[string]float64{"p50": .5, "p99": .99, "max": 1} {
			kv[kind+"_"+name+"_ms"] = r3(r.jitter[int(p*float64(n-1))])
		}
	}
}
