package persistentvolume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/pod/disk"
	"github.com/journalet/journalet/runtime/pod/hostpath"
	"github.com/journalet/journalet/runtime/pod/nfs"
)

// Options configure Volumes; RootDir, Drivers and Objects must be set.
type Options struct {
	// RootDir is the agent's root directory. No part of its path may be a link.
	RootDir string
	// NodeName is the Node's name, BootID the id of the machine's boot.
	NodeName, BootID string
	Drivers          Callers
	Objects          Objects
	Node             Node
	// Pod returns the newest object of a pod; nil: none is known. Event emits an event; it may be nil, and must not block.
	// Clock is for all that waits. Default: the machine's.
	Pod   func(uid string) *corev1.Pod
	Event func(about corev1.ObjectReference, kind, reason, message string)
	Clock clock.Clock
	// Observe receives each operation on a volume, with the kubelet's names of its plugin and of the operation; migrated:
	// the volume is of a kind of clouds that a driver has taken over. It may be nil.
	Observe func(plugin, operation string, migrated bool, took time.Duration, err error)
	// Files are the disk, for volumes of drivers: others have files of the machine. Default: the machine's.
	Files Files
	// Jitter returns a number from 0 to n, without n. Default: at random.
	Jitter func(n int64) int64
	// SELinux returns the label of files for a process with some options; nil: the node has no SELinux.
	SELinux func(*corev1.SELinuxOptions) (string, error)
	// NFS mounts exports of NFS servers. Default: by the node's mount(8).
	NFS *nfs.Mounter
	// Disks mounts block devices of local volumes. Default: by the node's programs.
	Disks *disk.Mounter
	Log   *slog.Logger
}

// Node is the Node of this machine.
type Node interface {
	// SetVolumesInUse sets the volumes that the status has as in use, and has them written at once.
	SetVolumesInUse(names []string)
	// Node returns the Node as the API server has shown it last; nil: not yet.
	Node() *corev1.Node
}

// Volumes sets up and tears down volumes of CSI drivers. Its state is the disk and the mount table; the rest is an
// index of these. Calls for one pod must not overlap.
type Volumes struct {
	opts   Options
	locks  locks
	tokens tokens
	// answers are measurements of volumes whose servers may be away.
	answers bounded.Answers
	// changed rings after a claim that is refreshed has come or gone, and leaves after a volume has been left.
	changed, leaves clock.Bell

	mu sync.Mutex
	// pods has the claims of each pod by the name of their directory.
	pods map[string]map[string]*record
	// waiting has the volumes that pods wait for, and that are not claimed yet.
	waiting map[string]map[key]bool
	// inUse is what was last reported to the Node.
	inUse []string
	// rounds has the drivers whose volumes are being refreshed.
	rounds map[string]bool
	// stale has what failed in the last refresh of a volume, by the reason of its event.
	stale    map[string]map[string]bool
	attempts map[key]attempts
	// left has the volumes that no pod claims and whose driver has not unstaged them: whether they are attached.
	left map[key]bool
}

// New returns Volumes with what is on disk. A record that cannot be read is logged; its pod's end reports it.
func New(o Options) (*Volumes, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.NFS == nil {
		o.NFS = nfs.New(nfs.Options{})
	}
	if o.Disks == nil {
		o.Disks = disk.New(disk.Options{Log: o.Log})
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Files == nil {
		o.Files = machine{}
	}
	if o.Jitter == nil {
		o.Jitter = rand.Int64N
	}
	v := &Volumes{
		opts: o, locks: locks{clock: o.Clock, held: map[key]*lock{}}, pods: map[string]map[string]*record{},
		waiting: map[string]map[key]bool{}, tokens: tokens{byPod: map[string]map[tokenKind]token{}},
		changed: clock.NewBell(o.Clock), rounds: map[string]bool{}, stale: map[string]map[string]bool{},
		attempts: map[key]attempts{}, left: map[key]bool{}, leaves: clock.NewBell(o.Clock),
	}
	for pod, err := range v.opts.Files.Entries(v.podsDir()) {
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("list the directories of pods: %w", err)
		}
		if uid := pod.Name(); messages.CheckID(uid) == nil && pod.IsDir() {
			if err := v.load(uid); err != nil {
				return nil, err
			}
		}
	}
	if err := v.loadLeft(); err != nil {
		return nil, fmt.Errorf("list the staged CSI volumes: %w", err)
	}
	if err := v.loadDisks(); err != nil {
		return nil, fmt.Errorf("list the mounted local volumes: %w", err)
	}
	v.reportInUse()
	return v, nil
}

// load adds the claims of a pod.
func (v *Volumes) load(uid string) error {
	for e, err := range v.opts.Files.Entries(v.podDir(uid)) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list the CSI volumes of pod %s: %w", uid, err)
		}
		r, err := v.readRecord(filepath.Join(v.podDir(uid), e.Name()))
		if err != nil {
			v.opts.Log.Warn("a CSI volume of a pod is not known", "pod", uid, "error", err)
		}
		if r != nil {
			v.index(uid, e.Name(), r)
		}
	}
	return nil
}

// index notes a claim; nil: it is gone.
func (v *Volumes) index(uid, dir string, r *record) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pods[uid] == nil {
		v.pods[uid] = map[string]*record{}
	}
	if before := v.pods[uid][dir]; before.refreshes() || r.refreshes() {
		v.changed.Ring()
	}
	v.pods[uid][dir] = r
	if r == nil {
		delete(v.pods[uid], dir)
		delete(v.stale, uid+"/"+dir)
	}
	if len(v.pods[uid]) == 0 {
		delete(v.pods, uid)
	}
}

