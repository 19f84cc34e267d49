package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/cri/health"
	"github.com/journalet/journalet/runtime/dra"
	"github.com/journalet/journalet/runtime/drivers"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/persistentvolume"
	"github.com/journalet/journalet/runtime/timer"
)

const nodeName = "n1"

// run is one run of the agent, from a start to a crash. It does what runtime/agent and runtime/host do around the
// real cells.
type run struct {
	*sim
	epoch uint64
	began time.Duration // uptime
	scope *scope
	cells *fold.Cells
	parts fold.Parts
	// turns decides how long each actor waits before it handles its next record.
	turns *rand.Rand
	// late decides which timers fire late.
	late      *rand.Rand
	scheduled map[messages.Ref]bool
	// wedged actors handle nothing until this uptime.
	wedged map[messages.Ref]time.Duration
	// waits holds the coroutines that wait until a context ends.
	waits map[*proc]context.Context

	list      *drivers.List
	timers    *timer.Driver
	calls     *calls.Executor
	health    *health.Monitor
	performer *performer
	watcher   *watcher
	reader    *reader
	fetcher   *fetcher // nil without a manifest URL
	prober    *prober
	gates     *gates
	things    *store
	images    *imageWatch
	pressure  *pressureWatch // nil without pressure
	plugins   *pluginWatch
	claims    *dra.Claims               // nil without claims
	storage   *persistentvolume.Volumes // nil without CSI volumes
	cluster   *member                   // nil without an API server
}

func (r *run) name() string { return fmt.Sprint(r.epoch) }

// runClock is the timer driver's clock. Its timers end with the run.
type runClock struct {
	*virtualTime
	run *run
}

// start begins a run, unless one is under way: it folds what is stored, seeds the drivers from the recovered state
// and starts them.
func (s *sim) start() {
	if s.agent != nil {
		return
	}
	s.epoch++
	r := &run{
		sim: s, epoch: s.epoch, began: s.clock.uptime, scope: &scope{}, turns: stream(s.seed, "turns", fmt.Sprint(s.epoch)),
		late: stream(s.seed, "late timers", fmt.Sprint(s.epoch)), scheduled: map[messages.Ref]bool{},
		wedged: map[messages.Ref]time.Duration{}, waits: map[*proc]context.Context{},
	}
	var err error
	if r.cells, err = fold.RecoverCells(fold.AllDeciders, s.manifests.get, s.epoch, s.snapshots,
		s.journal.stored[s.barrier:]); err != nil {
		s.judge.broken(noActorFails, "", "the agent does not start: %v", err)
		return
	}
	s.agent = r
	s.judge.recovered(r.cells)
	r.newDrivers()
	r.list = r.newList()
	r.list.Recover(r.cells)
	s.journal.owner, s.journal.onStored = r.scope, r.stored
	if s.damage != nil {
		r.outcome(messages.Agent, messages.NewEvent(s.damage))
		s.damage = nil
	}
	started := s.started()
	started.FoundResources, started.FoundUserNamespaces = r.foundResources(), r.foundUserNamespaces()
	r.outcome(messages.Agent, messages.NewEvent(started))
	r.reportVolumes()
	r.timers.Begin()
	for _, ref := range r.cells.Refs() {
		r.schedule(ref)
	}
	s.world.emit = r.watcher.event
	s.directory.changed, s.world.files.changed = r.reader.notify, r.things.notify
	s.clock.start(r.scope, func(*proc) { _ = r.health.Run(context.Background()) }) // it ends with its run
	s.clock.start(r.scope, r.watcher.relist)
	s.clock.start(r.scope, r.reader.loop)
	s.clock.start(r.scope, r.gates.loop)
	s.clock.start(r.scope, r.things.loop)
	s.clock.start(r.scope, r.prober.loop)
	if s.config.images {
		s.clock.start(r.scope, r.images.loop)
	}
	r.plugins.begin()
	if r.pressure != nil {
		s.clock.start(r.scope, r.pressure.loop)
	}
	if r.fetcher != nil {
		s.clock.start(r.scope, func(*proc) { _ = r.fetcher.Run(context.Background()) }) // it ends with its run
	}
	r.cluster.start()
	if r.storage != nil {
		s.clock.start(r.scope, func(*proc) { _ = r.storage.Run(context.Background()) }) // it ends with its run
	}
}

func (s *sim) bootID() string { return fmt.Sprintf("boot-%d", s.boots) }

