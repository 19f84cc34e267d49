package stats

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/journalet/journalet/runtime/pod/storage"
)

// renderNode fills in the node, from the topmost cgroup (CPU) and /proc (the rest), and its system containers.
func (s *Stats) renderNode(out *api.NodeStats, r *reading) {
	n := &r.node
	at := metav1.NewTime(n.at)
	if c := n.root.used; c != nil && c.CPU != nil {
		total := c.CPU.Usage
		out.CPU = &api.CPUStats{
			Time: metav1.NewTime(c.At), UsageNanoCores: n.root.nanos, UsageCoreNanoSeconds: &total, PSI: psi(n.pressure.CPU),
		}
	}
	if m := n.memory; m.ok {
		used := m.total - min(m.total, m.free)
		set := used - min(used, m.inactiveFile)
		// MemFree is without the pages that are reserved as huge, so they count as used: nothing can give them back.
		available := m.total - min(m.total, set)
		rss, minor, major := m.anon, n.faults.minor, n.faults.major
		out.Memory = &api.MemoryStats{
			Time: at, AvailableBytes: &available, UsageBytes: &used, WorkingSetBytes: &set, RSSBytes: &rss,
			PageFaults: &minor, MajorPageFaults: &major, PSI: psi(n.pressure.Memory),
		}
		swapped, free := m.swapTotal-min(m.swapTotal, m.swapFree), m.swapFree
		out.Swap = &api.SwapStats{Time: at, SwapAvailableBytes: &free, SwapUsageBytes: &swapped}
	}
	if p := psi(n.pressure.IO); p != nil {
		out.IO = &api.IOStats{Time: at, PSI: p}
	}
	if n.rlimit.maxPID > 0 {
		most, running := n.rlimit.maxPID, n.rlimit.running
		out.Rlimit = &api.RlimitStats{Time: at, MaxPID: &most, NumOfRunningProcesses: &running}
	}
	out.Network = renderNetwork(n.network, n.networkAt)
	out.SystemContainers = s.systemContainers(r)
}

// systemContainers returns the agent, the runtime and all pods together.
func (s *Stats) systemContainers(r *reading) []api.ContainerStats {
	n := &r.node
	var out []api.ContainerStats
	for _, c := range []struct {
		name    string
		cgroup  *cgroupReading
		process *process
	}{
		{api.SystemContainerKubelet, &n.agent, n.agentProcess}, {api.SystemContainerRuntime, &n.runtime, n.runtimeProcess},
	} {
		one := api.ContainerStats{Name: c.name, StartTime: metav1.NewTime(s.begun)}
		switch {
		case c.cgroup.used != nil:
			one.CPU, one.Memory, one.Swap, _ = renderCgroup(c.cgroup)
		case c.process != nil:
			at := metav1.NewTime(c.process.at)
			one.CPU = &api.CPUStats{Time: at, UsageCoreNanoSeconds: &c.process.cpuNanos}
			one.Memory = &api.MemoryStats{Time: at, WorkingSetBytes: &c.process.rssBytes, RSSBytes: &c.process.rssBytes}
		default:
			continue
		}
		out = append(out, one)
	}
	pods := api.ContainerStats{Name: api.SystemContainerPods, StartTime: metav1.NewTime(s.begun)}
	if n.allPods.used != nil {
		pods.CPU, pods.Memory, pods.Swap, _ = renderCgroup(&n.allPods)
	} else {
		pods.CPU, pods.Memory, pods.Swap = sumOfPods(r)
	}
	return append(out, pods)
}

// sumOfPods returns what all pods use where they have no cgroup together.
func sumOfPods(r *reading) (*api.CPUStats, *api.MemoryStats, *api.SwapStats) {
	var all api.PodStats
	for i := range r.pods {
		p := &r.pods[i]
		from := p.containers
		if p.own.used != nil {
			from = []containerReading{{cgroupReading: p.own}}
		}
		for j := range from {
			if from[j].used == nil {
				continue
			}
			var c api.ContainerStats
			c.CPU, c.Memory, c.Swap, _ = renderCgroup(&from[j].cgroupReading)
			all.Containers = append(all.Containers, c)
		}
	}
	sum(&all)
	return all.CPU, all.Memory, all.Swap
}

// startSlow begins the measurements of the node's file systems and of the runtime's layers, if they are due.
func (s *Stats) startSlow() {
	now := s.opts.Now()
	s.nodeFS.start(now)
	s.imageFS.start(now)
	s.layers.start(now)
}

func (s *Stats) addNodeFilesystems(wait context.Context, out *api.Summary) {
	now := s.opts.Now()
	if fs, at, ok := s.nodeFS.get(wait, now); ok {
		out.Node.Fs = runtimeStats(&fs, at)
	}
	if all, at, ok := s.imageFS.get(wait, now); ok {
		images := runtimeStats(&all.images, at)
		containers := images
		if all.containers.mount != "" {
			containers = runtimeStats(&all.containers, at)
		}
		out.Node.Runtime = &api.RuntimeStats{ImageFs: images, ContainerFs: containers}
	}
}

func runtimeStats(r *runtimeFS, at time.Time) *api.FsStats {
	out := &api.FsStats{Time: metav1.NewTime(at)}
	if r.fs != nil {
		out = filesystem(r.fs, at)
	}
	out.UsedBytes, out.InodesUsed = r.bytes, r.inodes
	return out
}

// filesystem returns what a file system has, without what one user of it takes.
func filesystem(fs *storage.FileSystem, at time.Time) *api.FsStats {
	available, capacity, inodes, free := fs.Available, fs.Capacity, fs.Inodes, fs.InodesFree
	return &api.FsStats{
		Time: metav1.NewTime(at), AvailableBytes: &available, CapacityBytes: &capacity, InodesFree: &free, Inodes: &inodes,
	}
}
