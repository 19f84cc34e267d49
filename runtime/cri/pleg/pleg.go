package pleg

import (
	"cmp"
	"context"
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
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cri"
)

const (
	// RelistWithEvents is the period while the runtime sends events. The evented kubelet's is 300 s, but this one also
	// bounds how long a lost event goes unnoticed.
	RelistWithEvents = 10 * time.Second
	// RelistWithoutEvents is the kubelet's period without events.
	RelistWithoutEvents = time.Second
	// Threshold is the age of the last relist beyond which the runtime counts as hung (kubelet: 3 min).
	Threshold = 3 * time.Minute
	// RelistTimeout bounds the calls of a relist together (kubelet runtimeRequestTimeout: 2 min).
	RelistTimeout = 2 * time.Minute
	// InspectTimeout bounds the calls of one inspection together.
	InspectTimeout = 30 * time.Second

	// Inspectors bounds how many pods are inspected at once.
	Inspectors = 4
	// RetryWorkers bounds those inspected in addition because their last inspection failed. They are separate so that
	// pods that hang the runtime delay only each other.
	RetryWorkers = 2
	// maxQueued bounds the pods that wait for an inspection. Further hints are dropped; the relist finds the changes.
	maxQueued = 4096
)

// Options configure a PLEG; Conn, Owner and Sink must be set.
type Options struct {
	Conn grpc.ClientConnInterface
	// Owner selects the inspected objects.
	Owner cri.Owner
	// RootDir is the agent's root directory. Termination messages are read only from below RootDir/pods.
	RootDir string
	// PodLogDir has the logs that may replace a termination message. Default /var/log/pods.
	PodLogDir string
	// ReadTail returns at most the last n bytes of a regular file below dir. Default: of the file on the disk, through no
	// link that leaves dir.
	ReadTail func(dir, below string, n int64) ([]byte, error)
	// HostIPs are the node's addresses, the primary one first: the pods' addresses follow its family.
	HostIPs []string
	// Relist and RelistWithoutEvents default to the constants of these names.
	Relist, RelistWithoutEvents time.Duration
	// RelistTimeout and InspectTimeout default to the constants of these names.
	RelistTimeout, InspectTimeout time.Duration
	// Sink receives every new observation, from several goroutines, but for one pod in sequence. After an error the next
	// relist reports the observation again.
	Sink func(context.Context, *journaletv1.PodObserved) error
	// Redact takes credentials of a pod out of a text of the runtime. Nil: it stays as it is.
	Redact func(uid, text string) string
	// Relisted receives the duration of each relist. May be nil.
	Relisted func(time.Duration)
	Clock    clock.Clock
	Log      *slog.Logger
}

// PLEG watches the pods of one agent.
type PLEG struct {
	opts   Options
	log    *slog.Logger
	clock  clock.Clock
	stamps *Stamps
	rt     runtimeapi.RuntimeServiceClient

	mu       sync.Mutex // guards everything below
	pods     map[string]*pod
	uidOf    map[string]string // container or sandbox id to the UID of its pod, from the last observation
	relisted time.Time         // begin of the last successful relist, or of Run
	listed   bool              // a relist has succeeded
	events   bool              // the event stream is open
	streams  uint64            // event streams opened and closed so far

	queue   chan string   // UIDs of pods to inspect; a pod is in at most one queue, and once
	retries chan string   // the same for pods whose last inspection failed
	relist  chan struct{} // requests a relist now; holds one request
}

// pod is the state of one pod.
type pod struct {
	last          *journaletv1.PodObserved // the last one reported; never changed, only replaced
	failed        bool                     // its last inspection failed
	queued        bool                     // it is in a queue
	inspecting    bool                     // an inspection is under way
	requeue       bool                     // a hint came during the inspection
	expected      bool                     // the next inspection is reported, even without a change
	awaited       bool                     // the first relist has found it, with what no inspection that is stored shows
	sent          bool                     // an observation was sent to the journal, and is not stored
	ignoreEvents  bool                     // the runtime's events do not trigger inspections
	newestIntents map[string]string        // by container, from RegisterStart
	forgets       uint64                   // calls to Forget
	cleanups      uint64                   // calls to CleanedUp
}

