package simulation

import (
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

// sim is one simulation: a world, a journal, and the runs of an agent.
type sim struct {
	seed    uint64
	config  config
	clock   *virtualTime
	world   *world
	journal *journal
	// refusedRuns are the pods that the API server shows running when an agent begins that refuses them; false: it
	// refuses them, and the API server does not show that.
	refusedRuns map[string]bool
	// left is what a kubelet had given to pods when it was last replaced; nil for none.
	left      *journaletv1.KubeletState
	manifests *library
	directory *directory
	site      *site
	// api is the API server, nil for none. certificate is the certificate that it has signed.
	api         *apiServer
	certificate certificate
	// tenants are the hostile tenant and others, nil without them.
	tenants *tenants
	judge   *judge
	// only are the invariants that count; none: all but except.
	only, except []string
	// cycles is Options.Cycles.
	cycles int
	// beforeResize is the last resize of each file, by path.
	beforeResize map[string]edit
	// agent is the present run, nil while the agent is down.
	agent *run
	epoch uint64
	boots int
	// operationsOver is set when operators begin nothing more.
	operationsOver bool
	// snapshots are the newest stored set; they cover the first barrier records.
	snapshots []*journaletv1.Snapshot
	barrier   int
	// sets are the sets of snapshots that a busy run keeps, by barrier.
	sets map[uint64][]*journaletv1.Snapshot
	// damage is what the next start finds wrong with the journal, nil for nothing.
	damage *journaletv1.JournalDamaged
	// trap is the moment at which the agent is killed next, trapLasts how long it stays down.
	trap      moment
	trapLasts time.Duration
}

// Result is the outcome of a run.
type Result struct {
	Plan *Plan
	// Violation is nil if every invariant held.
	Violation *Violation
	// Hash is the hash of all records.
	Hash string
	// These figures say how much was simulated: runs of the agent, started containers, events of the clock.
	Records, Runs, Instances int
	Events                   uint64
	Virtual                  time.Duration
	// Final is what each pod has become, without times.
	Final string
	// Covered counts the journal's events by name.
	Covered map[string]int
	sim     *sim
}

// Options change how a plan is carried out.
type Options struct {
	// CrashAfter kills the agent after this many events of the clock, 0 for never.
	CrashAfter uint64
	// Concurrency replaces the plan's concurrency, 0 for none.
	Concurrency uint32
	// Quiet leaves out faults of the world: no mishaps, programs that succeed.
	Quiet bool
	// UnreliableHints makes all events of the runtime late, doubled or lost.
	UnreliableHints bool
	// Only are the invariants that count; none: all but Except.
	Only, Except []string
	// Cycles is how often a node of a plan with pressure runs short of something in the end.
	Cycles int
	// NoEnd ends the run with its time: nothing is judged of what becomes of its pods without faults.
	NoEnd bool
	// Defect, if any, is built into the agent to see whether it is found.
	Defect func(*sim)
}

// Run carries out a plan.
func Run(p *Plan, o Options) *Result {
	s := &sim{seed: p.Seed, config: p.config, clock: newClock(p.Seed), manifests: newLibrary(), site: newSite(),
		beforeResize: map[string]edit{}, sets: map[uint64][]*journaletv1.Snapshot{}, only: o.Only, except: o.Except,
		cycles: o.Cycles}
	s.directory = newDirectory(s.clock)
	s.site.etags = p.config.etags
	s.journal = newJournal(s.clock, p.Seed)
	s.judge = newJudge(s)
	s.world = newWorld(s.clock, p.Seed, s.judge)
	s.world.mishaps, s.journal.failing = p.config.mishaps, p.config.failing
	if s.config.clustered {
		s.startAPIServer()
	}
	if s.config.hostile != nil {
		s.startTenants()
	}
	if o.Quiet {
		s.world.mishaps, s.journal.failing, s.world.calm = 0, 0, true
	}
	if o.Concurrency > 0 {
		s.config.concurrency = o.Concurrency
	}
	if o.UnreliableHints {
		s.world.eventsBadUntil = 1 << 62
	}
	for _, op := range p.Ops {
		s.clock.after(nil, op.At, func() { s.do(op) })
	}
	s.startPlugins()
	s.startClaimDrivers()
	s.startAttacher()
	if s.config.managed != nil {
		s.checkShared()
	}
	s.start()
	if o.Defect != nil {
		o.Defect(s)
	}
	s.play(p.end, o.CrashAfter)
	if s.judge.first == nil && !o.NoEnd {
		s.converge(o.CrashAfter)
		if s.config.operated {
			s.operateCalmly(o.CrashAfter)
		}
	}
	r := &Result{
		Plan: p, Violation: s.judge.first, Hash: s.journal.digest(), Records: len(s.journal.stored), Runs: int(s.epoch),
		Instances: s.judge.instances, Events: s.clock.happened, Virtual: s.clock.uptime, Final: s.final(),
		Covered: s.judge.covered, sim: s,
	}
	if s.agent != nil {
		// A coroutine that waits for ever would keep the whole world in memory.
		s.agent.scope.end()
	}
	return r
}

// play has events take place until an uptime, or a violation.
func (s *sim) play(end time.Duration, crashAfter uint64) {
	for s.judge.first == nil && s.clock.next(end) {
		if s.clock.happened == crashAfter {
			s.crash()
			s.clock.after(nil, time.Millisecond, s.start)
		}
	}
	if s.journal.err != nil {
		s.judge.broken(factsAreClean, "", "%v", s.journal.err)
	}
}
