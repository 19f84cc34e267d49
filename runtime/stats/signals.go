package stats

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/pod/storage"
	"github.com/journalet/journalet/runtime/stats/usage"
)

const (
	// signalWait bounds the wait for a file system. One that takes longer is unknown until it answers.
	signalWait = 200 * time.Millisecond
	// staleSignal is the age at which the last figures of a file system that does not answer no longer count.
	staleSignal = 5 * time.Second
	// mountsPeriod is how long the paths of the runtime's file systems count.
	mountsPeriod = 5 * time.Minute
)

// Level is how much is available of something, and how much there is in all.
type Level struct{ Available, Capacity int64 }

// Signals are what is left of the node's resources. What could not be measured is nil.
type Signals struct {
	// Memory is the node's memory, Pods the memory of the cgroup of all pods below its limit, PIDs the number of tasks.
	Memory, Pods, PIDs *Level
	// NodeFS is the file system of the agent, ImageFS of images, ContainerFS of writable layers.
	NodeFS, ImageFS, ContainerFS *storage.FileSystem
	// Layout is unspecified as long as the runtime has not named its file systems.
	Layout journaletv1.FilesystemLayout
}

// signals are the measurements of file systems for Signals, each on its own.
type signals struct {
	mu                     sync.Mutex // guards buf, the buffer for reading files
	buf                    []byte
	mounts                 memo[mounts]
	node, image, container memo[storage.FileSystem]
}

// mounts are where the runtime keeps images and writable layers.
type mounts struct {
	images, containers string
	layout             journaletv1.FilesystemLayout
}

func (s *Stats) initSignals() {
	// Without a period: a figure from before something was reclaimed would cost a pod.
	at := func(path func() string) func(context.Context) (storage.FileSystem, error) {
		return func(context.Context) (storage.FileSystem, error) { return storage.FileSystemAt(path()) }
	}
	known := func() mounts {
		s.signals.mounts.mu.Lock()
		defer s.signals.mounts.mu.Unlock()
		return s.signals.mounts.value
	}
	g := &s.signals
	g.buf = make([]byte, maxMemBytes)
	g.mounts.period, g.mounts.measure = mountsPeriod, s.findMounts
	g.node.measure = at(func() string { return s.opts.RootDir })
	g.image.measure = at(func() string { return known().images })
	g.container.measure = at(func() string { return known().containers })
}

// findMounts asks the runtime for its file systems.
func (s *Stats) findMounts(ctx context.Context) (mounts, error) {
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	info, err := s.images.ImageFsInfo(ctx, &cri.ImageFsInfoRequest{})
	if err != nil {
		return mounts{}, err
	}
	var m mounts
	if all := info.GetImageFilesystems(); len(all) > 0 {
		m.images = all[0].GetFsId().GetMountpoint()
	}
	m.containers = m.images
	if all := info.GetContainerFilesystems(); len(all) > 0 {
		m.containers = all[0].GetFsId().GetMountpoint()
	}
	m.layout, err = layoutOf(s.opts.RootDir, m)
	return m, err
}

// layoutOf compares devices. A file system that this process does not have is the runtime's own.
func layoutOf(root string, m mounts) (journaletv1.FilesystemLayout, error) {
	var node, images, containers unix.Stat_t
	if err := unix.Stat(root, &node); err != nil {
		return 0, err
	}
	own := unix.Stat(m.images, &images) != nil || images.Dev != node.Dev
	split := m.containers != m.images && unix.Stat(m.containers, &containers) == nil && containers.Dev != images.Dev
	switch {
	case own && split:
		return journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_SPLIT, nil
	case own:
		return journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_OWN_IMAGES, nil
	default:
		return journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_ONE, nil
	}
}

// Signals measures what is left now. matters returns, by the limit of Pods, the level below which their exact level
// matters: above it Signals returns the cheaper figure, which counts file pages as used. Signals takes at most
// signalWait for each file system.
func (s *Stats) Signals(ctx context.Context, matters func(limit int64) int64) Signals {
	var out Signals
	if dir, err := bounded.OpenDir(s.opts.Proc); err == nil {
		s.signals.mu.Lock()
		buf := s.signals.buf
		if data, err := dir.ReadInto("meminfo", buf); err == nil {
			out.Memory = availableMemory(data)
		}
		if r := readRlimit(dir, buf); r.maxPID > 0 && r.running > 0 {
			out.PIDs = &Level{Available: r.maxPID - r.running, Capacity: r.maxPID}
		}
		s.signals.mu.Unlock()
		dir.Close()
	}
	out.Pods = s.podsMemory(matters)
	out.NodeFS = s.level(ctx, &s.signals.node)
	wait, cancel := context.WithTimeout(ctx, s.signalWait)
	defer cancel()
	m, _, ok := s.signals.mounts.get(wait, s.opts.Now())
	if !ok {
		return out
	}
	out.Layout = m.layout
	if m.images != "" {
		out.ImageFS = s.level(ctx, &s.signals.image)
	}
	if out.ContainerFS = out.ImageFS; m.containers != m.images {
		out.ContainerFS = s.level(ctx, &s.signals.container)
	}
	return out
}

// availableMemory returns what is left of the node's memory, as a kubelet counts it: without the working set, which is
// anonymous memory and file pages in use, and without huge pages.
func availableMemory(data []byte) *Level {
	var m meminfo
	m.parse(data)
	if !m.ok {
		return nil
	}
	used := m.anon + m.cached + m.buffers + m.swapCached
	used -= min(used, m.inactiveFile)
	return &Level{Available: int64(m.total - min(m.total, used+m.hugePages)), Capacity: int64(m.total)}
}

// podsMemory returns what is left of the memory of all pods; nil if nothing bounds it.
func (s *Stats) podsMemory(matters func(limit int64) int64) *Level {
	if s.opts.Reader == nil || s.opts.PodsCgroup == nil {
		return nil
	}
	path := s.opts.PodsCgroup()
	if path == "" {
		return nil
	}
	used, limit, err := s.opts.Reader.Memory(usage.At(path))
	if err != nil || limit == usage.Unlimited || limit > 1<<62 {
		return nil
	}
	if left := int64(limit - min(limit, used)); left >= matters(int64(limit)) {
		return &Level{Available: left, Capacity: int64(limit)}
	}
	c, err := s.opts.Reader.Read(usage.At(path), usage.Basic)
	if err != nil || c.Memory == nil {
		return nil
	}
	return &Level{Available: int64(limit - min(limit, c.Memory.WorkingSet)), Capacity: int64(limit)}
}

// level returns the newest figures of a file system; nil if it does not answer.
func (s *Stats) level(ctx context.Context, m *memo[storage.FileSystem]) *storage.FileSystem {
	wait, cancel := context.WithTimeout(ctx, s.signalWait)
	defer cancel()
	fs, at, ok := m.get(wait, time.Now())
	if !ok || time.Since(at) > staleSignal {
		return nil
	}
	return &fs
}
