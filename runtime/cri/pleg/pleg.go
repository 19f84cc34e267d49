package pleg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
)

const (
	// RelistWithEvents is the period while the runtime tells events; the evented kubelet's is 300 s, but ours is also the
	// bound on how long a lost event matters.
	RelistWithEvents = 10 * time.Second
	// RelistWithoutEvents is the kubelet's period without events.
	RelistWithoutEvents = time.Second
	// Threshold is the age of the last relist beyond which the runtime counts as hung (kubelet: 3 min).
	Threshold = 3 * time.Minute
	// RelistTimeout bounds the calls of a relist together (kubelet runtimeRequestTimeout: 2 min).
	RelistTimeout = 2 * time.Minute
	// InspectTimeout bounds the calls of one look together.
	InspectTimeout = 30 * time.Second

	// Inspectors bounds how many pods are inspected at once; RetryWorkers, how many of those more whose last inspection failed. They
	// are apart so that pods that hang the runtime wait for each other only.
	Inspectors   = 4
	RetryWorkers = 2
	// maxQueued bounds the pods that wait for a look. Beyond, hints are dropped and a relist finds what changed.
	maxQueued = 4096
)

// Options configure a PLEG; Conn, AgentID and Sink must be set.
type Options struct {
	Conn grpc.ClientConnInterface
	// AgentID tells whose objects are looked at: those that carry it in annotation cri.AnnotationAgent.
	AgentID string
	// RootDir is the agent's data folder: termination messages are read from below RootDir/pods only.
	RootDir string
	// PodLogDir is where logs lie that may stand in for a termination message. Default /var/log/pods.
	PodLogDir string
	// Relist and RelistWithoutEvents default to the constants of these names.
	Relist, RelistWithoutEvents time.Duration
	// RelistTimeout and LookTimeout default to the constants of these names.
	RelistTimeout, InspectTimeout time.Duration
	// Sink hears of every observation that is new, from several goroutines, but for one pod one after the other. After an
	// error the observation counts as untold: the next relist tells it again.
	Sink func(context.Context, *journaletv1.PodObserved) error
	// Relisted hears how long each relist took. May be nil.
	Relisted func(time.Duration)
	Clock    cri.Clock
	Log      *slog.Logger
}

// PLEG watches the pods of one agent.
type PLEG struct {
	opts   Options
	log    *slog.Logger
	clock  cri.Clock
	stamps *Stamps
	rt     runtimeapi.RuntimeServiceClient

	mu       sync.Mutex // guards everything below
	pods     map[string]*pod
	uidOf    map[string]string // container and sandbox ids to the pod they were last seen in
	relisted time.Time         // begin of the last relist that succeeded, or of Run
	events   bool              // the event stream is open
	streams  uint64            // event streams opened and closed so far

	queue   chan string   // pods to look at; a pod stands in one queue at most, and once
	retries chan string   // the same for pods whose last look failed
	relist  chan struct{} // asks for a relist now; holds one request
}

// pod is what is known of one pod.
type pod struct {
	last          *journaletv1.PodObserved // the last one told; never changed, only replaced
	failed        bool                     // its last look failed
	queued        bool                     // it stands in a queue
	inspecting    bool                     // a looker has it
	requeue       bool                     // a hint came while a looker had it
	expected      bool                     // what the next look sees is told, even if it is nothing new
	ignoreEvents  bool                     // the runtime's events about it are no reason to look
	newestIntents map[string]string        // the newest start by container, as Starts tells it
}

