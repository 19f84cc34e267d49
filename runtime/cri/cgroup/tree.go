package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/journalet/journalet/actors/pod"
)

// Options configure a Tree.
type Options struct {
	// All gives every pod a cgroup. Otherwise only pods with pod-level resources get one, which nothing else can enforce.
	All bool
	// Root is the cgroup above kubepods, as a cgroupfs path; "" and "/" are the topmost one.
	Root string
	// Node are the limits of all pods together; a zero sets no limit.
	Node Values
	// MemoryThrottling is the fraction of the memory beyond its request at which the kernel starts to throttle a pod
	// with pod-level resources, on cgroup v2; 0: no throttling.
	MemoryThrottling float64
	// ReserveMemory keeps the memory that pods request from being reclaimed, on cgroup v2 (KEP-2570, TieredReservation).
	ReserveMemory bool
	// CPUQuota is how limits of CPU are enforced.
	CPUQuota CPUQuota
	// PodPids is the maximum number of processes of a pod; 0 and less set no limit.
	PodPids int64
	Log     *slog.Logger
}

// Tree manages the cgroups of an agent's pods. Its methods are idempotent and may be called concurrently.
type Tree struct {
	opts    Options
	log     *slog.Logger
	unified bool
	// mounts are the mount points of the hierarchies, by controller; on v2 there is one, with the key "".
	mounts map[string]string
	// pageSizes are the sizes of huge pages that are bounded, such as 2MB.
	pageSizes []string

	// unusable is why cgroups cannot be created; nil if they can. It is set only without Options.All.
	unusable error

	initMu sync.Mutex

	mu     sync.Mutex
	layout Layout
	ready  bool
	seeds  []*corev1.Pod
	lost   []string        // UIDs of seeds without the cgroup that they are to have
	known  map[string]bool // UIDs
	pods   map[string]*entry

	requestsMu sync.Mutex
	requests   requests // of all pods together
	// reserved reports that memory is reserved above the pods, by this configuration or by an earlier one.
	reserved bool
	// top and burstable are the last written values of the cgroups above the pods that follow from requests; zero: none.
	top, burstable Values
}

// entry is a pod's cgroup.
type entry struct {
	mu sync.Mutex
	at name // nil: not created, or removed
	// written are the last written values; zero if unknown.
	written Values
	// requests is the pod's part of Tree.requests, guarded by Tree.requestsMu.
	requests requests
}

// AllByDefault reports whether every pod gets a cgroup if the configuration does not say: yes with cgroup v2, no with
// v1. With v1, containerd 2.4 reads the statistics of every pod's cgroup each second, from ten hierarchies, at 1 ms of
// CPU each (ADR 021).
func AllByDefault() bool { return V2() }

// V2 reports whether this machine has only cgroup v2. The result is cached.
func V2() bool { return cgroups.IsCgroup2UnifiedMode() }

// New returns a tree and creates nothing yet. With Options.All, it fails if cgroups cannot be created.
func New(opts Options) (*Tree, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	t := &Tree{
		opts: opts, log: opts.Log, unified: V2(),
		known: map[string]bool{}, pods: map[string]*entry{},
	}
	err := t.findMounts()
	switch {
	case err == nil:
		return t, nil
	case opts.All:
		return nil, fmt.Errorf("%w; %s", err, t.remedy())
	}
	t.unusable = fmt.Errorf("%w; %s", err, t.remedy())
	return t, nil
}

// Wants reports whether a pod is to have a cgroup.
func (t *Tree) Wants(p *corev1.Pod) bool {
	return t.opts.All || resourcehelper.IsPodLevelResourcesSet(p)
}

// Seed adds a running pod, before Init.
func (t *Tree) Seed(p *corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seeds = append(t.seeds, p)
}

// AddKnown adds a pod of the journal, before Init: its cgroup is no orphan.
func (t *Tree) AddKnown(uid string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[uid] = true
}

// Ready reports whether Init has succeeded.
func (t *Tree) Ready() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ready
}

// Init creates the tree above the pods for a driver, Cgroupfs or Systemd. It adopts the cgroups of seeded pods and
// removes the cgroups of orphans. After the first success it does nothing.
func (t *Tree) Init(driver string) error {
	t.initMu.Lock()
	defer t.initMu.Unlock()
	if t.Ready() || t.unusable != nil {
		return t.unusable
	}
	t.layout = Layout{Root: t.opts.Root, Systemd: driver == Systemd}
	if root := t.layout.root(); len(root) > 0 && !t.exists(root) {
		path, err := t.layout.path(root)
		return errors.Join(err,
			fmt.Errorf("the cgroup %s does not exist; create it, or configure another one with --cgroup-root", path))
	}
	t.requests = requests{} // an attempt that failed may have counted
	var lost []string
	for _, p := range t.seeds {
		at := t.layout.pod(string(p.UID), pod.QOS(p))
		switch {
		case t.layout.check(string(p.UID)) != nil:
		case t.exists(at):
			t.pods[string(p.UID)] = &entry{at: at, requests: t.requestsOf(p)}
			t.requests.add(t.requestsOf(p), 1)
		case t.Wants(p):
			lost = append(lost, string(p.UID))
		}
	}
	t.reserved = t.reserves() || t.unified && t.reservedBefore()
	t.top, t.burstable = t.above()
	for _, c := range []struct {
		at     name
		values Values
	}{
		{t.layout.top(), t.top}, {t.layout.class(corev1.PodQOSBestEffort), Values{Shares: minShares}},
		{t.layout.class(corev1.PodQOSBurstable), t.burstable},
	} {
		if err := t.create(c.at, c.values); err != nil {
			return err
		}
	}
	t.removeOrphans()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ready, t.seeds, t.lost = true, nil, lost
	return nil
}

