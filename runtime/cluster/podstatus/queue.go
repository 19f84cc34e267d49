package podstatus

import (
	"container/heap"
	"sync"
	"time"
)

// queue hands out the UIDs of pods with work to do: what is urgent first, then first come first served, each to one
// worker at a time. A UID that is added while a worker has it comes again afterwards.
type queue struct {
	mu  sync.Mutex
	now func() time.Time
	// others bounds the workers with work that is not urgent; calm is how many have some.
	others, calm int
	entries      map[string]*entry
	// later are not due yet, by time. ready are due, in the order that workers get them in.
	later, ready entries
	order        uint64
	wake         chan struct{}
}

// entry is a pod with work to do, or a pod that a worker has.
type entry struct {
	uid    string
	urgent bool
	// at is when it is due, notBefore when its back-off ends, since when the first of its work was added.
	at, notBefore, since time.Time
	// failed is when its last request failed.
	failed   time.Time
	failures int
	arrival  uint64
	// in is the heap that has it, nil for none; place is its index there.
	in    *entries
	place int
	// work is what a worker has of it, nil if none has.
	work *work
}

// work is what a worker does for one pod.
type work struct {
	uid    string
	urgent bool
	// since is when the first change was added that it is about.
	since time.Time
	// hurry is closed when work that is urgent has come for the pod, and this is not.
	hurry   chan struct{}
	hurried bool
}

func newQueue(workers int, now func() time.Time) *queue {
	q := &queue{
		now: now, others: max(1, workers-urgentWorkers), entries: map[string]*entry{}, wake: make(chan struct{}, 1),
	}
	q.later.before = func(a, b *entry) bool { return a.at.Before(b.at) }
	q.ready.before = func(a, b *entry) bool {
		if a.urgent != b.urgent {
			return a.urgent
		}
		return a.arrival < b.arrival
	}
	return q
}

// add adds work for a pod that is due after a delay. It never delays work that was added before.
func (q *queue) add(uid string, urgent bool, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[uid]
	if e == nil {
		e = &entry{uid: uid}
		q.entries[uid] = e
	}
	at := latest(q.now().Add(delay), e.notBefore)
	if waits := !e.at.IsZero(); !waits {
		q.order++
		e.arrival = q.order
		e.since = q.now()
	} else if e.at.Before(at) {
		at = e.at
	}
	e.at, e.urgent = at, e.urgent || urgent
	if w := e.work; w != nil {
		if urgent && !w.urgent && !w.hurried {
			w.hurried = true
			close(w.hurry)
		}
		return
	}
	q.place(e)
	q.signal()
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// place puts an entry that no worker has where it belongs. The lock is held.
func (q *queue) place(e *entry) {
	to := &q.later
	if !e.at.After(q.now()) {
		to = &q.ready
	}
	if e.in == to {
		heap.Fix(to, e.place)
		return
	}
	if e.in != nil {
		heap.Remove(e.in, e.place)
	}
	e.in = to
	heap.Push(to, e)
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next returns the work that comes first, and otherwise how long until some is due, 0 for none.
func (q *queue) next() (*work, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	for q.later.Len() > 0 && !q.later.list[0].at.After(now) {
		q.place(q.later.list[0])
	}
	if q.ready.Len() == 0 || !q.ready.list[0].urgent && q.calm >= q.others {
		if q.later.Len() == 0 {
			return nil, 0
		}
		return nil, max(q.later.list[0].at.Sub(now), time.Nanosecond)
	}
	e := heap.Pop(&q.ready).(*entry)
	e.in = nil
	e.work = &work{uid: e.uid, urgent: e.urgent, since: e.since, hurry: make(chan struct{})}
	e.urgent, e.at = false, time.Time{}
	if !e.work.urgent {
		q.calm++
	}
	return e.work, 0
}

// done ends the work of a worker on a pod. After a failure it is due again when its back-off is over.
func (q *queue) done(w *work, again bool, backOff func(failures int) time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.signal()
	if !w.urgent {
		q.calm--
	}
	e := q.entries[w.uid]
	e.work = nil
	if again {
		e.failed, e.since = q.now(), w.since
		e.notBefore = e.failed.Add(backOff(e.failures))
		e.failures++
		e.at, e.urgent = e.notBefore, e.urgent || w.urgent
	} else {
		e.failures, e.notBefore = 0, time.Time{}
	}
	if e.at.IsZero() {
		delete(q.entries, w.uid)
		return
	}
	q.place(e)
}

// retry shortens the back-off of every pod to the least.
func (q *queue) retry() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		if soon := e.failed.Add(backOffLeast); soon.Before(e.notBefore) {
			e.at, e.notBefore = soon, soon
			if e.work == nil {
				q.place(e)
			}
		}
	}
	q.signal()
}

// entries is a heap of entries in the order of before.
type entries struct {
	list   []*entry
	before func(a, b *entry) bool
}

// Len implements heap.Interface, as the methods below.
func (h *entries) Len() int { return len(h.list) }

// Less compares two entries.
func (h *entries) Less(i, j int) bool { return h.before(h.list[i], h.list[j]) }

// Swap swaps two entries.
func (h *entries) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].place, h.list[j].place = i, j
}

// Push appends an entry.
func (h *entries) Push(x any) {
	e := x.(*entry)
	e.place = len(h.list)
	h.list = append(h.list, e)
}

// Pop removes the last entry.
func (h *entries) Pop() any {
	last := len(h.list) - 1
	e := h.list[last]
	h.list[last] = nil
	h.list = h.list[:last]
	return e
}
