package stats

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/pod/storage"
)

// imageFS is where the runtime keeps images and writable layers.
type imageFS struct {
	images, containers runtimeFS
}

// runtimeFS is a file system of the runtime or of the node, and what they take there.
type runtimeFS struct {
	mount, device string
	bytes, inodes *uint64
	fs            *storage.FileSystem // nil: this process does not have it
}

// layer is what the runtime reports of one container.
type layer struct {
	at            time.Time
	bytes, inodes *uint64
	// What it reports of CPU and memory, for containers without a cgroup that this process could read.
	cpuAt, memoryAt                              time.Time
	cpuNanos, nanoCores, memoryBytes, workingSet *uint64
	rss, faults, majorFaults, available          *uint64
}

func (s *Stats) measureImages(ctx context.Context) (imageFS, error) {
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	info, err := s.images.ImageFsInfo(ctx, &cri.ImageFsInfoRequest{})
	if err != nil {
		return imageFS{}, err
	}
	var out imageFS
	if all := info.GetImageFilesystems(); len(all) > 0 {
		out.images = s.runtimeFSOf(all[0])
	}
	if all := info.GetContainerFilesystems(); len(all) > 0 {
		out.containers = s.runtimeFSOf(all[0])
	}
	return out, nil
}

func (s *Stats) runtimeFSOf(u *cri.FilesystemUsage) runtimeFS {
	out := runtimeFS{mount: u.GetFsId().GetMountpoint(), bytes: value(u.GetUsedBytes()), inodes: value(u.GetInodesUsed())}
	if at, err := storage.FileSystemAt(out.mount); err == nil {
		out.fs, out.device = &at, s.deviceOf(out.mount)
	}
	return out
}

// measureNode measures the node's file system.
func (s *Stats) measureNode(context.Context) (runtimeFS, error) {
	fs, err := storage.FileSystemAt(s.opts.RootDir)
	if err != nil {
		return runtimeFS{}, err
	}
	used, inodes := fs.Used, fs.Inodes-min(fs.Inodes, fs.InodesFree)
	return runtimeFS{
		mount: s.opts.RootDir, device: s.deviceOf(s.opts.RootDir), bytes: &used, inodes: &inodes, fs: &fs,
	}, nil
}

// value returns nil for a value that the runtime does not report.
func value(v *cri.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	return &v.Value
}

// measureLayers asks the runtime for all containers at once.
func (s *Stats) measureLayers(ctx context.Context) (map[string]layer, error) {
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	list, err := s.runtime.ListContainerStats(ctx, &cri.ListContainerStatsRequest{})
	if err != nil {
		return nil, err
	}
	out := make(map[string]layer, len(list.GetStats()))
	for _, c := range list.GetStats() {
		w, cpu, mem := c.GetWritableLayer(), c.GetCpu(), c.GetMemory()
		out[c.GetAttributes().GetId()] = layer{
			at:    nanos(w.GetTimestamp()),
			bytes: value(w.GetUsedBytes()), inodes: value(w.GetInodesUsed()),
			cpuAt: nanos(cpu.GetTimestamp()), memoryAt: nanos(mem.GetTimestamp()),
			cpuNanos: value(cpu.GetUsageCoreNanoSeconds()), nanoCores: value(cpu.GetUsageNanoCores()),
			memoryBytes: value(mem.GetUsageBytes()), workingSet: value(mem.GetWorkingSetBytes()),
			rss: value(mem.GetRssBytes()), faults: value(mem.GetPageFaults()), majorFaults: value(mem.GetMajorPageFaults()),
			available: value(mem.GetAvailableBytes()),
		}
	}
	return out, nil
}

func nanos(n int64) time.Time {
	if n <= 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

// disks are the measurements of pods' files, each on its own: a volume that hangs delays no other one.
type disks struct {
	mu       sync.Mutex
	volumes  map[string]*memo[storage.Measured] // by pod and volume
	files    map[string]*memo[bounded.Usage]    // by pod and what: logs of a container or of the pod, the hosts file
	provided map[string]*memo[storage.Provided] // by pod: what the runtime has provided for it
	// slots bounds the measurements that run at once.
	slots chan struct{}
}

// maxWalks bounds how many trees are measured at once, and so how many threads a disk that hangs can hold.
const maxWalks = 64

// inSlot runs a measurement in a slot.
func inSlot[T any](slots chan struct{}, measure func(context.Context) (T, error)) func(context.Context) (T, error) {
	return func(ctx context.Context) (none T, err error) {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return none, ctx.Err()
		}
		defer func() { <-slots }()
		return measure(ctx)
	}
}

// measurement returns the measurement with a key, and creates it if needed.
func measurement[T any](
	d *disks, all map[string]*memo[T], key string, period time.Duration, measure func(context.Context) (T, error),
) *memo[T] {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := all[key]
	if m == nil {
		m = &memo[T]{period: period, measure: inSlot(d.slots, measure)}
		all[key] = m
	}
	return m
}

// volume returns the measurement of a volume.
func (s *Stats) volume(p *corev1.Pod, v *corev1.Volume) *memo[storage.Measured] {
	return measurement(&s.disks, s.disks.volumes, string(p.UID)+"/"+v.Name, s.opts.VolumePeriod,
		func(ctx context.Context) (storage.Measured, error) { return s.opts.Storage.Volume(ctx, p, v) })
}

// file returns the measurement of other files of a pod.
func (s *Stats) file(
	p *corev1.Pod, what string, measure func(context.Context, *corev1.Pod) (bounded.Usage, error),
) *memo[bounded.Usage] {
	return measurement(&s.disks, s.disks.files, string(p.UID)+"/"+what, VolumePeriod,
		func(ctx context.Context) (bounded.Usage, error) { return measure(ctx, p) })
}

// provided returns the measurement of what the runtime has provided for a pod.
func (s *Stats) provided(p *corev1.Pod) *memo[storage.Provided] {
	uid := string(p.UID)
	return measurement(&s.disks, s.disks.provided, uid, VolumePeriod,
		func(ctx context.Context) (storage.Provided, error) { return s.opts.Storage.Provided(ctx, uid, 0) })
}

// keep forgets the measurements of all but these pods, by UID. One that hangs ends with its file system.
func (d *disks) keep(uids map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.provided, func(uid string, _ *memo[storage.Provided]) bool { return !uids[uid] })
	for _, drop := range []func(func(string) bool){
		func(gone func(string) bool) {
			maps.DeleteFunc(d.volumes, func(k string, _ *memo[storage.Measured]) bool { return gone(k) })
		},
		func(gone func(string) bool) {
			maps.DeleteFunc(d.files, func(k string, _ *memo[bounded.Usage]) bool { return gone(k) })
		},
	} {
		drop(func(key string) bool {
			for i := range key {
				if key[i] == '/' {
					return !uids[key[:i]]
				}
			}
			return true
		})
	}
}
