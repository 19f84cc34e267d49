package pleg

import (
	"sync"
	"testing"
	"time"
)

// TestStampsOrderInspectionsAndCallsWithoutClock: an inspection that began after a call ended has a greater stamp, and
// an inspection that began before has a smaller stamp, even if the clock is set in between.
func TestStampsOrderInspectionsAndCallsWithoutClock(t *testing.T) {
	wall := time.Unix(100, 0)
	s := NewStamps(func() time.Time { return wall })
	ended := func() time.Time {
		at, ended := s.CallEnded()
		if !at.Equal(wall) {
			t.Errorf("the record's time is %s, and the clock's %s", at, wall)
		}
		if ended != nil {
			return ended.AsTime()
		}
		return at
	}
	var all []time.Time
	for _, to := range []int64{100, 100, 50, 51, 200, 199, 201} {
		wall = time.Unix(to, 0)
		all = append(all, s.InspectionBegan().AsTime(), ended(), s.InspectionBegan().AsTime(), ended(), ended())
	}
	for i := 1; i < len(all); i++ {
		if !all[i].After(all[i-1]) {
			t.Errorf("stamp %d is %s, after %s", i, all[i], all[i-1])
		}
	}
	if newest := all[len(all)-1]; newest.Sub(wall) > time.Microsecond {
		t.Errorf("the newest stamp is %s after the clock caught up: %s", newest, wall)
	}
}

// TestStampsCompareTimeOfDay: two readings of the real clock compare by their monotonic parts, which setting the clock
// does not change; in the journal they have none.
func TestStampsCompareTimeOfDay(t *testing.T) {
	s := NewStamps(time.Now)
	s.InspectionBegan()
	if s.last != s.last.Round(0) {
		t.Errorf("%s keeps a monotonic reading", s.last)
	}
	if at, _ := s.CallEnded(); at != at.Round(0) {
		t.Errorf("%s keeps a monotonic reading", at)
	}
}

// TestStampsAreUnique: several goroutines get no equal stamps.
func TestStampsAreUnique(t *testing.T) {
	s := NewStamps(func() time.Time { return time.Unix(1, 0) })
	var mu sync.Mutex
	seen := map[time.Time]bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				at := s.InspectionBegan().AsTime()
				mu.Lock()
				if seen[at] {
					t.Errorf("duplicate stamp %s", at)
				}
				seen[at] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}
