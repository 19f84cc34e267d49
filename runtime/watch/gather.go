package watch

import (
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/journalet/journalet/runtime/clock"
)

// Gathering gathers the notifications of a path until the path is quiet: an editor makes several changes, and a copy
// truncates a file before it writes it. Its methods are for one goroutine.
type Gathering struct {
	path        *Path
	clock       clock.Clock
	alarm       *Alarm
	quiet, most time.Duration
	since       time.Time // of the first change that is not taken
	changes     Changes
}

// Gather begins to gather the path's notifications. They are to be read once there are no more for the time quiet, and
// after the time most also if they do not stop. Clear ends it.
func (w *Path) Gather(c clock.Clock, quiet, most time.Duration) *Gathering {
	return &Gathering{path: w, clock: c, alarm: NewAlarm(c), quiet: quiet, most: most}
}

// C receives when the changes are to be read; call Take then.
func (g *Gathering) C() <-chan struct{} { return g.alarm.C() }

// Take returns the changes since the last call.
func (g *Gathering) Take() Changes {
	g.alarm.Rang()
	taken := g.changes
	g.changes = Changes{}
	return taken
}

// Clear keeps C from receiving.
func (g *Gathering) Clear() { g.alarm.Clear() }

// AddEvent adds what Path.Events has received.
func (g *Gathering) AddEvent(e fsnotify.Event, open bool) {
	if g.path.addEvent(e, open, &g.changes) {
		g.holdOff()
	}
}

// AddAll adds that everything may have changed.
func (g *Gathering) AddAll() {
	g.changes.All = true
	g.holdOff()
}

// AddError adds what Path.Errors has received.
func (g *Gathering) AddError(err error, open bool) {
	if g.path.addError(err, open, &g.changes) {
		g.holdOff()
	}
}

// holdOff waits once more for the path to be quiet, unless that takes too long.
func (g *Gathering) holdOff() {
	now := g.clock.Now()
	if !g.alarm.Armed() {
		g.since = now
	}
	if !g.alarm.Armed() || now.Sub(g.since) < g.most {
		g.alarm.Set(g.quiet)
	}
}
