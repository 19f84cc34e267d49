package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/journalet/journalet/runtime/api/stream"
)

// topSummary is the part of a summary that a table shows. Decoding the rest would take longer than everything else that
// the command does.
type topSummary struct {
	Node struct {
		NodeName string `json:"nodeName"`
		topUse
		Network *topNetwork `json:"network"`
	} `json:"node"`
	Pods []topPod `json:"pods"`
}

type topPod struct {
	PodRef     stats.PodReference `json:"podRef"`
	Containers []struct {
		Name string `json:"name"`
		topUse
	} `json:"containers"`
	topUse
	Network *topNetwork `json:"network"`
}

// topUse is what a node, a pod or a container uses.
type topUse struct {
	CPU *struct {
		UsageNanoCores uint64       `json:"usageNanoCores"`
		PSI            *topPressure `json:"psi"`
	} `json:"cpu"`
	Memory *struct {
		WorkingSetBytes uint64       `json:"workingSetBytes"`
		AvailableBytes  uint64       `json:"availableBytes"`
		PSI             *topPressure `json:"psi"`
	} `json:"memory"`
	IO *struct {
		PSI *topPressure `json:"psi"`
	} `json:"io"`
}

type topPressure struct {
	Some struct {
		Avg10 float64 `json:"avg10"`
	} `json:"some"`
}

type topNetwork struct {
	RxBytes uint64 `json:"rxBytes"`
	TxBytes uint64 `json:"txBytes"`
}

func (s *topSummary) refs() []stats.PodReference {
	out := make([]stats.PodReference, len(s.Pods))
	for i := range s.Pods {
		out[i] = s.Pods[i].PodRef
	}
	return out
}

// nanos returns CPU time in nanoseconds a second, bytes the working set. What is not known is 0.
func (u *topUse) nanos() uint64 {
	if u.CPU == nil {
		return 0
	}
	return u.CPU.UsageNanoCores
}

func (u *topUse) bytes() uint64 {
	if u.Memory == nil {
		return 0
	}
	return u.Memory.WorkingSetBytes
}

// pressure returns the pressure on CPU, memory and I/O; nil where the kernel has none.
func (u *topUse) pressure() (all [3]*topPressure) {
	if u.CPU != nil {
		all[0] = u.CPU.PSI
	}
	if u.Memory != nil {
		all[1] = u.Memory.PSI
	}
	if u.IO != nil {
		all[2] = u.IO.PSI
	}
	return all
}

// used returns the sum of a pod's containers, as kubectl does.
func (p *topPod) used() (nanos, bytes uint64) {
	for i := range p.Containers {
		nanos += p.Containers[i].nanos()
		bytes += p.Containers[i].bytes()
	}
	return nanos, bytes
}

// pressure returns the pod's pressure; without a cgroup of its own, the highest of its containers.
func (p *topPod) pressure() [3]*topPressure {
	all := p.topUse.pressure()
	for i := range p.Containers {
		for j, c := range p.Containers[i].pressure() {
			if p.topUse.pressure()[j] == nil && c != nil && (all[j] == nil || c.Some.Avg10 > all[j].Some.Avg10) {
				all[j] = c
			}
		}
	}
	return all
}

const (
	nanosPerMilli = 1_000_000
	mebi          = 1 << 20
)

// cores formats CPU as kubectl does: in thousandths, rounded up.
func cores(nanos uint64) string {
	return strconv.FormatUint((nanos+nanosPerMilli-1)/nanosPerMilli, 10) + "m"
}

func mebibytes(bytes uint64) string { return strconv.FormatUint(bytes/mebi, 10) + "Mi" }

func pressures(all [3]*topPressure) []string {
	out := make([]string, len(all))
	for i, p := range all {
		if out[i] = "-"; p != nil {
			out[i] = strconv.FormatFloat(p.Some.Avg10, 'f', 2, 64) + "%"
		}
	}
	return out
}

func traffic(n *topNetwork) []string {
	if n == nil {
		return []string{"-", "-"}
	}
	return []string{amount(n.RxBytes), amount(n.TxBytes)}
}

// amount formats bytes in the largest unit that keeps two digits.
func amount(bytes uint64) string {
	const kibi = 1 << 10
	switch {
	case bytes >= 10<<30:
		return strconv.FormatUint(bytes>>30, 10) + "Gi"
	case bytes >= 10*mebi:
		return mebibytes(bytes)
	case bytes >= 10*kibi:
		return strconv.FormatUint(bytes/kibi, 10) + "Ki"
	}
	return strconv.FormatUint(bytes, 10)
}

var wideHeadings = []string{"CPU(pressure)", "MEMORY(pressure)", "IO(pressure)"}