// New makes a PLEG that does nothing before Run.
func New(opts Options) *PLEG {
	if opts.Conn == nil || opts.AgentID == "" || opts.Sink == nil {
		panic("pleg: Options needs Conn, AgentID and Sink")
	}
	orDefault(&opts.Relist, RelistWithEvents)
	orDefault(&opts.RelistWithoutEvents, min(RelistWithoutEvents, opts.Relist))
	orDefault(&opts.RelistTimeout, RelistTimeout)
	orDefault(&opts.InspectTimeout, InspectTimeout)
	orDefault(&opts.PodLogDir, cri.DefaultPodLogDir)
	if opts.Clock == nil {
		opts.Clock = cri.RealClock{}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &PLEG{
		opts: opts, log: opts.Log, clock: opts.Clock, stamps: NewStamps(opts.Clock.Now), rt: runtimeapi.NewRuntimeServiceClient(opts.Conn),
		pods: map[string]*pod{}, uidOf: map[string]string{},
		queue: make(chan string, maxQueued), retries: make(chan string, maxQueued), relist: make(chan struct{}, 1),
	}
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Seed tells what the journal knows already, before Run. What the runtime shows alike is not told again; a seeded pod
// of which it shows nothing any more gets an empty observation.
func (p *PLEG) Seed(obs []*journaletv1.PodObserved) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range obs {
		p.remember(o)
	}
}

// Expect has what the next look at a pod that is not under way yet shows be told, even if that is nothing, or nothing new:
// what the journal knows of the pod is not certain. Before Run it is for pods that Seed was not given.
func (p *PLEG) Expect(uid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.entry(uid)
	s.expected = true
}

// RegisterStart tells, before it is made, of the intent that a container's next instance is made for; before Run, of the newest
// instances of pods that Seed was not given. Of an instance that was made for another one a look tells what it may use.
func (p *PLEG) RegisterStart(uid, container, intent string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.entry(uid)
	if s.newestIntents == nil {
		s.newestIntents = map[string]string{}
	}
	s.newestIntents[container] = intent
}

// isNewestStart tells whether a container was made for the newest intent that Starts told of.
func (p *PLEG) isNewestStart(uid, container, intent string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.pods[uid]
	return s != nil && s.newestIntents[container] == intent && intent != ""
}

// CallEnded is called once for each call on the runtime whose outcome is known, before that is recorded and before Expect and Hint: looks
// that begin from now on come after it, and others do not. The record is to have the time at; ended is CallFinished.ended_at.
func (p *PLEG) CallEnded() (at time.Time, ended *timestamppb.Timestamp) { return p.stamps.CallEnded() }

// Hint asks for a look at this pod soon. It never blocks; hints for one pod that are not yet served are one.
func (p *PLEG) Hint(uid string) {
	if uid == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.entry(uid)
	switch {
	case s.inspecting:
		s.requeue = true
	case s.queued:
	default:
		p.enqueue(uid, s)
	}
}

// entry is what is known of a pod, from now on something; p.mu is held.
func (p *PLEG) entry(uid string) *pod {
	s := p.pods[uid]
	if s == nil {
		s = &pod{}
		p.pods[uid] = s
	}
	return s
}

// IgnoreEvents makes the runtime's events about a pod no reason to look at it any more: it is being taken down, step by step and
// by calls whose outcomes tell, and each step would be worth a look otherwise. Hints and relists still are.
func (p *PLEG) IgnoreEvents(uid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.pods[uid]; s != nil {
		s.ignoreEvents = true
	}
}

// HintByEvent is Hint for an event of the runtime.
func (p *PLEG) HintByEvent(uid string) {
	p.mu.Lock()
	s := p.pods[uid]
	quiet := s != nil && s.ignoreEvents
	p.mu.Unlock()
	if !quiet {
		p.Hint(uid)
	}
}

// enqueue puts a pod up for a look; p.mu is held. A full queue means a storm, in which the relist is the better way.
func (p *PLEG) enqueue(uid string, s *pod) {
	queue := p.queue
	if s.failed {
		queue = p.retries
	}
	select {
	case queue <- uid:
		s.queued = true
	default:
		p.drop(uid, s)
	}
}

// Forget drops what is known of a pod that is gone for good; until then its last, empty observation is kept. Should the runtime still show it, it is told as new.
func (p *PLEG) Forget(uid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.pods[uid]
	if s == nil {
		return
	}
	p.unindex(s.last)
	s.last, s.expected, s.newestIntents = nil, false, nil
	p.drop(uid, s)
}

// drop forgets a pod of which nothing is known and nothing is under way; p.mu is held.
func (p *PLEG) drop(uid string, s *pod) {
	if s.last == nil && !s.queued && !s.inspecting && !s.expected && s.newestIntents == nil {
		delete(p.pods, uid)
	}
}

// Healthy tells whether relists get through.
func (p *PLEG) Healthy() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.relisted.IsZero() {
		return errors.New("PLEG has not begun to relist")
	}
	if age := p.clock.Now().Sub(p.relisted); age > Threshold {
		return fmt.Errorf("PLEG is not healthy: pleg was last seen active %s ago; threshold is %s; see whether the container runtime answers",
			age.Round(time.Second), Threshold)
	}
	return nil
}

// Run watches until ctx ends, and returns its error when all that it started has ended.
func (p *PLEG) Run(ctx context.Context) error {
	p.mu.Lock()
	p.relisted = p.clock.Now()
	p.mu.Unlock()
	var wg sync.WaitGroup
	for range Inspectors {
		wg.Go(func() { p.inspectLoop(ctx, p.queue) })
	}
	for range RetryWorkers {
		wg.Go(func() { p.inspectLoop(ctx, p.retries) })
	}
	wg.Go(func() { p.eventLoop(ctx) })
	p.relistLoop(ctx)
	wg.Wait()
	return ctx.Err()
}

