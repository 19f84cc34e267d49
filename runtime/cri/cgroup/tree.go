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
	// All gives every pod a cgroup. Otherwise only those get one that have resources as a whole, which nothing else can hold.
	All bool
	// Root is the cgroup above kubepods, in the form of cgroupfs; "" and "/" are the topmost one.
	Root string
	// Node is what all pods together may have; a zero sets no bound.
	Node Values
	// PodPids is how many processes a pod may have; 0 and less set no bound.
	PodPids int64
	Log     *slog.Logger
}

// Tree is the cgroups of all pods of an agent. Its methods may be called concurrently, and each may be called again.
type Tree struct {
	opts    Options
	log     *slog.Logger
	unified bool
	// mounts are where hierarchies are mounted, by controller; on v2 it is one, under "".
	mounts map[string]string

	// unusable is why there can be no cgroups, where not every pod is to have one.
	unusable error

	initMu sync.Mutex

	mu     sync.Mutex
	layout Layout
	ready  bool
	seeds  []*corev1.Pod
	known  map[string]bool // UIDs
	pods   map[string]*entry

	sharesMu       sync.Mutex
	burstableMilli int64  // thousandths of a CPU that the Burstable pods ask for in sum
	shares         uint64 // as last written for them; 0: never
}

// entry is what is known of a pod's cgroup.
type entry struct {
	mu sync.Mutex
	at name // nil: not made, or gone
	// written is what was last written; the zero value: not known.
	written Values
	// milli is the pod's part of Tree.asked, guarded by Tree.sharing.
	milli int64
}

// AllByDefault tells whether every pod is to have a cgroup where nobody says: yes with cgroup v2, no with v1. There containerd 2.4 reads
// the statistics of every pod's cgroup each second, from ten hierarchies, at 1 ms of CPU each (ADR 021).
func AllByDefault() bool { return V2() }

// V2 tells whether this machine has cgroup v2 alone. It is asked once in a run.
func V2() bool { return cgroups.IsCgroup2UnifiedMode() }

// New makes a tree and touches nothing yet. It fails where cgroups cannot be made and every pod is to have one.
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

// Wants tells whether a pod is to have a cgroup.
func (t *Tree) Wants(p *corev1.Pod) bool {
	return t.opts.All || resourcehelper.IsPodLevelResourcesSet(p)
}

// Seed tells, before Begin, of a pod that runs.
func (t *Tree) Seed(p *corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seeds = append(t.seeds, p)
}

// AddKnown tells, before Begin, of a pod of the journal: its cgroup is not an orphan's.
func (t *Tree) AddKnown(uid string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[uid] = true
}

// Ready tells whether Begin has succeeded.
func (t *Tree) Ready() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ready
}

// Init makes the tree above the pods, in the form of a driver, Cgroupfs or Systemd, takes up the cgroups of the pods that were told, and
// removes those of orphans. After the first success it does nothing.
func (t *Tree) Init(driver string) error {
	t.initMu.Lock()
	defer t.initMu.Unlock()
	if t.Ready() || t.unusable != nil {
		return t.unusable
	}
	t.layout = Layout{Root: t.opts.Root, Systemd: driver == Systemd}
	if root := t.layout.root(); len(root) > 0 && !t.exists(root) {
		path, err := t.layout.path(root)
		return errors.Join(err, fmt.Errorf("the cgroup %s is not there; make it, or give another one with --cgroup-root", path))
	}
	if err := t.create(t.layout.top(), Values{Shares: t.opts.Node.Shares}); err != nil {
		return err
	}
	if err := t.create(t.layout.class(corev1.PodQOSBestEffort), Values{Shares: minShares}); err != nil {
		return err
	}
	t.burstableMilli = 0 // a try that failed may have counted
	for _, p := range t.seeds {
		at := t.layout.pod(string(p.UID), pod.QOS(p))
		// A pod that was created while pods got no cgroups stays as it is.
		if t.layout.check(string(p.UID)) == nil && t.exists(at) {
			t.pods[string(p.UID)] = &entry{at: at, milli: burstableRequest(p)}
			t.burstableMilli += burstableRequest(p)
		}
	}
	t.shares = SharesOf(t.burstableMilli)
	if err := t.create(t.layout.class(corev1.PodQOSBurstable), Values{Shares: t.shares}); err != nil {
		return err
	}
	t.removeOrphans()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ready, t.seeds = true, nil
	return nil
}

// SetNodeLimits bounds what all pods together may have, if each has a cgroup. It fails while they use more memory than that; try again later.
func (t *Tree) SetNodeLimits() error {
	if !t.opts.All {
		return nil
	}
	if err := t.set(t.layout.top(), t.opts.Node); err != nil {
		return fmt.Errorf("bound all pods together: %w", err)
	}
	return nil
}

// burstableRequest is what a pod adds to the shares of Burstable pods, in thousandths of a CPU.
func burstableRequest(p *corev1.Pod) int64 {
	if pod.QOS(p) != corev1.PodQOSBurstable {
		return 0
	}
	requests := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
	return requests.Cpu().MilliValue()
}

// Parent is a pod's cgroup as CRI takes it for a parent, whether it exists or not; "" for a pod that is to have none. The tree must be ready.
func (t *Tree) Parent(p *corev1.Pod) (string, error) {
	if !t.Wants(p) {
		return "", nil
	}
	return t.layout.Pod(p)
}

