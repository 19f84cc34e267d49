package simulation

import (
	"container/heap"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"
)

// virtualTime is the time of a plan and the queue of its events. The seed decides the order of events that are due at
// one moment.
type virtualTime struct {
	// uptime never goes back.
	uptime time.Duration
	// wall is the time of day at uptime 0. Setting the clock changes it.
	wall time.Time
	due  dueHeap
	seq  uint64
	ties *rand.Rand
	// current is the coroutine that runs, nil for none.
	current *proc
	// happened counts the events that took place.
	happened uint64
}

func newClock(seed uint64) *virtualTime {
	return &virtualTime{wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), ties: stream(seed, "order of events")}
}

// Now returns the time of day.
func (c *virtualTime) Now() time.Time { return c.wall.Add(c.uptime) }

// event is something that is due. A cancelled one has nothing to do.
type event struct {
	at       time.Duration
	tie, seq uint64
	// owner is the scope that the event belongs to, nil for the world. An event of an ended scope does not take place.
	owner *scope
	do    func()
}

// cancel keeps an event from taking place, and reports whether it was still due. nil is no event.
func (e *event) cancel() bool {
	due := e != nil && e.do != nil
	if due {
		e.do = nil
	}
	return due
}

// scope groups coroutines and events that end together: the coroutines and events of one run of the agent.
type scope struct {
	over  bool
	procs []*proc
}

func (c *virtualTime) after(owner *scope, d time.Duration, do func()) *event {
	c.seq++
	e := &event{at: c.uptime + max(d, 0), tie: c.ties.Uint64(), seq: c.seq, owner: owner, do: do}
	heap.Push(&c.due, e)
	return e
}

// next has the next event take place that is due by end. It returns false if no event is due.
func (c *virtualTime) next(end time.Duration) bool {
	for len(c.due) > 0 && c.due[0].at <= end {
		e := heap.Pop(&c.due).(*event)
		if e.do == nil || e.owner != nil && e.owner.over {
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

// proc is a coroutine. It waits in virtual time; one runs at a time.
type proc struct {
	clock *virtualTime
	owner *scope
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	wake  *event
	ended bool
}

// unwound is the panic that unwinds a coroutine whose scope has ended.
type unwound struct{}

// Unwinds implements defect.Unwinding: code of the agent that recovers from its own panics lets this one pass.
func (unwound) Unwinds() {}

// start runs f as a coroutine, from now on.
func (c *virtualTime) start(owner *scope, f func(*proc)) {
	p := &proc{clock: c, owner: owner}
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(unwound); !ok {
					panic(fmt.Sprintf("%v\n%s", r, debug.Stack())) // the stack of who resumes it shows nothing
				}
			}
		}()
		p.yield = yield
		f(p)
	})
	owner.procs = append(owner.procs, p)
	p.wake = c.after(owner, 0, p.resume)
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

// sleep waits for d, or until interrupt.
func (p *proc) sleep(d time.Duration) {
	p.wake = p.clock.after(p.owner, d, p.resume)
	if !p.yield(struct{}{}) {
		panic(unwound{})
	}
}

// interrupt ends a sleep early.
func (p *proc) interrupt() {
	if !p.ended && !p.owner.over && p.wake.cancel() {
		p.wake = p.clock.after(p.owner, 0, p.resume)
	}
}

// end ends all coroutines and events of a scope. A coroutine of the scope itself must not call it, but schedule it on
// the clock.
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

// dropEnded drops the coroutines that have ended.
func (l *scope) dropEnded() {
	l.procs = slices.DeleteFunc(l.procs, func(p *proc) bool { return p.ended })
}

func (s *sim) setClock(by time.Duration) {
	s.clock.wall = s.clock.wall.Add(by)
	s.judge.clockJumped(by)
}