func (s *sim) started() *journaletv1.AgentStarted {
	return &journaletv1.AgentStarted{
		Epoch: s.epoch, Version: "simulation", BootId: s.bootID(), AgentId: "agent",
		Config: &journaletv1.AgentConfig{
			NodeName: nodeName, NodeLabels: map[string]string{"kubernetes.io/hostname": nodeName},
			Allocatable: &journaletv1.NodeCapacity{MilliCpu: s.config.cpu, MemoryBytes: s.config.memory,
				EphemeralStorageBytes: 1 << 40},
			Sources: s.sources(), MaxPods: s.config.maxPods, StartConcurrency: s.config.concurrency,
			StopConcurrency: s.config.concurrency,
			ShutdownGroups:  shutdownGroups(),
			PullConcurrency: s.config.pulls, MaxContainerBackOff: durationpb.New(s.config.maxBackOff),
			ImageGarbageCollection: s.imageGC(), Eviction: s.config.pressed.eviction(),
			Managers: s.config.managed.settings(), PullsForPods: true,
			TrustsFirstInspection: true, KeepsForWaitingPods: true, UserNamespaces: s.config.managed.idsAt(s.epoch, s.seed),
		},
		KubeletState: s.kubeletState(),
	}
}

// sources does what runtime/agent does.
func (s *sim) sources() []string {
	all := []string{messages.FileSource}
	if s.config.url != "" {
		all = append(all, messages.HTTPSource)
	}
	if s.config.clustered {
		all = append(all, messages.APISource)
	}
	return all
}

func (r *run) newDrivers() {
	r.things = newStore(r)
	r.plugins, r.claims = newPluginWatch(r), newClaims(r)
	r.performer = newPerformer(r)
	r.watcher, r.reader, r.prober = newWatcher(r), newReader(r), newProber(r)
	r.gates, r.images, r.pressure = newGates(r), newImageWatch(r), newPressureWatch(r)
	if r.config.url != "" {
		r.fetcher = newFetcher(r)
	}
	if r.config.clustered {
		r.cluster = newMember(r)
	}
	r.health = health.New(health.Options{
		Conn: criConn{r}, Clock: driverClock{r.clock, r},
		Sink: func(_ context.Context, h *journaletv1.RuntimeHealthChanged) error {
			return r.emit(messages.Runtime, h)
		},
	})
	r.storage = newStorage(r)
	r.timers = timer.New(runClock{r.clock, r}, r.outcome)
	r.calls = calls.New(calls.Options{
		Performer: r.performer, Outcome: r.ended, Finished: r.finished,
		Go: func(f func()) { r.clock.start(r.scope, func(*proc) { f() }) },
	})
}

// newList returns the list of the drivers of this run: the agent's list without the drivers that the simulation lacks.
func (r *run) newList() *drivers.List {
	all := []drivers.Driver{
		r.timers, r.calls, r.health, r.prober, r.gates, r.images, r.things, r.plugins, r.watcher, r.reader,
	}
	if r.pressure != nil {
		all = append(all, r.pressure)
	}
	if r.fetcher != nil {
		all = append(all, r.fetcher)
	}
	if r.claims != nil {
		all = append(all, r.claims)
	}
	if r.cluster != nil {
		all = append(all, r.cluster.drivers()...)
	}
	return drivers.Simulated(all...)
}

// ended does what runtime/agent does.
func (r *run) ended(req *journaletv1.CallRequested, about messages.Ref, e *journaletv1.Event) {
	_, e.GetCallFinished().EndedAt = r.watcher.CallEnded() // no virtual time passes before the record gets its own time
	if req.GetCleanPod() != nil {
		r.watcher.CleanedUp(req.GetPodUid())
	}
	r.outcome(about, e)
}

// finished does what runtime/agent does.
func (r *run) finished(req *journaletv1.CallRequested) {
	if req.GetStartContainer() != nil {
		r.watcher.Expect(req.GetPodUid())
	}
	r.watcher.hint(req.GetPodUid())
}

// outcome appends a fact that must not be refused.
func (r *run) outcome(about messages.Ref, e *journaletv1.Event) {
	r.journal.append(r.epoch, r.record(about, e))
}

// fact appends something learned from outside. It waits while the journal is behind.
func (r *run) fact(p *proc, about messages.Ref, e *journaletv1.Event) {
	r.journal.appendFact(p, r.epoch, func() *journaletv1.Record { return r.record(about, e) })
}

