package probe

import (
	"slices"
	"time"
)

const (
	// SlowWorkers is how many probes run at once in the slow lane, beside the Workers of the quick one.
	SlowWorkers = Workers
	// slowAfter is how long a run may hold a worker of the quick lane while others wait for one: the API's default timeout,
	// within which nearly every probe answers.
	slowAfter = time.Second
	// podShare is the part of a lane's workers, one over this, that the probes of one pod may hold. A pod has a few
	// probes at a time; one that has dozens waits for itself.
	podShare = 4
	// reservedShare is the part of the quick lane's workers, one over this, that is kept from probes of which nothing is known: a
	// wave of new ones that hang holds up none that answered lately.
	reservedShare = 4
)

// pace is what a probe's last run that came to an end was like.
type pace uint8

const (
	untried pace = iota
	quick
	slow
)

// paceOf tells a slow run by what it took: its whole timeout, or more than others can be made to wait.
func paceOf(took, timeout time.Duration) pace {
	if took >= min(slowAfter, timeout) {
		return slow
	}
	return quick
}

// lane is a bounded number of workers and those who wait for one.
type lane struct {
	workers int
	running []*probe       // the longest under way first
	byPod   map[string]int // of the workers, by the pod's UID
	untried int            // of the workers, held by probes of which nothing is known
	waiting []*probe       // due; each stands here once
}

func newLane(seats int) lane { return lane{workers: seats, byPod: map[string]int{}} }

func (l *lane) full() bool { return len(l.running) >= l.workers }

// podHasShare tells whether a probe's pod may hold one more worker.
func (l *lane) podHasShare(p *probe) bool { return l.byPod[p.at.uid] < max(1, l.workers/podShare) }

// hasWorker tells whether there is a worker for a probe such as this.
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

// leave gives a probe's worker back; it tells whether the probe had one.
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

// pick takes the first out of those waiting that may run, nil if none may.
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

// lanes share out the workers such that probes that hang hold up none that answer. A probe whose last run was slow runs in
// the slow lane, until a run is quick again. A run that turns out slow in the quick lane gives its worker up as soon as
// somebody waits for it: it goes on in the slow lane, or, where that has no room, is ended and run again there, in full,
// when its turn comes. So one that answered lately waits for nobody, unless as many of its kind as the quick lane has workers
// begin to hang together: then for patience, once. It has no clock, lock or world.
type lanes struct{ quick, slow lane }

// wait lines a probe up that is due: one that answered lately before those of which nothing is known.
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

// next gives a probe that is to run from now on, nil if there is none or no worker for it.
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

// leave gives back the worker of a probe that was run.
func (l *lanes) leave(p *probe) {
	_ = l.quick.leave(p) || l.slow.leave(p)
}

// drop takes a probe out that waits.
func (l *lanes) drop(p *probe) {
	for _, at := range []*lane{&l.quick, &l.slow} {
		if i := slices.Index(at.waiting, p); i >= 0 {
			at.waiting = slices.Delete(at.waiting, i, i+1)
		}
	}
}

// makeRoom makes room in the quick lane for those who wait there, and gives the runs that are to be ended for it.
func (l *lanes) makeRoom(now time.Time) (end []*probe) {
	waiting, fit := len(l.quick.waiting), 0 // fit may run as soon as there is a worker, the others wait for their pods
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

// untilMakeRoom is the time after which relieve may find more to do than now; ok is false if only the end of a run can help.
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
