package stats

import "time"

// rates are the last readings of CPU time, by cgroup: what an average is computed from.
type rates map[string]rate

type rate struct {
	used uint64 // nanoseconds
	at   time.Time
	// average is the one up to at, in nanoseconds of CPU time a second; nil without one.
	average *uint64
}

// known reports whether there is a reading that the next one can be compared with.
func (r rates) known(key string, now time.Time) bool {
	last, ok := r[key]
	return ok && now.Sub(last.at) <= MaxWindow
}

// add adds a reading, and returns the average since the one before, in nanoseconds of CPU time a second; nil without
// one. Two readings within FirstPause have the average before them: the kernel may not have counted in between. A
// counter that went back belongs to another cgroup of this name.
func (r rates) add(key string, used uint64, at time.Time) *uint64 {
	last, before := r[key]
	passed := at.Sub(last.at)
	next := rate{used: used, at: at}
	switch {
	case !before, passed < 0, passed > MaxWindow, used < last.used:
	case passed < FirstPause:
		return last.average
	default:
		average := uint64(float64(used-last.used) / passed.Seconds())
		next.average = &average
	}
	r[key] = next
	return next.average
}

// drop forgets what can no longer be compared with.
func (r rates) drop(now time.Time) {
	for key, last := range r {
		if now.Sub(last.at) > MaxWindow {
			delete(r, key)
		}
	}
}
