package watch

import (
	"time"

	"github.com/journalet/journalet/runtime/clock"
)

// Alarm is a timer that signals a channel. Its methods are for one goroutine.
type Alarm struct {
	clock clock.Clock
	c     chan struct{}
	stop  func() bool
	armed bool
}

// NewAlarm returns an alarm that is not set.
func NewAlarm(c clock.Clock) *Alarm { return &Alarm{clock: c, c: make(chan struct{}, 1)} }

// Set sets the alarm: it rings once, d from now, and not when it was to ring before.
func (a *Alarm) Set(d time.Duration) {
	a.Clear()
	// Each setting has its own channel, so that an expiry during Clear has no effect.
	c := make(chan struct{}, 1)
	a.c, a.armed = c, true
	a.stop = a.clock.AfterFunc(d, func() { c <- struct{}{} })
}

// Clear keeps the alarm from ringing.
func (a *Alarm) Clear() {
	if a.armed {
		a.stop()
		a.armed = false
		a.c = make(chan struct{}, 1)
	}
}

// C receives when the alarm rings; call Rang then.
func (a *Alarm) C() <-chan struct{} { return a.c }

// Rang notes that C has received.
func (a *Alarm) Rang() { a.armed = false }

// Armed reports whether the alarm is set.
func (a *Alarm) Armed() bool { return a.armed }
