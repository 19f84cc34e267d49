package simulation

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Operated returns the plan of a seed with operators who restart pods and drain the node, and with shutdowns of the
// machine.
func Operated(seed uint64) *Plan {
	p := PlanOf(seed)
	p.operate(stream(seed, "plan of operators"))
	slices.SortStableFunc(p.Ops, func(a, b Op) int { return cmp.Compare(a.At, b.At) })
	for i := range p.Ops {
		p.Ops[i].N = i
	}
	return p
}

// shutdownGroups are the shutdown groups of every run.
func shutdownGroups() []*journaletv1.ShutdownGroup {
	return []*journaletv1.ShutdownGroup{
		{Priority: 0, Grace: durationpb.New(20 * time.Second)},
		{Priority: systemCritical, Grace: durationpb.New(5 * time.Second)},
	}
}

// systemCritical is the least priority of a system-critical pod.
const systemCritical = 2_000_000_000

func (p *Plan) operate(r *rand.Rand) {
	p.config.operated = true
	for range r.IntN(12) {
		p.Ops = append(p.Ops, Op{At: between(r, 0, p.end), Kind: "restart a pod", pick: r.Uint64()})
	}
	for range r.IntN(4) {
		p.Ops = append(p.Ops, Op{
			At: between(r, 0, p.end), Kind: pick(r, "drain", "drain", "shut down"),
			lasts: between(r, time.Second, 3*time.Minute), pick: r.Uint64(),
		})
	}
}

// request records a fact that somebody requests, while an agent runs.
func (s *sim) request(about messages.Ref, body proto.Message) {
	if s.agent != nil {
		s.agent.outcome(about, messages.NewEvent(body))
	}
}

// restartPod requests the restart of a pod or of one of its containers.
func (s *sim) restartPod(o Op) {
	if s.agent == nil {
		return
	}
	var all []*pod.Actor
	for _, ref := range s.agent.cells.Refs() {
		if a, ok := s.agent.cells.Decider(ref).(*pod.Actor); ok && a.Manifest() != nil {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return
	}
	a := all[o.pick%uint64(len(all))]
	q := &journaletv1.RestartRequested{Uid: a.Pod().GetPod().GetUid(), Client: "simulation"}
	names := []string{""}
	for i := range a.Manifest().Spec.Containers {
		names = append(names, a.Manifest().Spec.Containers[i].Name)
	}
	q.Container = names[o.pick/7%uint64(len(names))]
	for range 1 + o.pick/11%2 {
		s.request(messages.Pod(q.Uid), q)
	}
}

// drain requests a drain, and its end later.
func (s *sim) drain(o Op) {
	q := &journaletv1.DrainRequested{Client: "simulation", Critical: o.pick%3 == 0}
	if o.pick/3%2 == 0 {
		q.Grace = durationpb.New(time.Duration(o.pick/7%20) * time.Second)
	}
	s.request(messages.Node, q)
	s.later(o.lasts, func() {
		if !s.operationsOver {
			s.request(messages.Node, new(journaletv1.UncordonRequested))
		}
	})
}

// shutDown announces a shutdown, and then boots the machine again, or cancels it.
func (s *sim) shutDown(o Op) {
	s.request(messages.Node, &journaletv1.ShutdownSignaled{Active: true})
	s.later(o.lasts/2, func() {
		switch {
		case s.operationsOver:
			return
		case o.pick%3 == 0:
			s.request(messages.Node, new(journaletv1.ShutdownSignaled))
		default:
			s.rebootNode(o)
		}
	})
}

// endOperations ends what operators have begun. A machine that announced a shutdown has booted, or cancelled it.
func (s *sim) endOperations() {
	if !s.config.operated {
		return
	}
	s.operationsOver = true
	s.request(messages.Node, new(journaletv1.ShutdownSignaled))
	s.request(messages.Node, new(journaletv1.UncordonRequested))
}

// operated bounds what operators request of a node without faults: the longest grace periods of a few priorities.
const operatedWithin = 20 * time.Minute

// operateCalmly has operators restart every pod, drain the node, and end that, on a node without faults.
func (s *sim) operateCalmly(crashAfter uint64) {
	if s.judge.first == nil {
		s.restartAllPods(crashAfter)
	}
	if s.judge.first == nil {
		s.drainCalmly(crashAfter)
	}
	if s.judge.first == nil {
		s.converge(crashAfter)
	}
}

// until plays until a condition holds, and reports whether it did in time.
func (s *sim) until(crashAfter uint64, holds func() bool) bool {
	for end := s.clock.uptime + operatedWithin; s.clock.uptime < end; {
		s.play(s.clock.uptime+convergeStep, crashAfter)
		if s.judge.first != nil || holds() {
			return true
		}
	}
	return false
}

// restartAllPods requests a restart of every pod that runs.
func (s *sim) restartAllPods(crashAfter uint64) {
	before := map[string]int{}
	for _, ref := range s.agent.cells.Refs() {
		a, ok := s.agent.cells.Decider(ref).(*pod.Actor)
		if !ok || a.Pod().GetStage() != journaletv1.PodStage_POD_STAGE_RUNNING || a.CanRestart("") != nil ||
			a.Manifest().Spec.ActiveDeadlineSeconds != nil { // it may end meanwhile
			continue
		}
		before[ref.ID] = s.judge.book.count
		s.request(ref, &journaletv1.RestartRequested{Uid: ref.ID, Client: "simulation"})
	}
	left := func() (uid, name string) { return s.judge.notRestarted(before) }
	if !s.until(crashAfter, func() bool { uid, _ := left(); return uid == "" }) {
		uid, name := left()
		s.judge.broken(restartsDone, uid, "%s has no other instance %s after the request", name, operatedWithin)
	}
}

// drainCalmly drains the node, writes another pod, and has the agent or the machine start again.
func (s *sim) drainCalmly(crashAfter uint64) {
	critical := s.seed%3 == 0
	s.request(messages.Node, &journaletv1.DrainRequested{Client: "simulation", Critical: critical})
	running := func() string { return s.judge.runsWhileDrained(critical) }
	if !s.until(crashAfter, func() bool { return running() == "" && s.judge.drain.complete }) {
		s.judge.broken(drainHolds, "", "%s after its begin %q runs, and the drain is complete: %t", operatedWithin, running(),
			s.judge.drain.complete)
		return
	}
	s.directory.write(s.manifests, "late.json", manifestOf(stream(s.seed, "a late pod"), "late", ""))
	if s.seed%2 == 0 {
		s.rebootNode(Op{lasts: time.Second})
	} else {
		s.crash()
		s.later(time.Second, s.start)
	}
	s.play(s.clock.uptime+restFor, crashAfter)
	if id := running(); id != "" {
		s.judge.broken(drainHolds, "", "%s runs, of a pod that came late or after another start of the agent", id)
	}
}
