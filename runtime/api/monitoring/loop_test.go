package monitoring

import (
	"testing"
	"time"
)

func TestLoopIsStuckUnlessItWaitsForTheWorld(t *testing.T) {
	const bound = time.Second
	now := time.Unix(1, 0)
	l := Loop{Now: func() time.Time { return now }}
	stuck := func(want bool, why string) {
		t.Helper()
		if _, got := l.Stuck(bound); got != want {
			t.Errorf("stuck %t: %s", got, why)
		}
	}
	pass := func() { now = now.Add(bound + 1) }
	stuck(false, "before the first item")
	l.Begin()
	stuck(false, "within the bound")
	pass()
	stuck(true, "an item takes longer than the bound")
	first, second := l.Wait(), l.Wait()
	first()
	pass()
	stuck(false, "it waits for the world")
	second()
	stuck(false, "after a wait the item has its whole time again")
	pass()
	stuck(true, "a wait must not end the item")
	l.End()
	stuck(false, "between two items")
}
