package stats

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/journalet/journalet/runtime/stats/usage"
)

// Summary returns the kubelet's summary of the node and of its pods that run, by namespace and name. What cannot be
// measured is left out. It takes MaxWait and the time for the cgroups at most.
func (s *Stats) Summary(ctx context.Context) *api.Summary { return s.SummaryWithin(ctx, s.maxWait) }

// SummaryWithin returns a summary that waits so long for all that is slow.
func (s *Stats) SummaryWithin(ctx context.Context, longest time.Duration) *api.Summary {
	wait, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	s.startSlow()
	r := s.read(ctx, Containers|Cgroups|Network|Processes)
	s.startFiles(r)
	out := s.render(wait, r)
	s.addNodeFilesystems(wait, out)
	for i := range r.pods {
		s.addFilesystems(wait, &out.Pods[i], &r.pods[i])
	}
	return out
}

// CPUAndMemory returns the part of the summary that the kubelet returns for CPU and memory only.
func (s *Stats) CPUAndMemory(ctx context.Context) *api.Summary {
	wait, cancel := context.WithTimeout(ctx, s.maxWait)
	defer cancel()
	out := s.render(wait, s.read(ctx, Containers|Cgroups))
	out.Node.IO, out.Node.Rlimit, out.Node.Network = nil, nil, nil
	for i := range out.Pods {
		p := &out.Pods[i]
		p.IO, p.Network, p.ProcessStats = nil, nil, nil
		for j := range p.Containers {
			p.Containers[j].IO = nil
		}
	}
	return out
}

// Top returns CPU and memory of the pods' containers and, with wide, pressure, network, and the node: what costs
// least.
func (s *Stats) Top(ctx context.Context, wide bool) *api.Summary {
	wait, cancel := context.WithTimeout(ctx, s.maxWait)
	defer cancel()
	scope := Containers
	if wide {
		scope |= Cgroups | Network
	}
	return s.render(wait, s.read(ctx, scope))
}

// Node returns the node alone, without file systems.
func (s *Stats) Node(ctx context.Context) *api.Summary {
	return s.render(ctx, s.read(ctx, Cgroups|Network))
}

// render returns a reading as a summary, without file systems. A reading of a larger scope than was asked for shows all
// that it has.
func (s *Stats) render(wait context.Context, r *reading) *api.Summary {
	out := &api.Summary{
		Node: api.NodeStats{NodeName: s.opts.Node, StartTime: metav1.NewTime(r.node.booted)},
		Pods: make([]api.PodStats, len(r.pods)),
	}
	if r.scope.has(Cgroups) {
		s.renderNode(&out.Node, r)
	}
	for i := range r.pods {
		s.renderPod(wait, &out.Pods[i], &r.pods[i])
	}
	return out
}

func (s *Stats) renderPod(wait context.Context, out *api.PodStats, p *podReading) {
	m := p.Manifest
	out.PodRef = api.PodReference{Name: m.Name, Namespace: m.Namespace, UID: string(m.UID)}
	out.StartTime = metav1.NewTime(p.Sandbox.Created)
	out.Containers = make([]api.ContainerStats, len(p.containers))
	processes, counted := uint64(0), false
	for i := range p.containers {
		c := &p.containers[i]
		into := &out.Containers[i]
		into.Name, into.StartTime = c.Name, metav1.NewTime(c.Created)
		if c.used == nil {
			s.renderReported(wait, into, c.ID)
			continue
		}
		into.CPU, into.Memory, into.Swap, into.IO = renderCgroup(&c.cgroupReading)
		if n := c.used.Processes; n != nil {
			processes, counted = processes+*n, true
		}
	}
	if p.own.used != nil {
		out.CPU, out.Memory, out.Swap, out.IO = renderCgroup(&p.own)
	} else {
		sum(out)
	}
	if counted {
		out.ProcessStats = &api.ProcessStats{ProcessCount: &processes}
	}
	out.Network = renderNetwork(p.network, p.networkAt)
}

// renderCgroup returns what a cgroup used. Without pressure in the kernel, io is nil.
func renderCgroup(c *cgroupReading) (cpu *api.CPUStats, mem *api.MemoryStats, swap *api.SwapStats, io *api.IOStats) {
	u := c.used
	at := metav1.NewTime(u.At)
	if u.CPU != nil {
		total := u.CPU.Usage
		cpu = &api.CPUStats{Time: at, UsageNanoCores: c.nanos, UsageCoreNanoSeconds: &total, PSI: psi(u.Pressure.CPU)}
	}
	if m := u.Memory; m != nil {
		used, set, rss, minor, major, swapped := m.Usage, m.WorkingSet, m.RSS, m.Faults, m.MajorFaults, m.Swap
		mem = &api.MemoryStats{
			Time: at, UsageBytes: &used, WorkingSetBytes: &set, RSSBytes: &rss, PageFaults: &minor, MajorPageFaults: &major,
			PSI: psi(u.Pressure.Memory),
		}
		swap = &api.SwapStats{Time: at, SwapUsageBytes: &swapped}
		if l := u.Limits; l != nil {
			mem.AvailableBytes = left(l.Memory, set)
			swap.SwapAvailableBytes = left(l.Swap, swapped)
		}
	}
	if p := psi(u.Pressure.IO); p != nil {
		io = &api.IOStats{Time: at, PSI: p}
	}
	return cpu, mem, swap, io
}

