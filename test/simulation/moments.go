package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Moments at which a crash tells most: around the start of a container that runs once, and around a timer that fires. An op waits for
// one, and has the agent killed there.

// moment is a point in the work of the agent.
type moment int

const (
	noMoment moment = iota
	// A call that makes or starts a container of restartPolicy Never: dispatched and not begun, on its way to the runtime, just
	// carried out, or answered without a record of it.
	onceBegins
	onceUnderWay
	onceDone
	onceUnrecorded
	// A timer: it has fired and no record says so, or that is recorded and nothing has followed from it.
	timerFired
	timerRecorded
)

// killAt has the agent killed at the next moment of a kind.
func killAt(kinds ...moment) func(*sim, Op) {
	return func(s *sim, o Op) {
		s.trap, s.trapLasts = kinds[o.pick%uint64(len(kinds))], o.lasts
	}
}

// reached is called at a moment. The agent dies before anything else that takes time.
func (s *sim) reached(m moment) {
	if s.trap != m || s.agent == nil {
		return
	}
	s.trap = noMoment
	of := s.agent
	s.clock.after(of.scope, 0, func() {
		s.crash()
		s.later(s.trapLasts, s.start)
	})
}

// lateness is how long at most it may take until a timer that has fired is told: its goroutine has to run first.
const lateness = 3 * time.Second

// AfterFunc is clock.AfterFunc for what dies with a run. Now and then what fires is late to tell, and can be stopped no more.
func (c runClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	fired := func() { f(); c.run.reached(timerFired) }
	e := c.after(c.run.scope, d, func() {
		if chance(c.run.late, 10) {
			c.after(c.run.scope, between(c.run.late, 0, lateness), fired)
			return
		}
		fired()
	})
	return func() bool {
		was := e.do != nil
		e.do = nil
		return was
	}
}

// timersKept: a timer that counts as fired has had its time.
func (j *judge) timersKept(r *run, ref messages.Ref, d actors.Decider) {
	last, was := int(r.cells.Handled(ref)), j.timers[ref]
	set := d.Timers().GetSet()
	if last > 0 && last <= len(j.sim.journal.stored) {
		rec := j.sim.journal.stored[last-1]
		name := rec.GetFact().GetTimerFired().GetName()
		if t := was[name]; t != nil && messages.RefOf(rec.GetActor()) == ref && set[name] != t && j.clockSet < j.sim.clock.uptime-time.Hour {
			if due := t.GetSetAt().AsTime().Add(t.GetDuration().AsDuration()); rec.GetTime().AsTime().Before(due) {
				j.broken(timerTime, ref.ID, "timer %q counts as fired at %s, and is due at %s", name, rec.GetTime().AsTime(), due)
			}
		}
	}
	j.timers[ref] = maps.Clone(set)
}

// due is when a timer has to fire.
type due struct {
	generation uint64
	// set is when it was set, at when its time is over, and stored when the driver heard of it, in uptime.
	set, at, stored time.Duration
}

// timerSet: one that was set by the clock of before, when that had been set back by the time that its step was taken, is due when nobody
// can tell.
func (j *judge) timerSet(ref messages.Ref, rec *journaletv1.Record, t *journaletv1.TimerSet) {
	if cause := j.sim.journal.stored[rec.GetStep().GetCause()-1]; rec.GetTime().AsTime().Before(cause.GetTime().AsTime()) {
		delete(j.due, ref.String()+" "+t.GetName())
		return
	}
	set := j.sim.clock.uptime - j.sim.clock.Now().Sub(rec.GetTime().AsTime())
	j.due[ref.String()+" "+t.GetName()] = due{t.GetGeneration(), set, set + t.GetDuration().AsDuration(), j.sim.clock.uptime}
}

// timerFired: what was set fires when its time is over, or when the next run of the agent begins. Where the clock was set since, nobody
// can tell.
func (j *judge) timerFired(ref messages.Ref, rec *journaletv1.Record, t *journaletv1.TimerFired) {
	d, known := j.due[ref.String()+" "+t.GetName()]
	if !known || d.generation != t.GetGeneration() || j.clockSet >= min(d.set, d.stored) || j.journalLost {
		return
	}
	fired := j.sim.clock.uptime - j.sim.clock.Now().Sub(rec.GetTime().AsTime())
	if late := fired - max(d.at, d.stored, j.runSince); late > lateness {
		j.broken(timerLate, ref.ID, "timer %q of %s fires %s too late", t.GetName(), ref, late)
	}
}

// probesSet: what is told of other probes, or of the same in another form, is news. What those of before found may be on its way.
func (j *judge) probesSet(seq uint64, uid string, set *journaletv1.ProbesSet) {
	of := uid + " " + set.GetContainer() + " "
	maps.DeleteFunc(j.results, func(key string, _ bool) bool { return strings.HasPrefix(key, of) })
	maps.DeleteFunc(j.onTheirWay, func(key string, _ int) bool { return strings.HasPrefix(key, of) })
	for _, rec := range slices.Concat(j.sim.journal.stored[seq:], j.sim.journal.pending) {
		if key := resultKey(rec.GetFact().GetProbeResult()); strings.HasPrefix(key, of) {
			j.onTheirWay[key]++
		}
	}
}

// isNews: a result is told when it differs from the one before of that probe and instance, whichever run of the agent told that.
func (j *judge) isNews(p *journaletv1.ProbeResult) {
	key := resultKey(p)
	if j.onTheirWay[key] > 0 {
		j.onTheirWay[key]--
		return
	}
	if was, told := j.results[key]; told && was == p.GetSuccess() && !j.journalLost {
		j.broken(newsOnly, p.GetUid(), "%s of %s was told before: success %t", p.GetKind(), p.GetContainerId(), was)
	}
	j.results[key] = p.GetSuccess()
}

func resultKey(p *journaletv1.ProbeResult) string {
	return p.GetUid() + " " + p.GetContainer() + " " + p.GetContainerId() + " " + p.GetKind().String()
}

// runsOnce reports whether a call creates or starts a container that is to run but once.
func (r *run) runsOnce(k *journaletv1.StartContainer) bool {
	m, spec := r.specOf(k)
	return spec != nil && runsOnceOnly(m, spec)
}

// at is reached where the call is about a container that is to run but once.
func (r *run) at(c *call, m moment) {
	if c.once {
		r.reached(m)
	}
}