// New returns a PLEG. It does nothing before Run.
func New(opts Options) *PLEG {
	if opts.Conn == nil || opts.Owner.AgentID == "" || opts.Sink == nil {
		panic("pleg: Options needs Conn, Owner and Sink")
	}
	opts.Relist = cmp.Or(opts.Relist, RelistWithEvents)
	opts.RelistWithoutEvents = cmp.Or(opts.RelistWithoutEvents, min(RelistWithoutEvents, opts.Relist))
	opts.RelistTimeout = cmp.Or(opts.RelistTimeout, RelistTimeout)
	opts.InspectTimeout = cmp.Or(opts.InspectTimeout, InspectTimeout)
	opts.PodLogDir = cmp.Or(opts.PodLogDir, cri.DefaultPodLogDir)
	opts.Clock = cmp.Or[clock.Clock](opts.Clock, clock.Real{})
	if opts.ReadTail == nil {
		opts.ReadTail = tailOnDisk
	}
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	return &PLEG{
		opts: opts, log: opts.Log, clock: opts.Clock, stamps: NewStamps(opts.Clock.Now),
		rt:   runtimeapi.NewRuntimeServiceClient(opts.Conn),
		pods: map[string]*pod{}, uidOf: map[string]string{},
		queue: make(chan string, maxQueued), retries: make(chan string, maxQueued), relist: make(chan struct{}, 1),
	}
}

// Seed adds the journal's last observations, before Run. An equal observation is not reported again. A seeded pod
// without objects on the runtime gets an empty observation.
func (p *PLEG) Seed(obs []*journaletv1.PodObserved) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range obs {
		p.remember(o)
	}
}

// Expect makes PLEG report the next inspection of a pod that is not under way yet, even if it is empty or unchanged,
// because the journal's state of the pod is uncertain. Before Run it is for pods that are not seeded.
func (p *PLEG) Expect(uid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entry(uid).expected = true
}

// RegisterStart registers the intent that is about to create a container's next instance; before Run, the newest
// intents of pods that are not seeded. Resources are reported only for instances of other intents.
func (p *PLEG) RegisterStart(uid, container, intent string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.entry(uid)
	if s.newestIntents == nil {
		s.newestIntents = map[string]string{}
	}
	s.newestIntents[container] = intent
}

// isNewestStart reports whether the newest registered intent created a container.
func (p *PLEG) isNewestStart(uid, container, intent string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.pods[uid]
	return s != nil && s.newestIntents[container] == intent && intent != ""
}

// CallEnded is called once for each call whose outcome is known, before the outcome is recorded and before Expect and
// Hint: only inspections that begin from now on come after the call. The record gets the time at; ended is
// CallFinished.ended_at.
func (p *PLEG) CallEnded() (at time.Time, ended *timestamppb.Timestamp) { return p.stamps.CallEnded() }

// Hint requests an inspection of this pod soon. It never blocks. Several hints for a pod that waits count once.
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

// entry returns the pod's state and creates it if needed. The caller holds p.mu.
func (p *PLEG) entry(uid string) *pod {
	s := p.pods[uid]
	if s == nil {
		s = &pod{}
		p.pods[uid] = s
	}
	return s
}

// IgnoreEvents stops inspections of a pod by the runtime's events: while the pod is torn down, each call would cause
// one, and the outcomes of the calls suffice. Hints and relists still cause inspections.
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

// enqueue queues a pod for inspection; p.mu is held. If the queue is full, the relist finds the change.
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

// CleanedUp is called when the clean-up of a pod has ended, after CallEnded. What an inspection under way shows may
// have been removed since: it is not reported, and the pod is inspected again. Forget comes too late for that, because
// by then the journal may have forgotten the pod.
func (p *PLEG) CleanedUp(uid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.pods[uid]; s != nil && s.inspecting {
		s.cleanups, s.requeue = s.cleanups+1, true
	}
}

// Forget drops the state of a removed pod; until then its last, empty observation is kept. Objects that the runtime
// still has are reported as a new pod. What an inspection under way shows was there before, and is not reported.
func (p *PLEG) Forget(uid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.pods[uid]
	if s == nil {
		return
	}
	p.unindex(s.last)
	s.last, s.expected, s.newestIntents, s.forgets = nil, false, nil, s.forgets+1
	p.drop(uid, s)
}

// drop deletes a pod without state and without an inspection under way or queued; p.mu is held.
func (p *PLEG) drop(uid string, s *pod) {
	if s.last == nil && !s.queued && !s.inspecting && !s.expected && !s.awaited && s.newestIntents == nil {
		delete(p.pods, uid)
	}
}