// Ensure sees to it that a pod that is to have a cgroup has it with the values that are its own. One that is there and cannot take other values
// keeps those that it has, which is logged. The tree must be ready.
func (t *Tree) Ensure(p *corev1.Pod) error {
	if !t.Wants(p) {
		return nil
	}
	if err := t.layout.check(string(p.UID)); err != nil {
		return err
	}
	e := t.entry(string(p.UID))
	e.mu.Lock()
	defer e.mu.Unlock()
	at, want := t.layout.pod(string(p.UID), pod.QOS(p)), t.valuesOf(p)
	there := t.exists(at)
	switch {
	case there && e.written == want:
	case there:
		if err := t.set(at, want); err != nil {
			t.log.Warn("a pod's cgroup keeps the limits that it has", "pod", p.UID, "error", err)
			want = Values{}
		}
	default:
		if err := t.create(at, want); err != nil {
			return errors.Join(err, t.destroy(at)) // what was made of it must not stand without limits
		}
	}
	e.at, e.written = at, want
	t.setRequest(e, burstableRequest(p))
	return nil
}

func (t *Tree) valuesOf(p *corev1.Pod) Values {
	v := OfPod(p)
	v.Pids = max(0, t.opts.PodPids)
	return v
}

// Widen gives a pod's cgroup what its pod is to have, as far as that is more: before its containers are changed. It fails where the pod uses
// the memory already that it is not to have any more. A pod without a cgroup is done.
func (t *Tree) Widen(p *corev1.Pod) error {
	return t.change(p, func(e *entry, from, to Values) (Values, error) {
		if falls := to.MemoryBytes != 0 && (from.MemoryBytes == 0 || to.MemoryBytes < from.MemoryBytes); falls {
			if used := t.memoryUsed(e.at); used >= to.MemoryBytes {
				return to, fmt.Errorf("attempting to set pod memory limit (%d) below current usage (%d)", to.MemoryBytes, used)
			}
		}
		return widened(from, to), nil
	})
}

// Fit gives a pod's cgroup what its pod is to have, after one of its containers was changed. A quota that another container's still exceeds, which
// the kernel refuses on cgroup v1, is left for when that one was changed. A pod without a cgroup is done.
func (t *Tree) Fit(p *corev1.Pod) error {
	err := t.change(p, func(e *entry, _, to Values) (Values, error) {
		t.setRequest(e, burstableRequest(p))
		return to, nil
	})
	if errors.Is(err, unix.EINVAL) {
		t.log.Debug("a pod's cgroup waits for other containers of the pod", "pod", p.UID, "error", err)
		return nil
	}
	return err
}

func (t *Tree) change(p *corev1.Pod, next func(e *entry, from, to Values) (Values, error)) error {
	e := t.entry(string(p.UID))
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at == nil {
		e.at = t.find(string(p.UID)) // nobody told of it where the journal was lost
	}
	if e.at == nil || !t.exists(e.at) {
		return nil
	}
	from := e.written
	if from == (Values{}) {
		from = t.read(e.at)
	}
	to, err := next(e, from, t.valuesOf(p))
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

// find is the cgroup that there is of a pod, nil for none.
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

// RemoveIfEmpty removes the cgroup of a pod if nothing is in it, and takes its part of the shares away. It is for a pod whose sandbox was stopped; with
// the next one, Ensure makes it anew.
func (t *Tree) RemoveIfEmpty(uid string) {
	e := t.entry(uid)
	e.mu.Lock()
	defer e.mu.Unlock()
	t.setRequest(e, 0)
	if e.at == nil || !t.empty(e.at) {
		return
	}
	if err := t.destroy(e.at); err != nil {
		t.log.Warn("the cgroup of a pod that has ended stays until the pod goes", "pod", uid, "error", err)
		return
	}
	e.at, e.written = nil, Values{}
}

// Remove removes the cgroup of a pod that is no more, and kills what still runs in it.
func (t *Tree) Remove(uid string) error {
	if err := t.layout.check(uid); err != nil {
		return nil //nolint:nilerr // no pod of such a name has a cgroup
	}
	e := t.entry(uid)
	e.mu.Lock()
	defer e.mu.Unlock()
	t.setRequest(e, 0)
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

// setRequest makes a pod's part of the shares of its class another one.
func (t *Tree) setRequest(e *entry, milli int64) {
	t.sharesMu.Lock()
	defer t.sharesMu.Unlock()
	t.burstableMilli += milli - e.milli
	e.milli = milli
	shares := SharesOf(t.burstableMilli)
	if shares == t.shares {
		return
	}
	at := t.layout.class(corev1.PodQOSBurstable)
	if err := t.set(at, Values{Shares: shares}); err != nil {
		t.log.Warn("the shares of Burstable pods stay as they were", "error", err)
		return
	}
	t.shares = shares
}

// kill ends what runs in a pod's cgroup after its sandboxes are gone: what the runtime lost. The runtime has had its say then.
func (t *Tree) kill(uid string, at name) error {
	for _, dir := range t.dirs(at) {
		pids, err := cgroups.GetAllPids(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("look for what runs in the cgroup of pod %s: %w", uid, err)
		}
		for _, pid := range pids {
			if pid < 1 {
				// To kill(2) it would be this process's own group.
				return fmt.Errorf("a process in the cgroup of pod %s is of another PID namespace; end it, or run the agent in the host's", uid)
			}
			t.log.Warn("a process of a pod that is gone is killed", "pod", uid, "pid", pid)
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("end process %d in the cgroup of pod %s: %w", pid, uid, err)
			}
		}
	}
	return nil
}