// Lost returns the seeded pods that are to have a cgroup and had none at Init, by UID: it was removed, or the pods were
// created while pods got none. One that runs nothing yet is among them.
func (t *Tree) Lost() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// SetNodeLimits sets the limits of all pods together, if each has a cgroup. It fails while they use more memory than
// the limit; try again later.
func (t *Tree) SetNodeLimits() error {
	if !t.opts.All {
		return nil
	}
	if err := t.set(t.layout.top(), t.opts.Node); err != nil {
		return fmt.Errorf("set the limits of all pods together: %w", err)
	}
	return nil
}

// Parent returns a pod's cgroup as CRI's cgroup parent, whether it exists or not; "" for a pod without a cgroup. The
// tree must be ready.
func (t *Tree) Parent(p *corev1.Pod) (string, error) {
	if !t.Wants(p) {
		return "", nil
	}
	return t.layout.Pod(p)
}

// Path returns the path of a pod's cgroup below the mount points; "" if it is to have none, or the tree is not ready.
func (t *Tree) Path(p *corev1.Pod) string {
	if !t.Ready() || !t.Wants(p) {
		return ""
	}
	path, err := t.layout.Pod(p)
	if err != nil {
		return ""
	}
	return path
}

// Top returns the path of the cgroup above all pods; "" if the tree is not ready.
func (t *Tree) Top() string {
	if !t.Ready() {
		return ""
	}
	path, err := t.layout.path(t.layout.top())
	if err != nil {
		return ""
	}
	return path
}

// Ensure creates the cgroup of a pod that is to have one, and sets its values. If an existing cgroup cannot take new
// values, it keeps the old ones, with a warning in the log. With exclusive, a container of the pod has exclusive CPUs,
// and there is no CPU quota. The tree must be ready.
func (t *Tree) Ensure(p *corev1.Pod, exclusive bool) error {
	if !t.Wants(p) {
		return nil
	}
	if err := t.layout.check(string(p.UID)); err != nil {
		return err
	}
	e := t.entry(string(p.UID))
	e.mu.Lock()
	defer e.mu.Unlock()
	at, want := t.layout.pod(string(p.UID), pod.QOS(p)), t.valuesOf(p, exclusive)
	there := t.exists(at)
	switch {
	case there && e.written == want:
	case there:
		if err := t.set(at, want, t.hugePagesOf(p)...); err != nil {
			t.log.Warn("a pod's cgroup keeps its old limits", "pod", p.UID, "error", err)
			want = Values{}
		}
	default:
		if err := t.create(at, want, t.hugePagesOf(p)...); err != nil {
			return errors.Join(err, t.destroy(at)) // no half-created cgroup without limits may stay
		}
	}
	e.at, e.written = at, want
	t.setRequests(e, t.requestsOf(p))
	return nil
}

func (t *Tree) valuesOf(p *corev1.Pod, exclusive bool) Values {
	v := OfPod(p, t.opts.CPUQuota)
	if exclusive {
		v.QuotaMicros, v.PeriodMicros = 0, 0
	}
	v.Pids = max(0, t.opts.PodPids)
	if t.unified && t.opts.MemoryThrottling > 0 {
		v.MemoryHigh = highOf(p, t.opts.MemoryThrottling)
	}
	if r := t.requestsOf(p); t.reserves() {
		v.Reserved, v.MemoryMin, v.MemoryLow = true, r.memoryMin, r.memoryLow
	}
	return v
}

// Widen raises the limits of a pod's cgroup to the pod's new limits where these are higher, before its containers
// change. It fails if the pod uses more memory than the new limit. It does nothing for a pod without a cgroup.
// exclusive is as in Ensure.
func (t *Tree) Widen(p *corev1.Pod, exclusive bool) error {
	return t.change(p, exclusive, func(e *entry, from, to Values) (Values, error) {
		if falls := to.MemoryBytes != 0 && (from.MemoryBytes == 0 || to.MemoryBytes < from.MemoryBytes); falls {
			if used := t.memoryUsed(e.at); used >= to.MemoryBytes {
				return to, fmt.Errorf("attempting to set pod memory limit (%d) below current usage (%d)",
					to.MemoryBytes, used)
			}
		}
		return widened(from, to), nil
	})
}

