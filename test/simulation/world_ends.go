package simulation

import "cmp"

// How processes end: by themselves, by SIGTERM, or because they never began.

// lastWords returns the message of a container that has ended: why the runtime has refused its start, or what it has
// left.
func (c *container) lastWords() string { return cmp.Or(c.refusal, c.message) }

// fail marks a container as never started.
func (w *world) fail(c *container, why string) {
	c.state, c.code, c.reason, c.refusal, c.finished = exited, 128, "StartError", why, w.clock.Now()
	w.emit(c.uid)
}

func (w *world) scheduleEnd(c *container) {
	c.end.cancel()
	if c.does.runs == 0 {
		return
	}
	c.end = w.clock.after(nil, c.does.runs, func() { w.exit(c, c.does.code, c.does.reason) })
}

// exit ends a container's process.
func (w *world) exit(c *container, code int32, reason string) {
	if !c.alive() {
		return
	}
	w.lingers(c)
	c.state, c.code, c.reason, c.finished = exited, code, reason, w.clock.Now()
	if code != unknownExit { // a process that is killed says nothing
		w.files.says(c)
	}
	c.end.cancel()
	c.kill.cancel()
	w.judge.containerEnded(c)
	w.ends[c.id] = c
	for _, p := range c.stoppers {
		p.interrupt()
	}
	c.stoppers = nil
	w.emit(c.uid)
}

// term sends SIGTERM.
func (w *world) term(c *container) {
	if c.termed || !c.alive() {
		return
	}
	w.stopped(c, "StopContainer")
	c.termed = true
	if c.does.ignoresTerm {
		return
	}
	w.clock.after(nil, c.does.ends, func() { w.exit(c, c.does.termCode, "Error") })
}