// print prints the table of pods, or of their containers.
func (s *topSummary) print(w *screen, o *topOptions, wide bool) {
	namespaces := o.all || slices.ContainsFunc(s.Pods, func(p topPod) bool {
		return p.PodRef.Namespace != s.Pods[0].PodRef.Namespace
	})
	t := table{w: w}
	var rows [][]string
	if !o.noHeaders {
		rows = append(rows, o.headings(namespaces, wide))
	}
	var nanos, bytes uint64
	slices.SortStableFunc(s.Pods, func(a, b topPod) int {
		cpuA, memA := a.used()
		cpuB, memB := b.used()
		return compareUse(o.sortBy, cpuA, memA, cpuB, memB)
	})
	for i := range s.Pods {
		p := &s.Pods[i]
		cpu, mem := p.used()
		nanos, bytes = nanos+cpu, bytes+mem
		var lead []string
		if namespaces {
			lead = append(lead, p.PodRef.Namespace)
		}
		lead = append(lead, p.PodRef.Name)
		if o.containers {
			rows = append(rows, o.containerRows(p, lead, wide)...)
			continue
		}
		row := append(lead, cores(cpu), mebibytes(mem))
		if wide {
			row = append(append(row, pressures(p.pressure())...), traffic(p.Network)...)
		}
		rows = append(rows, row)
	}
	if o.sum {
		lead := make([]string, len(o.leading(namespaces)))
		rows = append(rows, append(slices.Clone(lead), "________", "________"),
			append(lead, cores(nanos), mebibytes(bytes)))
	}
	t.print(rows...)
}

// leading are the headings in front of the figures.
func (o *topOptions) leading(namespaces bool) []string {
	var h []string
	if namespaces {
		h = append(h, "NAMESPACE")
	}
	if o.containers {
		h = append(h, "POD")
	}
	return append(h, "NAME")
}

func (o *topOptions) headings(namespaces, wide bool) []string {
	h := append(o.leading(namespaces), "CPU(cores)", "MEMORY(bytes)")
	if wide {
		h = append(h, wideHeadings...)
	}
	if wide && !o.containers {
		h = append(h, "RECEIVED(bytes)", "SENT(bytes)")
	}
	return h
}

func (o *topOptions) containerRows(p *topPod, lead []string, wide bool) [][]string {
	slices.SortStableFunc(p.Containers, func(a, b struct {
		Name string `json:"name"`
		topUse
	}) int {
		return compareUse(o.sortBy, a.nanos(), a.bytes(), b.nanos(), b.bytes())
	})
	var rows [][]string
	for i := range p.Containers {
		c := &p.Containers[i]
		row := append(slices.Clone(lead), c.Name, cores(c.nanos()), mebibytes(c.bytes()))
		if wide {
			row = append(row, pressures(c.pressure())...)
		}
		rows = append(rows, row)
	}
	return rows
}

func (a *app) topNodeCommand() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use: "node", Aliases: []string{"nodes", "no"}, Short: "Show what this node uses of CPU and memory",
		Long:    "Show what this node uses of CPU and memory now, also as a percentage of what it has.",
		Example: "  journalet top node\n  journalet top node -o wide -w",
		Args:    usageArgs(cobra.NoArgs),
	}
	o.target = a.targetFlags(cmd)
	a.topFlags(cmd, &o)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.repeat(cmd.Context(), &o, func(ctx context.Context, c *stream.Client, w *screen) error {
			return a.topNodeOnce(ctx, c, w, &o)
		})
	}
	return cmd
}

func (a *app) topNodeOnce(ctx context.Context, c *stream.Client, w *screen, o *topOptions) error {
	if a.output == formatJSON || a.output == formatYAML {
		sum, err := summaryOf[stats.Summary](ctx, o.target, c, viewNode)
		if err != nil {
			return err
		}
		return printValue(w, a.output, &struct {
			Node stats.NodeStats `json:"node"`
		}{sum.Node})
	}
	sum, err := summaryOf[topSummary](ctx, o.target, c, viewNode)
	if err != nil {
		return err
	}
	n := &sum.Node
	var rows [][]string
	if !o.noHeaders {
		rows = append(rows, []string{"NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"})
	}
	has := uint64(0)
	if n.Memory != nil {
		has = n.Memory.WorkingSetBytes + n.Memory.AvailableBytes
	}
	// The agent is on this machine.
	row := []string{n.NodeName, cores(n.nanos()), percent(n.nanos(), uint64(runtime.NumCPU())*1000*nanosPerMilli),
		mebibytes(n.bytes()), percent(n.bytes(), has)}
	if a.output == formatWide {
		if len(rows) > 0 {
			rows[0] = append(append(rows[0], wideHeadings...), "RECEIVED(bytes)", "SENT(bytes)")
		}
		row = append(append(row, pressures(n.pressure())...), traffic(n.Network)...)
	}
	(&table{w: w}).print(append(rows, row)...)
	return nil
}

func percent(part, all uint64) string {
	if all == 0 {
		return "<unknown>"
	}
	return fmt.Sprintf("%d%%", uint64(float64(part)/float64(all)*100))
}