// relistLoop relists at once, then by the period, and when asked to.
func (p *PLEG) relistLoop(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		err := p.Relist(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			p.log.Warn("relist failed; trying again by the period", "error", err)
		}
		if err == nil && failing {
			p.log.Info("relist works again")
		}
		failing = err != nil
		p.mu.Lock()
		period := p.opts.RelistWithoutEvents
		if p.events {
			period = p.opts.Relist
		}
		p.mu.Unlock()
		tick := make(chan struct{})
		stop := p.clock.AfterFunc(period, func() { close(tick) })
		select {
		case <-tick:
		case <-p.relist:
		case <-ctx.Done():
		}
		stop()
	}
}

// relistNow asks for a relist before its time.
func (p *PLEG) relistNow() {
	select {
	case p.relist <- struct{}{}:
	default:
	}
}

// Relist lists everything and puts up for a look every pod of which something new, changed or gone shows. The list itself is never
// told: a look that began later is on its way to the same pod. Run calls it by the period.
func (p *PLEG) Relist(ctx context.Context) error {
	began := p.clock.Now()
	listing, cancel := cri.WithTimeout(ctx, p.clock, p.opts.RelistTimeout)
	defer cancel()
	sandboxes, err := p.rt.ListPodSandbox(listing, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("list sandboxes: %w", err)
	}
	containers, err := p.rt.ListContainers(listing, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	shown := p.group(sandboxes.GetItems(), containers.GetContainers())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.relisted = began
	if p.opts.Relisted != nil {
		p.opts.Relisted(p.clock.Now().Sub(began))
	}
	for uid, s := range p.pods {
		if shown[uid] == nil && (s.expected || s.last != nil && !IsEmpty(s.last)) {
			shown[uid] = listed{}
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(shown)) {
		s, l := p.entry(uid), shown[uid]
		switch {
		case s.queued || l.same(s.last) && !s.expected:
		case s.inspecting:
			s.requeue = true // its list may be older than this one
		default:
			p.enqueue(uid, s)
		}
	}
	return nil
}

// inspectLoop serves a queue.
func (p *PLEG) inspectLoop(ctx context.Context, queue <-chan string) {
	for {
		select {
		case <-ctx.Done():
			return
		case uid := <-queue:
			p.serve(ctx, uid)
		}
	}
}

// Next takes a pod out of the queue, or out of that of pods whose last inspection failed, and returns its inspection; nil: none waits.
// It is for a caller that has no goroutines for Run. Inspections of several pods may run at once.
func (p *PLEG) Next(failed bool) (inspect func(context.Context)) {
	queue := p.queue
	if failed {
		queue = p.retries
	}
	select {
	case uid := <-queue:
		return func(ctx context.Context) { p.serve(ctx, uid) }
	default:
		return nil
	}
}

func (p *PLEG) serve(ctx context.Context, uid string) {
	p.mu.Lock()
	s := p.pods[uid]
	s.queued, s.inspecting = false, true
	last, owed := s.last, s.expected
	s.expected = false
	p.mu.Unlock()

	// Whoever expects this look has told so before it is given its stamp.
	began := p.stamps.InspectionBegan()
	now, err := p.inspect(ctx, uid, began, last)
	if err == nil && now == nil && owed {
		now = &journaletv1.PodObserved{
			Uid: uid, ObservedAt: began, Sandboxes: last.GetSandboxes(), Containers: last.GetContainers(),
		}
	}
	if err == nil && now != nil {
		if err = p.opts.Sink(ctx, now); err != nil {
			err = fmt.Errorf("tell what pod %s shows: %w", uid, err)
		}
	}
	if err != nil && ctx.Err() == nil {
		p.log.Warn("look at a pod failed; the next relist looks again", "pod", uid, "error", err)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	s.inspecting, s.failed = false, err != nil
	s.expected = s.expected || owed && err != nil
	// Forgotten meanwhile: what was told is told, but the pod's next observation stands alone.
	forgotten := s.last != last
	if err == nil && now != nil && !forgotten {
		p.remember(now)
	}
	again := s.requeue && err == nil // after a failure the relist comes back to it
	s.requeue = false
	if again {
		p.enqueue(uid, s)
		return
	}
	p.drop(uid, s)
}

// remember replaces what is known of a pod; p.mu is held.
func (p *PLEG) remember(o *journaletv1.PodObserved) {
	s := p.entry(o.GetUid())
	p.unindex(s.last)
	s.last = o
	for _, x := range o.GetSandboxes() {
		p.uidOf[x.GetId()] = o.GetUid()
	}
	for _, x := range o.GetContainers() {
		p.uidOf[x.GetId()] = o.GetUid()
	}
}

func (p *PLEG) unindex(o *journaletv1.PodObserved) {
	for _, x := range o.GetSandboxes() {
		delete(p.uidOf, x.GetId())
	}
	for _, x := range o.GetContainers() {
		delete(p.uidOf, x.GetId())
	}
}
