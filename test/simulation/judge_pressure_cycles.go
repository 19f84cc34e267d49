package simulation

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	limits "github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/messages"
)

// The end of a plan: a node without faults that runs short of something, again and again.

const (
	// followsWithin is how soon a condition follows a shortage on a node without faults: the longest pause between two
	// samples, and what records take.
	followsWithin = limits.MaxPause + 2*time.Second
	// endsPressureWithin bounds a cycle on a node without faults: some pods, each with its grace period.
	endsPressureWithin = 15 * time.Minute
	// startsAgainWithin is how soon a pod that pressure ended makes way for its next incarnation.
	startsAgainWithin = 10 * time.Second
)

// judgePressure has a node without faults run short of something, again and again: each time its condition follows,
// pods end until there is enough, and the condition goes after the transition period.
func (s *sim) judgePressure() {
	const file = "cycle.json"
	n := s.config.pressed
	if n == nil {
		return
	}
	for i := 0; i < s.cycles && s.judge.first == nil; i++ {
		r := stream(s.seed, "cycle of pressure", strconv.Itoa(i))
		s.world.images["app:1"] = true
		s.directory.write(s.manifests, file, cyclePods(r, i))
		s.play(s.clock.uptime+readWithin, 0)
		s.pressureCycle(r)
	}
	s.directory.remove(file)
	s.play(s.clock.uptime+readWithin, 0)
}

func (s *sim) pressureCycle(r *rand.Rand) {
	n := s.config.pressed
	t := n.thresholds[r.IntN(len(n.thresholds))]
	value, condition := t.Value.Of(capacityOf(t.Signal)), string(t.Signal.Condition())
	has := func() bool { return slices.Contains(s.judge.pressure.conditions, condition) }
	if has() {
		s.judge.broken(conditionsFollow, "", "%s is there, and nothing is short", condition)
	}
	left := func() int64 { return s.world.shortage(n.layout).left[t.Signal] }
	*s.world.othersOf(t.Signal, n.layout) += left() - value + 1 + r.Int64N(2*capacityOf(t.Signal)/1000)
	s.play(s.clock.uptime+followsWithin, 0)
	if !has() {
		s.judge.broken(conditionsFollow, "", "%s does not follow %s: %d is left", condition, t.Signal, left())
	}
	for end := s.clock.uptime + t.Grace + endsPressureWithin; left() < value && s.mayEnd(); {
		if s.play(s.clock.uptime+followsWithin, 0); s.judge.first != nil {
			return
		}
		if s.clock.uptime > end {
			s.judge.broken(pressureEnds, "", "%d is left of %s after %s, and pods run", left(), t.Signal, endsPressureWithin)
			return
		}
	}
	s.play(s.clock.uptime+evictionWait, 0)
	s.world.relieve()
	over := s.clock.uptime
	s.play(over+n.transition+limits.Hold+2*followsWithin, 0)
	if has() {
		s.judge.broken(conditionsFollow, "", "%s is there %s after the node was short", condition, s.clock.uptime-over)
	}
	if len(s.judge.pressure.conditions) > 0 {
		return // the pods that ended had met another threshold before
	}
	s.play(s.clock.uptime+startsAgainWithin, 0)
	for _, uid := range slices.Sorted(maps.Keys(s.judge.pods)) {
		if v := s.reported(messages.Pod(uid)); v != nil && s.judge.staysEvicted(uid, v) {
			s.judge.broken(startsAgain, uid, "%s after the last condition it is %q", startsAgainWithin, v.Status.Message)
		}
	}
}

// mayEnd reports whether a pod is left that the node may end.
func (s *sim) mayEnd() bool {
	for _, h := range s.judge.pods {
		if h.holdsShare && priorityOf(h.admittedAs) < systemCritical {
			return true
		}
	}
	return false
}
