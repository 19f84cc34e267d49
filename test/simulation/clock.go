package simulation

import (
	"container/heap"
	"iter"
	"math/rand/v2"
	"time"
)

// clock is virtual time and what is due. Two things that are due at one moment happen in an order that the seed decides.
type clock struct {
	// uptime never goes back.
	uptime time.Duration
	// wall is the time of day at uptime 0; who sets the clock changes it.
	wall time.Time
	due  dueHeap
	seq uint64
	ties *rand.Rand
	// current is the coroutine that runs, nil for none.
	current *proc
	// happened counts what was due and has happened.
	happened uint64
}

func newClock(seed uint64) *clock {
	return &clock{wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), ties: stream(seed, "order of events")}
}

// Now is the time of day.
func (c *clock) Now() time.Time { return c.wall.Add(c.uptime) }

// AfterFunc has f called once after d, unless stop is called before.
func (c *clock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	e := c.after(nil, d, f)
	return func() bool {
		was := e.do != nil
		e.do = nil
		return was
	}
}

// event is something that is due. One without anything to do was taken back.
type event struct {
	at        time.Duration
	tie, seq uint64
	// of is the run of the agent that it belongs to; what belongs to a run that is over does not happen.
	of *scope
	do func()
}

// scope is one run of something that may be killed: what it has under way dies with it.
type scope struct {
	over  bool
	procs []*proc
}

func (c *clock) after(of *scope, d time.Duration, do func()) *event {
	c.seq++
	e := &event{at: c.uptime + max(d, 0), tie: c.ties.Uint64(), seq: c.seq, of: of, do: do}
	heap.Push(&c.due, e)
	return e
}

// next makes the next thing happen that is due by end; false if there is none.
func (c *clock) next(end time.Duration) bool {
	for len(c.due) > 0 && c.due[0].at <= end {
		e := heap.Pop(&c.due).(*event)
		if e.do == nil || e.of != nil && e.of.over {
			continue
		}
		c.uptime = e.at
		do := e.do
		e.do = nil
		do()
		c.happened++
		return true
	}
	c.uptime = max(c.uptime, end)
	return false
}

type dueHeap []*event

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	switch a, b := h[i], h[j]; {
	case a.at != b.at:
		return a.at < b.at
	case a.tie != b.tie:
		return a.tie < b.tie
	default:
		return a.seq < b.seq
	}
}
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)   { *h = append(*h, x.(*event)) }
func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}

// proc is a coroutine: something that does one thing after the other and waits in between. One runs at a time.
type proc struct {
	clock *clock
	of    *scope
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	wake  *event
	ended bool
}

// unwound unwinds a coroutine whose life is over.
type unwound struct{}

// start runs f as a coroutine, from now on.
func (c *clock) start(of *scope, f func(*proc)) {
	p := &proc{clock: c, of: of}
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(unwound); !ok {
					panic(r)
				}
			}
		}()
		p.yield = yield
		f(p)
	})
	of.procs = append(of.procs, p)
	p.wake = c.after(of, 0, p.resume)
}

func (p *proc) resume() {
	before := p.clock.current
	p.clock.current = p
	_, going := p.next()
	p.clock.current = before
	if !going {
		p.ended = true
	}
}

// sleep lets d pass, or less if somebody wakes it.
func (p *proc) sleep(d time.Duration) {
	p.wake = p.clock.after(p.of, d, p.resume)
	if !p.yield(struct{}{}) {
		panic(unwound{})
	}
}

// interrupt ends a sleep before its time.
func (p *proc) interrupt() {
	if p.ended || p.of.over || p.wake == nil || p.wake.do == nil {
		return
	}
	p.wake.do = nil
	p.wake = p.clock.after(p.of, 0, p.resume)
}

// end kills a life. It may be called by one of its own coroutines only through the clock.
func (l *scope) end() {
	if l.over {
		return
	}
	l.over = true
	for _, p := range l.procs {
		p.stop()
	}
	l.procs = nil
}

// dropEnded forgets the coroutines that have ended.
func (l *scope) dropEnded() {
	alive := l.procs[:0]
	for _, p := range l.procs {
		if !p.ended {
			alive = append(alive, p)
		}
	}
	clear(l.procs[len(alive):])
	l.procs = alive
}
