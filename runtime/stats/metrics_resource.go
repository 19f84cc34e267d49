package stats

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// resource is CPU, memory and swap of the node, of a pod or of a container.
type resource struct {
	cpu   *api.CPUStats
	mem   *api.MemoryStats
	swap  *api.SwapStats
	start time.Time
}

// Names of what the kubelet's /metrics/resource has, in front of a metric's name.
const (
	ofNode      = "node"
	ofPod       = "pod"
	ofContainer = "container"
)

func resourceFamilies(prefix, what string) []family[resource] {
	all := []family[resource]{
		{name: prefix + "_cpu_usage_seconds_total", help: "CPU time used by " + what + ", in core-seconds.", counter: true,
			each: one(func(r resource) (float64, bool) {
				if r.cpu == nil || r.cpu.UsageCoreNanoSeconds == nil {
					return 0, false
				}
				return seconds(*r.cpu.UsageCoreNanoSeconds), true
			})},
		{name: prefix + "_memory_working_set_bytes", help: "Working set of " + what + ".",
			each: one(func(r resource) (float64, bool) {
				if r.mem == nil || r.mem.WorkingSetBytes == nil {
					return 0, false
				}
				return float64(*r.mem.WorkingSetBytes), true
			})},
		{name: prefix + "_swap_usage_bytes", help: "Swap used by " + what + ".",
			each: one(func(r resource) (float64, bool) {
				if r.swap == nil || r.swap.SwapUsageBytes == nil {
					return 0, false
				}
				return float64(*r.swap.SwapUsageBytes), true
			})},
	}
	if prefix != ofContainer {
		return all
	}
	return append(all,
		family[resource]{name: "container_swap_limit_bytes", help: "Limit of swap of the container.",
			each: one(func(r resource) (float64, bool) {
				if r.swap == nil || r.swap.SwapAvailableBytes == nil || r.swap.SwapUsageBytes == nil {
					return 0, false
				}
				return float64(*r.swap.SwapAvailableBytes + *r.swap.SwapUsageBytes), true
			})})
}

// startFamilies have no time of their own.
var startFamilies = []family[resource]{{
	name: "container_start_time_seconds", help: "When the container was created, in seconds since 1970.",
	each: one(func(r resource) (float64, bool) {
		return float64(r.start.UnixNano()) / float64(time.Second), r.start.Unix() > 0
	}),
}}

var (
	podLabels      = []string{"pod", "namespace"}
	resourceLabels = []string{"container", "pod", "namespace"}
)

// resources exports one reading as several collectors: their labels differ.
type resources struct {
	stats                        *Stats
	node, pod, container, starts *collector[resource]
}

func newResources(s *Stats) *resources {
	return &resources{
		stats:     s,
		node:      newCollector(nil, resourceFamilies(ofNode, "the node"), "scrape_error", "resource_scrape_error"),
		pod:       newCollector(podLabels, resourceFamilies(ofPod, "the pod")),
		container: newCollector(resourceLabels, resourceFamilies(ofContainer, "the container")),
		starts:    newCollector(resourceLabels, startFamilies),
	}
}

// ResourceMetrics returns what the kubelet exports on /metrics/resource, with the time of each reading.
func (s *Stats) ResourceMetrics() prometheus.Collector { return newResources(s) }

func (r *resources) all() []*collector[resource] {
	return []*collector[resource]{r.node, r.pod, r.container, r.starts}
}

// Describe implements prometheus.Collector.
func (r *resources) Describe(out chan<- *prometheus.Desc) {
	for _, c := range r.all() {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (r *resources) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := scrape()
	defer cancel()
	sum := r.stats.CPUAndMemory(ctx)
	export := func(c *collector[resource], labels []string, m resource, timed bool) {
		exported := *c
		exported.collect = func(yield func([]string, time.Time, resource)) {
			var at time.Time
			switch {
			case timed && m.cpu != nil:
				at = m.cpu.Time.Time
			case timed && m.mem != nil:
				at = m.mem.Time.Time
			}
			yield(labels, at, m)
		}
		exported.Collect(out)
	}
	export(r.node, nil, resource{cpu: sum.Node.CPU, mem: sum.Node.Memory, swap: sum.Node.Swap}, true)
	for i := range sum.Pods {
		p := &sum.Pods[i]
		export(r.pod, []string{p.PodRef.Name, p.PodRef.Namespace}, resource{cpu: p.CPU, mem: p.Memory, swap: p.Swap}, true)
		for j := range p.Containers {
			c := &p.Containers[j]
			labels := []string{c.Name, p.PodRef.Name, p.PodRef.Namespace}
			m := resource{cpu: c.CPU, mem: c.Memory, swap: c.Swap, start: c.StartTime.Time}
			export(r.container, labels, m, true)
			export(r.starts, labels, m, false)
		}
	}
}

// ResourceCatalog returns the metrics of /metrics/resource.
func ResourceCatalog() []Metric {
	var out []Metric
	for _, c := range newResources(nil).all() {
		out = append(out, c.catalog()...)
	}
	return out
}
