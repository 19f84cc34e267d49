package main

import (
	"fmt"
	"testing"
	"time"
)

func TestJitterIsTheDifferenceFromThePeriod(t *testing.T) {
	begin := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	end := begin.Add(6 * time.Second)
	a := newArrivals()
	runs := func(probe string, ms ...int) {
		for _, m := range ms {
			a.note(probe, begin.Add(time.Duration(m)*time.Millisecond))
		}
	}
	runs("even", -800, 200, 1200, 2200, 3200, 4200, 5200, 6200) // runs outside the window do not count
	runs("uneven", 100, 1150, 2050, 3050, 4050, 5050)           // intervals of 1050, 900, 1000, 1000, 1000
	runs("late", 500, 1500, 4500, 5500)                         // two runs are missing in the middle
	runs("ends", 4400)                                          // three are missing before it and one after it
	runs("outside", -3000)
	r := rhythmOf(a.within(begin, end), 6, time.Second, begin, end)
	if got := fmt.Sprint(r.jitter); got != "[0 0 0 0 0 0 0 0 0 0 50 100 2000]" {
		t.Errorf("jitter %s", got)
	}
	// One of the six never arrives, and one only outside the window.
	if want := 2 + (3 + 1) + 2*6; r.missed != want || r.runs != 6+6+4+1 {
		t.Errorf("%d runs, %d missed; want %d and %d", r.runs, r.missed, 6+6+4+1, want)
	}
	kv := map[string]any{}
	r.report(kv, "http")
	want := map[string]any{
		"http_runs": 17, "http_missed": 18, "http_p50_ms": 0.0, "http_p99_ms": 100.0, "http_max_ms": 2000.0,
	}
	if fmt.Sprint(kv) != fmt.Sprint(want) {
		t.Errorf("reported %v, want %v", kv, want)
	}
}

func TestProbesThatNeverArriveAreMissedAndHaveNoJitter(t *testing.T) {
	begin := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	kv := map[string]any{}
	rhythmOf(nil, 2, time.Second, begin, begin.Add(10*time.Second)).report(kv, "exec")
	if fmt.Sprint(kv) != fmt.Sprint(map[string]any{"exec_runs": 0, "exec_missed": 20}) {
		t.Errorf("reported %v", kv)
	}
}