// left returns what is left of a limit; nil without one.
func left(limit, used uint64) *uint64 {
	if limit == usage.Unlimited {
		return nil
	}
	n := limit - min(limit, used)
	return &n
}

// psi returns pressure as the summary has it, its totals in nanoseconds.
func psi(s *usage.Stall) *api.PSIStats {
	if s == nil {
		return nil
	}
	return &api.PSIStats{Full: psiData(s.Full), Some: psiData(s.Some)}
}

func psiData(s usage.Share) api.PSIData {
	return api.PSIData{Total: s.Total * uint64(time.Microsecond), Avg10: s.Avg10, Avg60: s.Avg60, Avg300: s.Avg300}
}

// renderReported fills in what the runtime reports of a container whose cgroup cannot be read: of a virtual machine, or
// of a simulation.
func (s *Stats) renderReported(wait context.Context, into *api.ContainerStats, id string) {
	all, _, _ := s.layers.get(wait, s.opts.Now())
	l, ok := all[id]
	if !ok {
		return
	}
	if l.cpuNanos != nil || l.nanoCores != nil {
		into.CPU = &api.CPUStats{
			Time: metav1.NewTime(l.cpuAt), UsageNanoCores: l.nanoCores, UsageCoreNanoSeconds: l.cpuNanos,
		}
	}
	if l.workingSet != nil {
		into.Memory = &api.MemoryStats{
			Time: metav1.NewTime(l.memoryAt), UsageBytes: l.memoryBytes, WorkingSetBytes: l.workingSet, RSSBytes: l.rss,
			PageFaults: l.faults, MajorPageFaults: l.majorFaults, AvailableBytes: l.available,
		}
	}
}

// sum sets the figures of a pod without a cgroup of its own to the sums of its containers. Pressure has no sum.
func sum(p *api.PodStats) {
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.CPU != nil {
			if p.CPU == nil {
				p.CPU = &api.CPUStats{}
			}
			p.CPU.Time = later(p.CPU.Time, c.CPU.Time)
			p.CPU.UsageNanoCores = add(p.CPU.UsageNanoCores, c.CPU.UsageNanoCores)
			p.CPU.UsageCoreNanoSeconds = add(p.CPU.UsageCoreNanoSeconds, c.CPU.UsageCoreNanoSeconds)
		}
		if m := c.Memory; m != nil {
			if p.Memory == nil {
				p.Memory = &api.MemoryStats{}
			}
			p.Memory.Time = later(p.Memory.Time, m.Time)
			p.Memory.UsageBytes = add(p.Memory.UsageBytes, m.UsageBytes)
			p.Memory.WorkingSetBytes = add(p.Memory.WorkingSetBytes, m.WorkingSetBytes)
			p.Memory.RSSBytes = add(p.Memory.RSSBytes, m.RSSBytes)
			p.Memory.PageFaults = add(p.Memory.PageFaults, m.PageFaults)
			p.Memory.MajorPageFaults = add(p.Memory.MajorPageFaults, m.MajorPageFaults)
		}
		if c.Swap != nil {
			if p.Swap == nil {
				p.Swap = &api.SwapStats{}
			}
			p.Swap.Time = later(p.Swap.Time, c.Swap.Time)
			p.Swap.SwapUsageBytes = add(p.Swap.SwapUsageBytes, c.Swap.SwapUsageBytes)
		}
	}
}

// add returns the sum of what is known, in memory of its own.
func add(a, b *uint64) *uint64 {
	if b == nil {
		return a
	}
	n := *b
	if a != nil {
		n += *a
	}
	return &n
}

func later(a, b metav1.Time) metav1.Time {
	if a.Before(&b) {
		return b
	}
	return a
}

func renderNetwork(all []Interface, at time.Time) *api.NetworkStats {
	if len(all) == 0 {
		return nil
	}
	out := &api.NetworkStats{Time: metav1.NewTime(at)}
	for i := range all {
		out.Interfaces = append(out.Interfaces, renderInterface(&all[i]))
	}
	if first := primary(all); first != nil {
		out.InterfaceStats = renderInterface(first)
	}
	return out
}

func renderInterface(i *Interface) api.InterfaceStats {
	rx, rxErrors, tx, txErrors := i.RxBytes, i.RxErrors, i.TxBytes, i.TxErrors
	return api.InterfaceStats{Name: i.Name, RxBytes: &rx, RxErrors: &rxErrors, TxBytes: &tx, TxErrors: &txErrors}
}
