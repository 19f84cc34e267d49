package probe

import (
	"cmp"
	"container/heap"
	"context"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/messages/journaletv1"
)

// probe is one probe of one instance.
type probe struct {
	at     containerKey
	kind   journaletv1.ProbeKind
	id     string // of the instance
	spec   *corev1.Probe
	target target
	period time.Duration
	due    time.Time
	index  int // in the schedule; -1 if it is not there
	tally  tally
	// gone means that the probe was removed and its results do not count.
	gone bool
	// cancel cancels the run under way; nil without a run.
	cancel context.CancelFunc
	// unknown counts runs in a row without a result.
	unknown int
	pace    pace
	// first means that its run began without a pace from an earlier one.
	first bool
	// began is when its run got a worker.
	began time.Time
	// ended means that its run was canceled to free the worker, and repeats in the slow lane.
	ended bool
}

// schedule is a heap of probes by due time.
type schedule []*probe

func (s schedule) Len() int { return len(s) }
func (s schedule) Less(i, j int) bool {
	a, b := s[i], s[j]
	return cmp.Or(a.due.Compare(b.due), a.at.compare(b.at), cmp.Compare(a.kind, b.kind)) < 0
}

// Swap implements sort.Interface.
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

// Push implements heap.Interface.
func (s *schedule) Push(x any) {
	p := x.(*probe)
	p.index = len(*s)
	*s = append(*s, p)
}

// Pop implements heap.Interface.
func (s *schedule) Pop() any {
	last := len(*s) - 1
	p := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	p.index = -1
	return p
}

// Run runs probes when they are due, until ctx ends. It returns ctx's error when all its workers have ended.
func (d *Driver) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer d.workers.Wait()
	defer cancel()
	for ctx.Err() == nil {
		stop := d.clock.AfterFunc(d.Step(ctx), d.signal)
		select {
		case <-d.wake:
		case <-ctx.Done():
		}
		stop()
	}
	return ctx.Err()
}

// Step starts the probes that are due, and returns the time until the next call. Run calls it. A caller without
// goroutines for Run calls it also after each Stored and each end of a worker.
func (d *Driver) Step(ctx context.Context) (wait time.Duration) {
	return min(d.loadPending(ctx), d.start(ctx))
}

// idle is the wait of a scheduler without probes. A signal wakes it earlier.
const idle = time.Hour

// loadPending reads the manifests of settings and begins their probes. It returns the time until the next retry.
func (d *Driver) loadPending(ctx context.Context) time.Duration {
	d.mu.Lock()
	pending := maps.Clone(d.pending)
	d.mu.Unlock()
	wait := idle
	for _, at := range slices.SortedFunc(maps.Keys(pending), containerKey.compare) {
		s := pending[at]
		if left := s.retry.Sub(d.clock.Now()); left > 0 {
			wait = min(wait, left)
			continue
		}
		pod, err := d.opts.Manifest(ctx, s.set.GetDigest())
		if err != nil {
			if s.retry.IsZero() {
				d.log.Warn("cannot read the manifest of a container's probes; retrying",
					"pod", at.uid, "container", at.container, "error", err)
			}
			s.retry, wait = d.clock.Now().Add(manifestRetry), min(wait, manifestRetry)
			continue
		}
		d.mu.Lock()
		if d.pending[at] == s {
			delete(d.pending, at)
			d.setProbes(at, s, pod)
		}
		d.mu.Unlock()
	}
	return wait
}

// setProbes replaces the probes of a container by the probes of a setting. Unchanged probes continue. The caller holds
// d.mu.
func (d *Driver) setProbes(at containerKey, s *setting, pod *corev1.Pod) {
	c := containers.Find(pod, at.container)
	if c == nil {
		d.end(at)
		return
	}
	d.names[at.uid] = podName{pod.Namespace, pod.Name}
	t := target{container: c, node: pod.Spec.HostNetwork, host: first(s.set.GetPodIps())}
	old, now := d.probes[at], map[journaletv1.ProbeKind]*probe{}
	for _, kind := range s.set.GetKinds() {
		spec := specOf(c, kind)
		if spec == nil {
			continue
		}
		if p := old[kind]; p != nil && p.id == s.set.GetContainerId() && p.target.host == t.host &&
			reflect.DeepEqual(p.spec, spec) {
			p.target, now[kind] = t, p
			delete(old, kind)
			continue
		}
		p := &probe{
			at: at, kind: kind, id: s.set.GetContainerId(), spec: spec, target: t,
			period: seconds(max(1, spec.PeriodSeconds)), index: -1,
			tally: tally{successes: max(1, spec.SuccessThreshold), failures: max(1, spec.FailureThreshold)},
		}
		p.tally.reported, p.tally.warned = lastReported(kind, s.results)
		p.due = d.clock.Now().Add(d.firstWait(p, s))
		heap.Push(&d.due, p)
		now[kind] = p
	}
	for _, p := range old {
		d.drop(p)
	}
	d.probes[at] = now
}

