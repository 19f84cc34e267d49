package main

import (
	"math"
	"slices"
	"sync"
	"time"
)

// arrivals are the runs of probes as their targets see them: when each came, by the probe.
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

// probes tells how many probes have come at least once.
func (a *arrivals) probes() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.at)
}

// within are the runs that came from begin to end, each probe's in their order. A probe that came only at other times has none.
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

// rhythm is how well probes kept to their period in a window.
type rhythm struct {
	// jitter is how far each interval between two runs of one probe was from the period, in milliseconds, smallest first.
	jitter       []float64
	runs, missed int
}

// rhythmOf compares runs with the period. want probes should have come; a gap of k periods, rounded, has missed k-1 runs, and so
// has one between an end of the window and the run next to it.
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

// tell puts what there is to say of a rhythm into a result, under names that begin with the probes' kind.
func (r rhythm) tell(kv map[string]any, kind string) {
	kv[kind+"_runs"], kv[kind+"_missed"] = r.runs, r.missed
	if n := len(r.jitter); n > 0 {
		for name, p := range map[string]float64{"p50": .5, "p99": .99, "max": 1} {
			kv[kind+"_"+name+"_ms"] = r3(r.jitter[int(p*float64(n-1))])
		}
	}
}