// find returns the claim of a pod's volume and its directory; nil if the pod has no such claim.
func (v *Volumes) find(uid, volume string) (string, *record) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, dir := range slices.Sorted(maps.Keys(v.pods[uid])) {
		if r := v.pods[uid][dir]; slices.Contains(r.volumes(), volume) || r.Volumes == "" && dir == volume {
			return dir, r
		}
	}
	return "", nil
}

// claimOf returns a copy of a claim; nil if the directory has no claim.
func (v *Volumes) claimOf(uid, dir string) *record {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.pods[uid][dir]
	if r == nil {
		return nil
	}
	c := *r
	return &c
}

// claims reports whether a volume has a claim other than the claim of a pod's directory.
func (v *Volumes) claims(k key, uid, dir string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for u, dirs := range v.pods {
		for d, r := range dirs {
			if r.key() == k && (u != uid || d != dir) {
				return true
			}
		}
	}
	return false
}

// reportInUse reports the volumes in use if they have changed.
func (v *Volumes) reportInUse() {
	if v.opts.Node == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	names := map[string]bool{}
	for _, dirs := range v.pods {
		for _, r := range dirs {
			if r.Attach == "true" {
				names[r.key().uniqueName()] = true
			}
		}
	}
	for _, keys := range v.waiting {
		for k := range keys {
			names[k.uniqueName()] = true
		}
	}
	for k, attach := range v.left {
		if attach {
			names[k.uniqueName()] = true
		}
	}
	now := slices.Sorted(maps.Keys(names))
	if slices.Equal(now, v.inUse) {
		return
	}
	v.inUse = now
	v.opts.Node.SetVolumesInUse(now)
}

// Path returns where a pod's volume is, or an error if it was not set up.
func (v *Volumes) Path(uid, volume string) (string, error) {
	dir, r := v.find(uid, volume)
	if r == nil {
		return "", fmt.Errorf("volume %q is not set up", volume)
	}
	if r.HostPath != "" {
		return r.HostPath, nil
	}
	return v.target(uid, dir), nil
}

// Relabels reports whether the files of a pod's volume may get the pod's SELinux label one by one: not files of an NFS
// server, not files of the node, and not files that have the label by their mount. kubelet: the same.
func (v *Volumes) Relabels(uid, volume string) bool {
	_, r := v.find(uid, volume)
	return r != nil && r.SELinux == "" && r.Driver != nfsDriver && r.Driver != hostPathDriver
}

// Lost reports whether a volume that was set up is not there: of another boot, or unmounted. It reads no volume, nor
// the path of a hostPath PersistentVolume: that is Check's.
func (v *Volumes) Lost(uid, volume string) bool {
	dir, r := v.find(uid, volume)
	if r == nil || r.Stage != "" && !r.isDone(published, v.opts.BootID) {
		return true
	}
	if r.HostPath != "" {
		return false
	}
	there, err := v.isThere(v.target(uid, dir), r)
	return err == nil && !there
}

// Check returns an error if a volume that was set up is lost, or the path of a hostPath PersistentVolume is not what
// its type says. It may block as long as the server of that path is away.
func (v *Volumes) Check(uid, volume string) error {
	dir, r := v.find(uid, volume)
	switch {
	case v.Lost(uid, volume):
		return fmt.Errorf("nothing is mounted at %s", v.target(uid, cmp.Or(dir, volume)))
	case r.HostPath != "":
		return checkHostPath(r)
	}
	return nil
}

// checkHostPath checks the path of a hostPath PersistentVolume. Without a type, it has to exist.
func checkHostPath(r *record) error {
	err := hostpath.Check(r.HostPath, corev1.HostPathType(r.HostPathType))
	if err == nil && r.HostPathType == "" {
		_, err = os.Stat(r.HostPath)
	}
	return err
}

// isThere reports whether what a driver has published is still there. The mount table is read, and not the volume: a
// file system whose server is gone would block.
func (v *Volumes) isThere(target string, r *record) (bool, error) {
	if r.HostPath != "" {
		return checkHostPath(r) == nil, nil // its set-up says why it is not
	}
	if r.Mounted == "true" || r.Stage == "" {
		return v.opts.Files.Mounted(target)
	}
	return v.isTarget(target, r.Block == "true", false)
}

// isTarget reports whether there is a directory at a path, or a block device, to which a link may lead. What is mounted
// as a directory is not read: a file system whose server is gone would block.
func (v *Volumes) isTarget(path string, block, mounted bool) (bool, error) {
	read := v.opts.Files.Lstat
	switch {
	case block:
		read = v.opts.Files.Stat
	case mounted:
		return true, nil
	}
	info, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if block {
		return hostpath.IsBlockDevice(info.Mode()), nil
	}
	return info.IsDir(), nil
}

// locks are a lock for each volume that is in use.
type locks struct {
	clock clock.Clock
	mu    sync.Mutex
	held  map[key]*lock
}

type lock struct {
	clock.Lock
	users int // who has it or waits for it
}

// lock waits for a volume's lock, and returns what releases it.
func (l *locks) lock(ctx context.Context, k key) (func(), error) {
	l.mu.Lock()
	entry := l.held[k]
	if entry == nil {
		entry = &lock{Lock: clock.NewLock(l.clock)}
		l.held[k] = entry
	}
	entry.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if entry.users--; entry.users == 0 {
			delete(l.held, k)
		}
	}
	if err := entry.Acquire(ctx); err != nil {
		leave()
		return nil, fmt.Errorf("another call for the volume is under way: %w", err)
	}
	return func() { entry.Release(); leave() }, nil
}
