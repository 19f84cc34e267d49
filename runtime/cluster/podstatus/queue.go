package podstatus

import (
	"container/heap"
	"sync"
	"time"
)

// queue hands out the UIDs of pods with work to do: what is urgent first, then first come first served, each to one
// worker at a time. A UID that is added while a worker has it comes again afterwards.
type queue struct {
	mu      sync.Mutex
	now     func() time.Time
	entries map[string]*entry
	due     dueHeap
	order   uint64
	wake    chan struct{}
}

// entry is a pod with work to do, or one that a worker has.
type entry struct {
	uid    string
	urgent bool
	// at is when it is due, notBefore when its back-off ends.
	at, notBefore time.Time
	failures      int
	arrival       uint64
	// place is its index in the heap, -1 for none.
	place int
	busy  bool
}

func newQueue(now func() time.Time) *queue {
	return &queue{now: now, entries: map[string]*entry{}, wake: make(chan struct{}, 1)}
}

// add adds work for a pod that is due after a delay. It never delays work that was added before.
func (q *queue) add(uid string, urgent bool, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entry(uid)
	at := latest(q.now().Add(delay), e.notBefore)
	waits := e.place >= 0 || e.busy && !e.at.IsZero()
	if waits && !at.Before(e.at) {
		at = e.at
	}
	if !waits {
		q.order++
		e.arrival = q.order
	}
	e.at, e.urgent = at, e.urgent || urgent
	q.push(e)
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func (q *queue) entry(uid string) *entry {
	e := q.entries[uid]
	if e == nil {
		e = &entry{uid: uid, place: -1}
		q.entries[uid] = e
	}
	return e
}

// push puts an entry at its place in the heap. The lock is held.
func (q *queue) push(e *entry) {
	switch {
	case e.busy:
		return
	case e.place < 0:
		heap.Push(&q.due, e)
	default:
		heap.Fix(&q.due, e.place)
	}
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next returns a pod that is due, and otherwise how long until one is, 0 for none.
func (q *queue) next() (uid string, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	var best *entry
	for _, e := range q.due {
		if !e.at.After(now) && (best == nil || e.before(best)) {
			best = e
		}
		if best != nil && best.urgent && len(q.due) > maxScan {
			break
		}
	}
	if best == nil {
		if len(q.due) == 0 {
			return "", 0
		}
		return "", max(q.due[0].at.Sub(now), time.Nanosecond)
	}
	heap.Remove(&q.due, best.place)
	best.busy, best.urgent, best.at = true, false, time.Time{}
	if len(q.due) > 0 {
		q.signal()
	}
	return best.uid, 0
}

// maxScan is the length from which on the first urgent entry is taken, not the oldest one.
const maxScan = 256

func (e *entry) before(f *entry) bool {
	if e.urgent != f.urgent {
		return e.urgent
	}
	return e.arrival < f.arrival
}

// done ends the work of a worker on a pod. After a failure it is due again when its back-off is over.
func (q *queue) done(uid string, again bool, backOff func(failures int) time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[uid]
	e.busy = false
	if again {
		e.notBefore = q.now().Add(backOff(e.failures))
		e.failures++
		e.at = e.notBefore
	} else {
		e.failures, e.notBefore = 0, time.Time{}
	}
	if e.at.IsZero() {
		delete(q.entries, uid)
		return
	}
	q.push(e)
}

// dueHeap orders entries by the time at which they are due.
type dueHeap []*entry

// Len implements heap.Interface, as the methods below.
func (h dueHeap) Len() int { return len(h) }

// Less compares the times.
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

// Swap swaps two entries.
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push appends an entry.
func (h *dueHeap) Push(x any) {
	e := x.(*entry)
	e.place = len(*h)
	*h = append(*h, e)
}

// Pop removes the last entry.
func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	e.place = -1
	*h = old[:len(old)-1]
	return e
}