// emit appends a fact of a driver that runs on the present coroutine. It does not fail.
func (r *run) emit(about messages.Ref, kind proto.Message) error {
	r.fact(r.clock.current, about, messages.NewEvent(kind))
	return nil
}

func (r *run) record(about messages.Ref, e *journaletv1.Event) *journaletv1.Record {
	return &journaletv1.Record{
		Time: timestamppb.New(r.clock.Now()), Actor: about.Proto(), Body: &journaletv1.Record_Fact{Fact: e},
	}
}

// stored does what host.Stored and agent.Stored do: it delivers records to the actors concerned, then to the drivers,
// in order.
func (r *run) stored(recs []*journaletv1.Record, encoded [][]byte) {
	for i, rec := range recs {
		r.judge.record(rec, encoded[i])
		if rec.GetFact().GetTimerFired() != nil {
			r.reached(timerRecorded)
		}
		for _, ref := range r.cells.Stored(rec) {
			r.schedule(ref)
		}
		if rec = r.parts.Join(rec); rec == nil {
			continue
		}
		r.list.Stored(rec)
		if decides(rec, func(e *journaletv1.Event) bool { return e.GetCallWithdrawn() != nil }) {
			r.interruptEnded()
		}
	}
	r.scope.dropEnded()
}

func decides(rec *journaletv1.Record, what func(*journaletv1.Event) bool) bool {
	return slices.ContainsFunc(rec.GetStep().GetDecisions(), what)
}

// schedule has an actor handle its next record: mostly at once, now and then late.
func (r *run) schedule(ref messages.Ref) {
	if r.scheduled[ref] || r.cells.Waiting(ref) == 0 {
		return
	}
	r.scheduled[ref] = true
	wait := between(r.turns, 0, 50*time.Microsecond)
	if chance(r.turns, 300) {
		wait = between(r.turns, time.Millisecond, 500*time.Millisecond)
	}
	wait = max(wait, r.wedged[ref]-r.clock.uptime)
	r.clock.after(r.scope, wait, func() {
		r.scheduled[ref] = false
		r.handle(ref)
		r.schedule(ref)
	})
}

func (r *run) handle(ref messages.Ref) {
	steps, err := r.cells.Handle(ref, r.clock.Now())
	if err != nil || len(steps) > 1 && r.tenants == nil {
		r.judge.broken(noActorFails, ref.ID, "a step in %d parts, of small pods: %v", len(steps), err)
		return
	}
	if len(steps) == 0 {
		r.judge.handled(r, ref, nil)
		return
	}
	r.judge.handled(r, ref, steps[0])
	for _, part := range steps {
		r.journal.append(r.epoch, part)
	}
}

// crash kills the agent, at whatever point it is.
func (s *sim) crash() {
	if s.agent == nil {
		return
	}
	s.agent.scope.end()
	s.agent = nil
	s.world.emit, s.directory.changed, s.world.files.changed = func(string) {}, func() {}, func() {}
	lost := s.journal.crash()
	for i, rec := range lost.records {
		s.judge.record(rec, lost.encoded[i])
	}
	s.judge.crashed()
}

// stop ends the run cleanly: it stores a last record and takes snapshots.
func (s *sim) stop() {
	r := s.agent
	if r == nil || s.clock.uptime < s.journal.stalledUntil {
		s.crash()
		return
	}
	r.scope.end()
	r.outcome(messages.Agent, messages.NewEvent(&journaletv1.AgentStopped{Reason: "restart"}))
	for len(s.journal.pending) > 0 && s.judge.first == nil {
		done := s.journal.commit(len(s.journal.pending))
		for i, rec := range done.records {
			s.judge.record(rec, done.encoded[i])
			r.cells.Stored(rec)
		}
		for _, ref := range r.cells.Refs() {
			for r.cells.Waiting(ref) > 0 && s.judge.first == nil {
				r.handle(ref)
			}
		}
	}
	s.snapshot()
	s.crash()
}

// snapshot stores the states of all actors, unless a record is pending.
func (s *sim) snapshot() {
	if s.agent == nil || len(s.journal.pending) > 0 {
		return
	}
	if snaps, err := s.agent.cells.Snapshots(); err == nil {
		s.snapshots, s.barrier = snaps, len(s.journal.stored)
	}
}
