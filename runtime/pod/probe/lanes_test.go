package probe

import (
	"fmt"
	"testing"
	"time"
)

// load returns the number of running and waiting probes.
func (l *lanes) load() int {
	return len(l.quick.running) + len(l.quick.waiting) + len(l.quick.byPod) +
		len(l.slow.running) + len(l.slow.waiting) + len(l.slow.byPod)
}

// road is lanes with the time of a test.
type road struct {
	lanes
	now time.Time
}

func newRoad(quick, slow int) *road {
	return &road{lanes{newLane(quick), newLane(slow)}, time.Unix(1_700_000_000, 0)}
}

func (r *road) add(n int, pod string, p pace) (out []*probe) {
	for i := range n {
		x := &probe{at: containerKey{fmt.Sprintf(pod, i), "main"}, pace: p}
		r.wait(x)
		out = append(out, x)
	}
	return out
}

// begin runs all probes that may run.
func (r *road) begin() (n int) {
	for r.next(r.now) != nil {
		n++
	}
	return n
}

func TestLanesAssignWorkers(t *testing.T) {
	t.Run("each lane its own pace", func(t *testing.T) {
		r := newRoad(8, 4)
		r.add(20, "slow%d", slow)
		r.add(20, "quick%d", quick)
		r.begin()
		same(t, "running", []int{len(r.quick.running), len(r.slow.running)}, []int{8, 4})
		for _, p := range r.slow.running {
			same(t, "pace", p.pace, slow)
		}
	})
	t.Run("quick before untried, otherwise in order", func(t *testing.T) {
		r := newRoad(3, 1)
		news := r.add(2, "new%d", untried)
		known := r.add(3, "known%d", quick)
		r.begin()
		same(t, "first", r.quick.running, known)
		r.leave(known[1])
		same(t, "then", r.next(r.now), news[0])
	})
	t.Run("untried ones leave workers to quick ones", func(t *testing.T) {
		r := newRoad(4, 1)
		news := r.add(5, "new%d", untried)
		same(t, "begun", r.begin(), 3)
		known := r.add(1, "known%d", quick)[0]
		same(t, "begins at once", r.next(r.now), known)
		r.leave(known)
		r.now = r.now.Add(slowAfter)
		same(t, "canceled for waiting ones", r.makeRoom(r.now), news[1:2]) // the first moves to the slow lane
		r.leave(news[1])
		same(t, "begun then", r.begin(), 2)
		same(t, "of them untried", r.quick.untried, 3)
	})
	t.Run("a pod is limited to its share, and others pass it", func(t *testing.T) {
		r := newRoad(8, 8)
		many := r.add(5, "many", quick)
		for _, p := range many {
			p.at.uid = "many"
		}
		other := r.add(1, "other%d", quick)[0]
		same(t, "begun", r.begin(), 3)
		same(t, "last begun", r.quick.running[2], other)
		r.leave(many[0])
		same(t, "next", r.next(r.now), many[2])
	})
	t.Run("no run is moved while there is room", func(t *testing.T) {
		r := newRoad(2, 2)
		r.add(2, "a%d", quick)
		r.begin()
		r.now = r.now.Add(time.Hour)
		_, ok := r.untilMakeRoom(r.now)
		same(t, "moved", []any{len(r.makeRoom(r.now)), ok, len(r.quick.running)}, []any{0, false, 2})
	})
	t.Run("a long run moves to the slow lane", func(t *testing.T) {
		r := newRoad(2, 2)
		held := r.add(2, "a%d", quick)
		r.begin()
		r.now = r.now.Add(slowAfter / 4)
		waits := r.add(1, "b%d", quick)[0]
		again, ok := r.untilMakeRoom(r.now)
		same(t, "too early", []any{len(r.makeRoom(r.now)), again, ok, r.begin()}, []any{0, slowAfter * 3 / 4, true, 0})
		r.now = r.now.Add(again)
		same(t, "canceled", len(r.makeRoom(r.now)), 0)
		same(t, "moved", r.slow.running, held[:1])
		same(t, "runs", r.next(r.now), waits)
		r.add(1, "c%d", quick)
		r.now = r.now.Add(time.Millisecond)
		again, ok = r.untilMakeRoom(r.now)
		same(t, "for the next", []any{again, ok}, []any{slowAfter - time.Millisecond, true})
		r.leave(held[0])
		same(t, "left over", len(r.slow.running), 0)
	})
	t.Run("if the slow lane is full, it is canceled once and waits there", func(t *testing.T) {
		r := newRoad(2, 1)
		r.add(1, "slow%d", slow)
		held := r.add(2, "a%d", quick)
		r.begin()
		r.now = r.now.Add(slowAfter)
		r.add(1, "b%d", quick)
		same(t, "canceled", r.makeRoom(r.now), held[:1])
		same(t, "canceled again", len(r.makeRoom(r.now)), 0)
		r.leave(held[0])
		r.wait(held[0])
		same(t, "begun", r.begin(), 1)
		same(t, "waits", r.slow.waiting, held[:1])
	})
	t.Run("no run is canceled for a pod beyond its share", func(t *testing.T) {
		r := newRoad(4, 1)
		r.add(1, "slow%d", slow)
		for _, p := range r.add(3, "many", quick) {
			p.at.uid = "many"
		}
		r.add(3, "a%d", quick)
		r.begin()
		r.now = r.now.Add(slowAfter)
		same(t, "canceled and waiting", []int{len(r.makeRoom(r.now)), len(r.quick.waiting)}, []int{0, 2})
	})
	t.Run("a dropped probe does not wait", func(t *testing.T) {
		r := newRoad(1, 1)
		gone := r.add(3, "a%d", quick)
		r.begin()
		r.drop(gone[1])
		same(t, "waiting", r.quick.waiting, gone[2:])
	})
}

func TestPaceOf(t *testing.T) {
	for _, c := range []struct {
		took, timeout time.Duration
		want          pace
	}{
		{time.Millisecond, time.Second, quick}, {999 * time.Millisecond, time.Second, quick},
		{time.Second, time.Second, slow},
		{2 * time.Second, time.Minute, slow}, {999 * time.Millisecond, time.Minute, quick},
	} {
		if got := paceOf(c.took, c.timeout); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