// lastReported returns the last reported result of a probe before its first run, and whether a warning was reported as
// far as the results go back: the state has one of each probe.
func lastReported(kind journaletv1.ProbeKind, results []*journaletv1.ProbeResult) (last verdict, warned bool) {
	if kind == journaletv1.ProbeKind_PROBE_KIND_LIVENESS {
		last = healthy
	}
	for _, r := range results {
		if r.GetKind() != kind {
			continue
		}
		if last = unhealthy; r.GetSuccess() {
			last = healthy
			warned = warned || r.GetMessage() != ""
		}
	}
	return last, warned
}

// firstWait returns the time until a probe's first run: the rest of the initial delay since the start of the instance,
// and never more than the delay, even if the clock was set back. After a restart of the agent, seeded probes are spread
// over their period by a hash of the instance's id: otherwise all would run at once, every period.
func (d *Driver) firstWait(p *probe, s *setting) time.Duration {
	delay := seconds(p.spec.InitialDelaySeconds)
	if at := s.set.GetStartedAt(); at != nil {
		delay = min(max(at.AsTime().Add(delay).Sub(d.clock.Now()), 0), delay)
	}
	if !s.seeded || delay > 0 {
		return delay
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(p.id))
	_, _ = h.Write([]byte{byte(p.kind)})
	return time.Duration(h.Sum64() % uint64(p.period))
}

// resolve returns a target with the address of now: a pod on the node's network is where the node is, whose
// addresses may change.
func (d *Driver) resolve(t target) target {
	if t.node {
		t.host = first(d.opts.HostIPs())
	}
	return t
}

func first(ips []string) string {
	if len(ips) == 0 {
		return ""
	}
	return ips[0]
}

// drop ends a probe; d.mu is held.
func (d *Driver) drop(p *probe) {
	p.gone = true
	if p.index >= 0 {
		heap.Remove(&d.due, p.index)
	}
	d.lanes.drop(p)
	if p.cancel != nil {
		p.cancel()
	}
}

// start gives due probes to workers, and returns the time until there may be more to do.
func (d *Driver) start(ctx context.Context) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.queueDue()
	d.dispatch(ctx)
	if left, ok := d.lanes.untilMakeRoom(d.clock.Now()); ok {
		next = min(next, left)
	}
	return next
}

// queueDue queues due probes for a worker, and returns the time until the next one is due; d.mu is held.
func (d *Driver) queueDue() time.Duration {
	now := d.clock.Now()
	for len(d.due) > 0 {
		if left := d.due[0].due.Sub(now); left > 0 {
			return left
		}
		d.lanes.wait(heap.Pop(&d.due).(*probe))
	}
	return idle
}

// dispatch starts workers for queued probes; d.mu is held.
func (d *Driver) dispatch(ctx context.Context) {
	now := d.clock.Now()
	for _, p := range d.lanes.makeRoom(now) {
		if p.cancel != nil {
			p.cancel()
		}
	}
	for p := d.lanes.next(now); p != nil; p = d.lanes.next(now) {
		d.opts.Go(func() { d.work(ctx, p) })
	}
}

// slot is the grid of due times after the first run, counted from the start of the driver. Probes with equal due times
// share the wakeups of threads, which are half of the cost of a small request that runs alone (200 pods with two probes
// a second each: `make bench SCENARIOS=probes`). A probe's first interval is longer by less than a slot; all others
// are its period.
const slot = 50 * time.Millisecond

// reschedule sets a probe's next due time after a run, a multiple of its period after the last one: it neither drifts
// nor makes up for missed runs; d.mu is held.
func (d *Driver) reschedule(p *probe) {
	behind := d.clock.Now().Sub(p.due)
	p.due = d.onGrid(p.due.Add(p.period * (1 + max(0, behind)/p.period)))
	heap.Push(&d.due, p)
	if p.index == 0 {
		d.signal()
	}
}

// onGrid returns the first time on the grid that is not before t. The origin has a monotonic reading, so setting the
// clock does not move the grid.
func (d *Driver) onGrid(t time.Time) time.Time {
	if past := t.Sub(d.began) % slot; past > 0 {
		return t.Add(slot - past)
	}
	return t
}

func specOf(c *corev1.Container, kind journaletv1.ProbeKind) *corev1.Probe {
	switch kind {
	case journaletv1.ProbeKind_PROBE_KIND_STARTUP:
		return c.StartupProbe
	case journaletv1.ProbeKind_PROBE_KIND_LIVENESS:
		return c.LivenessProbe
	case journaletv1.ProbeKind_PROBE_KIND_READINESS:
		return c.ReadinessProbe
	}
	return nil
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// timeout bounds one run (API default: 1 s).
func (p *probe) timeout() time.Duration { return seconds(cmp.Or(p.spec.TimeoutSeconds, 1)) }