// Run watches until ctx ends, and returns its error when all its goroutines have ended.
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

// relistLoop relists at once, then by the period, and on request.
func (p *PLEG) relistLoop(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		err := p.Relist(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			p.log.Warn("relist failed; retrying after the period", "error", err)
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

// relistNow requests a relist before the period ends.
func (p *PLEG) relistNow() {
	select {
	case p.relist <- struct{}{}:
	default:
	}
}

// Relist lists all objects and queues every pod with a new, changed or removed object for inspection. The list itself
// is never reported, because a later inspection of the same pod may be under way. Run calls Relist by the period.
func (p *PLEG) Relist(ctx context.Context) error {
	began := p.clock.Now()
	listing, cancel := clock.WithTimeout(ctx, p.clock, p.opts.RelistTimeout)
	defer cancel()
	sandboxes, err := p.listSandboxes(listing)
	if err != nil {
		return fmt.Errorf("list sandboxes: %w", err)
	}
	containers, err := p.listContainers(listing, sandboxes)
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	shown := p.group(sandboxes, containers)
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.listed
	p.relisted, p.listed = began, true
	if p.opts.Relisted != nil {
		p.opts.Relisted(p.clock.Now().Sub(began))
	}
	for uid, s := range p.pods {
		switch {
		case shown[uid] != nil:
		case s.expected || s.last != nil && !IsEmpty(s.last):
			shown[uid] = listed{}
		case !s.queued && !s.inspecting:
			s.awaited = false // what the first relist found is gone, and so is what was known of it
			p.drop(uid, s)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(shown)) {
		s, l := p.entry(uid), shown[uid]
		s.awaited = s.awaited || first && (s.sent || !l.same(s.last)) // an event may have been faster than the first relist
		switch {
		case s.queued || l.same(s.last) && !s.expected:
		case s.inspecting:
			s.requeue = true // the inspection's list may be older than this one
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

// Next takes a pod from the queue, or with failed from the queue of pods whose last inspection failed, and returns its
// inspection; nil if no pod waits. It is for a caller without goroutines for Run. Inspections of several pods may run
// at once.
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
	last, owed, forgets, cleanups, failed := s.last, s.expected, s.forgets, s.cleanups, s.failed
	s.expected = false
	p.mu.Unlock()

	// The stamp is taken after expected is read, so an expected inspection has a later stamp than the call to Expect.
	began := p.stamps.InspectionBegan()
	now, err := p.inspected(ctx, uid, began, last, failed)
	if err == nil && now == nil && owed {
		now = &journaletv1.PodObserved{
			Uid: uid, ObservedAt: began, Sandboxes: last.GetSandboxes(), Containers: last.GetContainers(),
		}
	}
	if !p.isCurrent(s, forgets, cleanups) {
		now = nil
	}
	if err == nil && now != nil {
		p.sending(s)
		if err = p.opts.Sink(ctx, now); err != nil {
			err = fmt.Errorf("report the observation of pod %s: %w", uid, err)
		}
	}
	if err != nil && ctx.Err() == nil {
		p.log.Warn("inspection of a pod failed; the next relist retries it", "pod", uid, "error", err)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	s.inspecting, s.failed = false, err != nil
	s.sent = s.sent && err == nil
	s.awaited = s.awaited && (err != nil || s.sent) // what was sent counts once it is stored
	s.expected = s.expected || owed && s.forgets == forgets && (err != nil || now == nil)
	// If Forget was called during the report, the pod stays forgotten: its next observation counts as a new pod's.
	if err == nil && now != nil && s.forgets == forgets {
		p.remember(now)
	}
	again := s.requeue && err == nil // after a failure the relist queues it
	s.requeue = false
	if again {
		p.enqueue(uid, s)
		return
	}
	p.drop(uid, s)
}

// sending notes that an observation of a pod is being sent. It may be stored before the sink returns.
func (p *PLEG) sending(s *pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.sent = true
}

// isCurrent reports whether neither Forget nor CleanedUp was called for a pod since these numbers of calls.
func (p *PLEG) isCurrent(s *pod, forgets, cleanups uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.forgets == forgets && s.cleanups == cleanups
}

// remember replaces the last observation of a pod; p.mu is held.
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
