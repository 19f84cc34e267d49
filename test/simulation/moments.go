package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Moments at which a crash is most likely to show a defect: around the start of a container that may run only once,
// and around a timer. An op waits for one of them and kills the agent there.

// moment is a point in the work of the agent.
type moment int

const (
	noMoment moment = iota
	// A call that creates or starts a container of restartPolicy Never: before it begins, on its way to the runtime,
	// just carried out, or before its outcome is recorded.
	onceBegins
	onceUnderWay
	onceDone
	onceUnrecorded
	// A timer: it has fired and is not recorded, or it is recorded and nothing has followed from it.
	timerFired
	timerRecorded
)

// killAt returns an op that kills the agent at the next moment of a kind.
func killAt(kinds ...moment) func(*sim, Op) {
	return func(s *sim, o Op) {
		s.trap, s.trapLasts = kinds[o.pick%uint64(len(kinds))], o.lasts
	}
}

// reached is called at a moment. It kills the agent before virtual time passes.
func (s *sim) reached(m moment) {
	if s.trap != m || s.agent == nil {
		return
	}
	s.trap = noMoment
	agent := s.agent
	s.clock.after(agent.scope, 0, func() {
		s.crash()
		s.later(s.trapLasts, s.start)
	})
}

// lateness bounds how late a timer may be recorded after it fired: its goroutine has to run first.
const lateness = 3 * time.Second

// AfterFunc implements clock.Clock. Now and then a timer fires late, and cannot be stopped any more.
func (c runClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	fired := func() { f(); c.run.reached(timerFired) }
	e := c.after(c.run.scope, d, func() {
		if chance(c.run.late, 10) {
			c.after(c.run.scope, between(c.run.late, 0, lateness), fired)
			return
		}
		fired()
	})
	return e.cancel
}

// timersKept: a timer that counts as fired was due. One that fired does not count if the step clears it, as only a
// timer that is set is cleared: what fired was an earlier one of its name, late.
func (j *judge) timersKept(r *run, ref messages.Ref, d actors.Decider, step *journaletv1.Record) {
	last, was := int(r.cells.Handled(ref)), j.timers[ref]
	set := d.Timers().GetSet()
	if last > 0 && last <= len(j.sim.journal.stored) {
		rec := j.sim.journal.stored[last-1]
		name := rec.GetFact().GetTimerFired().GetName()
		if t := was[name]; t != nil && messages.RefOf(rec.GetActor()) == ref && set[name] != t && !clears(step, name) {
			j.wasDue(ref, rec, j.sim.journal.storedAt[last-1], t)
		}
	}
	j.timers[ref] = maps.Clone(set)
}

// clears reports whether a step clears a timer.
func clears(step *journaletv1.Record, name string) bool {
	return slices.ContainsFunc(step.GetStep().GetDecisions(), func(e *journaletv1.Event) bool {
		return e.GetTimerCleared() != nil && e.GetTimerCleared().GetName() == name
	})
}

// wasDue: the time of a timer that fired has passed, or its end has been reached by the clock. If the clock was set
// more than once since the timer was, a restart in between may have cut it short.
func (j *judge) wasDue(ref messages.Ref, rec *journaletv1.Record, firedAt time.Duration, t *journaletv1.Timer) {
	d, known := j.due[ref.String()+" "+t.GetName()]
	if !known || d.generation != t.GetGeneration() {
		return
	}
	jumps := 0
	for _, at := range j.clockSets {
		if at >= d.from {
			jumps++
		}
	}
	byClock := t.GetSetAt().AsTime().Add(t.GetDuration().AsDuration())
	if rec.GetTime().AsTime().Before(byClock) && (jumps == 0 || jumps == 1 && firedAt < d.earliest) {
		j.broken(timerTime, ref.ID, "timer %q counts as fired at %s, and is due at %s", t.GetName(), rec.GetTime().AsTime(),
			byClock)
	}
}

// setTimer is a timer that is set: its actor, and its generation.
type setTimer struct {
	messages.Ref
	generation uint64
}

// due is when a timer has to fire.
type due struct {
	generation uint64
	// from is when the cause of its setting was stored, set when it was set, earliest when it is due counted from that
	// cause, at when it is due, and stored when the driver learned of it, in uptime.
	from, set, earliest, at, stored time.Duration
}

