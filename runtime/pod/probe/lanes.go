package probe

import (
	"slices"
	"time"
)

const (
	// SlowWorkers bounds how many probes run at once in the slow lane, in addition to Workers.
	SlowWorkers = Workers
	// slowAfter is how long a run may keep a worker of the quick lane while others wait: the API's default timeout, within
	// which nearly every probe ends.
	slowAfter = time.Second
	// podShare bounds the probes of one pod to 1/podShare of a lane's workers. A pod usually has a few probes; a pod with
	// dozens delays only itself.
	podShare = 4
	// reservedShare keeps 1/reservedShare of the quick lane's workers free of untried probes: a wave of new probes that
	// hang does not delay probes that were quick.
	reservedShare = 4
)

// pace is the speed of a probe's last completed run.
type pace uint8

const (
	untried pace = iota
	quick
	slow
)

// paceOf returns the pace of a run. A slow one took its whole timeout, or longer than slowAfter.
func paceOf(took, timeout time.Duration) pace {
	if took >= min(slowAfter, timeout) {
		return slow
	}
	return quick
}

// lane is a bounded number of workers with a queue.
type lane struct {
	workers int
	running []*probe       // the oldest first
	byPod   map[string]int // workers by pod UID
	untried int            // workers with untried probes
	waiting []*probe       // due probes, each once
}

func newLane(workers int) lane { return lane{workers: workers, byPod: map[string]int{}} }

func (l *lane) full() bool { return len(l.running) >= l.workers }

// podHasShare reports whether a probe's pod may use one more worker.
func (l *lane) podHasShare(p *probe) bool { return l.byPod[p.at.uid] < max(1, l.workers/podShare) }

// hasWorker reports whether there is a worker for a probe of this pace.
func (l *lane) hasWorker(p *probe) bool {
	return !l.full() && (p.pace != untried || l.untried < l.workers-l.workers/reservedShare)
}

func (l *lane) take(p *probe) {
	if p.first = p.pace == untried; p.first {
		l.untried++
	}
	l.running = append(l.running, p)
	l.byPod[p.at.uid]++
}

// leave frees a probe's worker. It reports whether the probe had one.
func (l *lane) leave(p *probe) bool {
	i := slices.Index(l.running, p)
	if i < 0 {
		return false
	}
	l.running = slices.Delete(l.running, i, i+1)
	if p.first {
		l.untried--
	}
	if l.byPod[p.at.uid]--; l.byPod[p.at.uid] == 0 {
		delete(l.byPod, p.at.uid)
	}
	return true
}

// pick dequeues the first waiting probe that may run; nil if none may.
func (l *lane) pick() *probe {
	if l.full() {
		return nil
	}
	i := slices.IndexFunc(l.waiting, func(p *probe) bool { return l.hasWorker(p) && l.podHasShare(p) })
	if i < 0 {
		return nil
	}
	p := l.waiting[i]
	if i > 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		return p
	}
	l.waiting[0], l.waiting = nil, l.waiting[1:]
	return p
}

// lanes assign the workers so that hanging probes do not delay others. A probe whose last run was slow runs in the slow
// lane until a run is quick again. A run that turns out slow in the quick lane gives up its worker as soon as another
// probe waits: it moves to the slow lane or, if that is full, is canceled and repeated there. So a quick probe never
// waits, unless as many quick probes as the lane has workers begin to hang together: then once, for slowAfter. lanes is
// pure: it has no clock, lock or I/O.
type lanes struct{ quick, slow lane }

// wait queues a due probe. Quick ones go before untried ones.
func (l *lanes) wait(p *probe) {
	switch p.pace {
	case slow:
		l.slow.waiting = append(l.slow.waiting, p)
	case untried:
		l.quick.waiting = append(l.quick.waiting, p)
	default:
		at := len(l.quick.waiting)
		for at > 0 && l.quick.waiting[at-1].pace == untried {
			at--
		}
		l.quick.waiting = slices.Insert(l.quick.waiting, at, p)
	}
}

// next returns a probe that starts to run now; nil if no probe waits, or no worker is free.
func (l *lanes) next(now time.Time) *probe {
	for _, at := range []*lane{&l.quick, &l.slow} {
		if p := at.pick(); p != nil {
			p.began = now
			at.take(p)
			return p
		}
	}
	return nil
}

// leave frees the worker of a probe after its run.
func (l *lanes) leave(p *probe) {
	_ = l.quick.leave(p) || l.slow.leave(p)
}

// drop removes a waiting probe.
func (l *lanes) drop(p *probe) {
	for _, at := range []*lane{&l.quick, &l.slow} {
		if i := slices.Index(at.waiting, p); i >= 0 {
			at.waiting = slices.Delete(at.waiting, i, i+1)
		}
	}
}

// makeRoom frees workers of the quick lane for waiting probes. It returns the probes whose runs to cancel.
func (l *lanes) makeRoom(now time.Time) (end []*probe) {
	waiting, fit := len(l.quick.waiting), 0 // fit of them may run with a free worker, the others exceed the podShare
	for _, p := range l.quick.waiting {
		if l.quick.podHasShare(p) {
			fit++
		}
	}
	full, crowded := l.quick.full(), l.quick.untried >= l.quick.workers-l.quick.workers/reservedShare
	for _, p := range slices.Clone(l.quick.running) {
		switch {
		case waiting == 0, now.Sub(p.began) < slowAfter:
			return end
		case p.ended:
			fit--
		case !l.slow.full() && l.slow.podHasShare(p):
			l.quick.leave(p)
			l.slow.take(p)
			waiting, fit = waiting-1, fit-1
		case fit > 0 && (full || crowded && p.first):
			p.ended, p.pace = true, slow
			end = append(end, p)
			waiting, fit = waiting-1, fit-1
		}
	}
	return end
}

// untilMakeRoom returns the time until makeRoom may free more workers; ok is false if only the end of a run can.
func (l *lanes) untilMakeRoom(now time.Time) (left time.Duration, ok bool) {
	if len(l.quick.waiting) == 0 {
		return 0, false
	}
	for _, p := range l.quick.running {
		if left := slowAfter - now.Sub(p.began); left > 0 {
			return left, true
		}
	}
	return 0, false
}
