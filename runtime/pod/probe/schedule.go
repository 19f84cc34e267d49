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
	index  int // in the schedule; -1: not in it
	tally  tally
	// gone: nothing that is found by it matters any more.
	gone bool
	// cancel ends a run under way; nil while none is.
	cancel context.CancelFunc
	// unknown counts runs in a row of which nothing could be learnt.
	unknown int
	pace    pace
	// first: its run is the first, as far as is known.
	first bool
	// began is when it got its worker.
	began time.Time
	// ended: its run is being ended to give its worker to another, and is to be done again in the slow lane.
	ended bool
}

// schedule is a heap of probes by the time when they are due.
type schedule []*probe

func (s schedule) Len() int { return len(s) }
func (s schedule) Less(i, j int) bool {
	a, b := s[i], s[j]
	return cmp.Or(a.due.Compare(b.due), a.at.compare(b.at), cmp.Compare(a.kind, b.kind)) < 0
}

// Swap is sort.Interface's.
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

// Push is heap.Push's.
func (s *schedule) Push(x any) {
	p := x.(*probe)
	p.index = len(*s)
	*s = append(*s, p)
}

// Pop is heap.Pop's.
func (s *schedule) Pop() any {
	last := len(*s) - 1
	p := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	p.index = -1
	return p
}

// Run runs probes when they are due, until ctx ends. It returns its error when all that it started has ended.
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

// Step starts the probes that are due, and returns the time until the next call. Run calls it; a caller that has no goroutines for Run
// calls it also after each Stored and each end of a worker.
func (d *Driver) Step(ctx context.Context) (wait time.Duration) {
	return min(d.loadPending(ctx), d.start(ctx))
}

// idle is the wait of a scheduler that has nothing to do: something wakes it before that.
const idle = time.Hour

// loadPending begins the probes whose manifests are to be read, and tells how long to wait before another try.
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
				d.log.Warn("a container is not probed until its manifest can be read", "pod", at.uid, "container", at.container, "error", err)
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

// setProbes makes the probes of a container those of a setting; d.mu is held. One that stays as it was goes on.
func (d *Driver) setProbes(at containerKey, s *setting, pod *corev1.Pod) {
	c := containerOf(pod, at.container)
	if c == nil {
		d.end(at)
		return
	}
	d.names[at.uid] = podName{pod.Namespace, pod.Name}
	t := target{container: c, host: d.host(pod, s.set)}
	old, now := d.probes[at], map[journaletv1.ProbeKind]*probe{}
	for _, kind := range s.set.GetKinds() {
		spec := specOf(c, kind)
		if spec == nil {
			continue
		}
		if p := old[kind]; p != nil && p.id == s.set.GetContainerId() && p.target.host == t.host && reflect.DeepEqual(p.spec, spec) {
			p.target, now[kind] = t, p
			delete(old, kind)
			continue
		}
		p := &probe{
			at: at, kind: kind, id: s.set.GetContainerId(), spec: spec, target: t,
			period: seconds(max(1, spec.PeriodSeconds)), index: -1,
			tally: tally{successes: max(1, spec.SuccessThreshold), failures: max(1, spec.FailureThreshold), reported: lastReported(kind, s.results)},
		}
		p.due = d.clock.Now().Add(d.firstWait(p, s))
		heap.Push(&d.due, p)
		now[kind] = p
	}
	for _, p := range old {
		d.drop(p)
	}
	d.probes[at] = now
}

// lastReported is what was told of a probe before it is run for the first time in this run.
func lastReported(kind journaletv1.ProbeKind, results []*journaletv1.ProbeResult) verdict {
	told := undecided
	if kind == journaletv1.ProbeKind_PROBE_KIND_LIVENESS {
		told = healthy
	}
	for _, r := range results {
		if r.GetKind() != kind {
			continue
		}
		if told = unhealthy; r.GetSuccess() {
			told = healthy
		}
	}
	return told
}

// firstWait is the time until a probe's first run: what is left of the initial delay, counted from the start of the
// instance, and never more than the delay, whatever the clock did since. After a start of the agent what was probed before
// is spread over its period, by the instance's id: all at once would be a burst every period from then on.
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

// host is where a pod is probed that names no host of its own.
func (d *Driver) host(pod *corev1.Pod, s *journaletv1.ProbesSet) string {
	ips := s.GetPodIps()
	if pod.Spec.HostNetwork {
		ips = d.opts.HostIPs
	}
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

// start hands out what is due, and gives the time after which there may be more to hand out.
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

// queueDue has those wait for a worker who are due, and gives the time until the next one is; d.mu is held.
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

// dispatch gives those who wait their workers; d.mu is held.
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

// slot is the grid on which probes run after their first run, counted from the start of the driver. Those that share a moment
// share the waking of threads, which is half of what a small request costs where each runs by itself (200 pods with two
// probes a second each: BenchmarkFourHundredProbesASecond). The first interval of a probe is longer by less than this, all
// others are its period.
const slot = 50 * time.Millisecond

// reschedule puts a probe back after a run: at the next moment of its own row, so that it neither drifts nor runs twice at
// once; d.mu is held.
func (d *Driver) reschedule(p *probe) {
	behind := d.clock.Now().Sub(p.due)
	p.due = d.onGrid(p.due.Add(p.period * (1 + max(0, behind)/p.period)))
	heap.Push(&d.due, p)
	if p.index == 0 {
		d.signal()
	}
}

// onGrid is the first moment of the grid that is not before t. It is counted from a time that no change of the clock moves.
func (d *Driver) onGrid(t time.Time) time.Time {
	if past := t.Sub(d.began) % slot; past > 0 {
		return t.Add(slot - past)
	}
	return t
}

// containerOf is the container of this name, nil if there is none. Init containers that are sidecars are probed too.
func containerOf(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
			return &list[i]
		}
	}
	return nil
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

// timeout is how long one run may take (API default: 1 s).
func (p *probe) timeout() time.Duration { return seconds(cmp.Or(p.spec.TimeoutSeconds, 1)) }