// timerEvent keeps the books of timers.
func (j *judge) timerEvent(ref messages.Ref, rec *journaletv1.Record, e *journaletv1.Event) {
	name := ref.String() + " "
	switch {
	case e.GetTimerSet() != nil:
		name += e.GetTimerSet().GetName()
		j.set[name] = setTimer{ref, e.GetTimerSet().GetGeneration()}
		j.timerSet(name, rec, e.GetTimerSet())
	case e.GetTimerCleared() != nil:
		delete(j.set, name+e.GetTimerCleared().GetName())
	default:
		name += e.GetTimerFired().GetName()
		if j.set[name].generation == e.GetTimerFired().GetGeneration() {
			delete(j.set, name)
		}
		j.timerFired(name, rec, e.GetTimerFired())
	}
}

// timerSet notes when a timer is due. That is unknown if the clock was set back between the cause and the step, or
// before the step was stored.
func (j *judge) timerSet(name string, rec *journaletv1.Record, t *journaletv1.TimerSet) {
	key := fmt.Sprint(rec.GetSeq(), " ", name)
	if d, known := j.dues[key]; j.rebuilding && known {
		j.due[name] = d
		return
	}
	cause := j.sim.journal.stored[rec.GetStep().GetCause()-1]
	if at := rec.GetTime().AsTime(); at.Before(cause.GetTime().AsTime()) || at.After(j.sim.clock.Now()) {
		delete(j.due, name)
		return
	}
	set := min(j.sim.clock.uptime, j.sim.clock.uptime-j.sim.clock.Now().Sub(rec.GetTime().AsTime()))
	at, after := rec.GetStep().GetCause()-1, t.GetDuration().AsDuration()
	j.due[name] = due{t.GetGeneration(), j.sim.journal.storedAt[at], set, j.uptimes[at] + after, set + after,
		j.sim.clock.uptime}
	j.dues[key] = j.due[name]
}

// timerFired: a timer fires when it is due, or when the next run of the agent begins. If the clock was set since, the
// judge cannot know.
func (j *judge) timerFired(name string, rec *journaletv1.Record, t *journaletv1.TimerFired) {
	d, known := j.due[name]
	if !known || d.generation != t.GetGeneration() || j.clockSet >= min(d.set, d.stored) {
		return
	}
	fired := j.sim.clock.uptime - j.sim.clock.Now().Sub(rec.GetTime().AsTime())
	if late := fired - max(d.at, d.stored, j.runSince); late > lateness {
		j.broken(timerLate, rec.GetActor().GetId(), "timer %q fires %s too late", name, late)
	}
}

// probesSet: other probes, or the same ones in another form, may report the same results again. Results of those
// before may be pending.
func (j *judge) probesSet(seq uint64, uid string, set *journaletv1.ProbesSet) {
	prefix := uid + " " + set.GetContainer() + " "
	maps.DeleteFunc(j.results, func(key string, _ bool) bool { return strings.HasPrefix(key, prefix) })
	maps.DeleteFunc(j.onTheirWay, func(key string, _ int) bool { return strings.HasPrefix(key, prefix) })
	for _, rec := range slices.Concat(j.sim.journal.stored[seq:], j.sim.journal.pending) {
		if key := resultKey(rec.GetFact().GetProbeResult()); strings.HasPrefix(key, prefix) {
			j.onTheirWay[key]++
		}
	}
}

// isNews: a probe result is recorded when it differs from the last one of that probe and instance, whichever run of
// the agent recorded that.
func (j *judge) isNews(p *journaletv1.ProbeResult) {
	key := resultKey(p)
	if j.onTheirWay[key] > 0 {
		j.onTheirWay[key]--
		return
	}
	if was, known := j.results[key]; known && was == p.GetSuccess() {
		j.broken(newsOnly, p.GetUid(), "%s of %s was recorded before: success %t", p.GetKind(), p.GetContainerId(), was)
	}
	j.results[key] = p.GetSuccess()
}

func resultKey(p *journaletv1.ProbeResult) string {
	return p.GetUid() + " " + p.GetContainer() + " " + p.GetContainerId() + " " + p.GetKind().String()
}

// runsOnce reports whether a call creates or starts a container that may run only once.
func (r *run) runsOnce(k *journaletv1.StartContainer) bool {
	m, spec := r.specOf(k)
	return spec != nil && runsOnceOnly(m, spec)
}

// at calls reached if the call is about a container that may run only once.
func (r *run) at(c *call, m moment) {
	if c.once {
		r.reached(m)
	}
}