// Fit sets the limits of a pod's cgroup to the pod's, after one of its containers changed. On cgroup v1 the kernel
// refuses a quota below a container's; the change of that container sets it later. It does nothing for a pod without a
// cgroup. exclusive is as in Ensure.
func (t *Tree) Fit(p *corev1.Pod, exclusive bool) error {
	err := t.change(p, exclusive, func(e *entry, _, to Values) (Values, error) {
		t.setRequests(e, t.requestsOf(p))
		return to, nil
	})
	if errors.Is(err, unix.EINVAL) {
		t.log.Debug("the limits of a pod's cgroup wait for its other containers", "pod", p.UID, "error", err)
		return nil
	}
	return err
}

func (t *Tree) change(
	p *corev1.Pod, exclusive bool, next func(e *entry, from, to Values) (Values, error),
) error {
	e := t.entry(string(p.UID))
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at == nil {
		e.at = t.find(string(p.UID)) // the journal that had the pod was lost
	}
	if e.at == nil || !t.exists(e.at) {
		return nil
	}
	from := e.written
	if from == (Values{}) {
		from = t.read(e.at)
	}
	to, err := next(e, from, t.valuesOf(p, exclusive))
	if err != nil || to == e.written {
		return err
	}
	if err := t.set(e.at, to); err != nil {
		e.written = Values{}
		return err
	}
	e.written = to
	return nil
}

// find returns the existing cgroup of a pod; nil for none.
func (t *Tree) find(uid string) name {
	if t.layout.check(uid) != nil {
		return nil
	}
	for _, qos := range classes {
		if at := t.layout.pod(uid, qos); t.exists(at) {
			return at
		}
	}
	return nil
}

// RemoveIfEmpty removes the cgroup of a pod if it is empty, and subtracts its part of the cgroups above it. It is for a
// pod whose sandbox was stopped; with the next sandbox, Ensure creates the cgroup again.
func (t *Tree) RemoveIfEmpty(uid string) {
	e := t.entry(uid)
	e.mu.Lock()
	defer e.mu.Unlock()
	t.setRequests(e, requests{})
	if e.at == nil || !t.empty(e.at) {
		return
	}
	if err := t.destroy(e.at); err != nil {
		t.log.Warn("the cgroup of a stopped pod stays until the pod is removed", "pod", uid, "error", err)
		return
	}
	e.at, e.written = nil, Values{}
}

// Remove kills what still runs in the cgroup of a removed pod, and removes the cgroup.
func (t *Tree) Remove(uid string) error {
	if err := t.layout.check(uid); err != nil {
		return nil //nolint:nilerr // no pod with such a UID has a cgroup
	}
	e := t.entry(uid)
	e.mu.Lock()
	defer e.mu.Unlock()
	t.setRequests(e, requests{})
	for _, qos := range classes {
		at := t.layout.pod(uid, qos)
		if !t.existsAnywhere(at) {
			continue
		}
		if err := t.kill(uid, at); err != nil {
			return err
		}
		if err := t.destroy(at); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pods, uid)
	return nil
}

func (t *Tree) entry(uid string) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.pods[uid]
	if e == nil {
		e = new(entry)
		t.pods[uid] = e
	}
	return e
}

// kill kills the processes in a pod's cgroup after the runtime removed its sandboxes: processes that the runtime lost.
func (t *Tree) kill(uid string, at name) error {
	for _, dir := range t.dirs(at) {
		pids, err := cgroups.GetAllPids(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list the processes in the cgroup of pod %s: %w", uid, err)
		}
		for _, pid := range pids {
			if pid < 1 {
				// kill(2) would signal this process's own group.
				return fmt.Errorf("a process in the cgroup of pod %s is in another PID namespace; "+
					"kill it, or run the agent in the host's PID namespace", uid)
			}
			t.log.Warn("killing a process of a removed pod", "pod", uid, "pid", pid)
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill process %d in the cgroup of pod %s: %w", pid, uid, err)
			}
		}
	}
	return nil
}

// RemoveTop removes the empty cgroups above the pods' cgroups, under either driver's name. Nothing may create pods
// meanwhile.
func (t *Tree) RemoveTop() error {
	t.initMu.Lock()
	defer t.initMu.Unlock()
	if t.unusable != nil {
		return nil
	}
	var failed []error
	for _, systemd := range []bool{false, true} {
		t.mu.Lock()
		t.layout = Layout{Root: t.opts.Root, Systemd: systemd}
		t.ready = false
		t.mu.Unlock()
		for _, at := range []name{
			t.layout.class(corev1.PodQOSBurstable), t.layout.class(corev1.PodQOSBestEffort), t.layout.top(),
		} {
			if t.existsAnywhere(at) && t.empty(at) {
				failed = append(failed, t.destroy(at))
			}
		}
	}
	return errors.Join(failed...)
}
