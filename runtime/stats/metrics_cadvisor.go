package stats

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/journalet/journalet/runtime/stats/usage"
)

// measured is one cgroup, or the network of one sandbox, with what cAdvisor knows about it.
type measured struct {
	used             *usage.Cgroup
	created, started time.Time
	seen             time.Time
	network          []Interface
	files            usage.Descriptors
	layer            *layer
	layerFS          *runtimeFS
	device           func(major, minor uint64) string
}

// cadvisorLabels are the kubelet's labels on cAdvisor's metrics.
var cadvisorLabels = []string{"container", "id", "image", "name", "namespace", "pod"}

// CadvisorMetrics returns what the kubelet exports on /metrics/cadvisor, but for the machine's. The values have no time
// of their own: they are read within the scrape.
func (s *Stats) CadvisorMetrics() prometheus.Collector {
	c := newCollector(cadvisorLabels, cadvisorFamilies(), "container_scrape_error")
	c.collect = func(yield func([]string, time.Time, measured)) {
		ctx, cancel := scrape()
		defer cancel()
		s.eachMeasured(ctx, func(labels []string, m measured) { yield(labels, time.Time{}, m) })
	}
	return c
}

// CadvisorCatalog returns the metrics of /metrics/cadvisor.
func CadvisorCatalog() []Metric {
	all := newCollector(cadvisorLabels, cadvisorFamilies()).catalog()
	return append(all, newCollector(machineLabels, machineFamilies()).catalog()...)
}

// eachMeasured calls yield for the node, the tree of pods, each pod's cgroup, each sandbox with a network, and each
// container.
func (s *Stats) eachMeasured(ctx context.Context, yield func(labels []string, m measured)) {
	wait, cancel := context.WithTimeout(ctx, s.maxWait)
	defer cancel()
	s.startSlow()
	r := s.read(ctx, Containers|Cgroups|Network|Processes|Details)
	layers, _, _ := s.layers.get(wait, r.at)
	images, _, _ := s.imageFS.get(wait, r.at)
	node := measured{used: r.node.cgroup(), network: r.node.network}
	if fs, at, ok := s.nodeFS.get(wait, r.at); ok {
		node.layer, node.layerFS = &layer{at: at, bytes: fs.bytes, inodes: fs.inodes}, &fs
	}
	send := func(labels []string, m measured) {
		m.seen, m.device = r.at, s.device
		yield(labels, m)
	}
	send([]string{"", rootCgroup, "", "", "", ""}, node)
	if c := &r.node.allPods; c.used != nil {
		send([]string{"", c.place.Path(), "", "", "", ""}, measured{used: c.used})
	}
	for i := range r.pods {
		p := &r.pods[i]
		ns, name := p.Manifest.Namespace, p.Manifest.Name
		if p.own.used != nil {
			send([]string{"", p.own.place.Path(), "", "", ns, name}, measured{used: p.own.used, created: p.Sandbox.Created})
		}
		if len(p.network) > 0 {
			send([]string{"", p.sandbox.Path(), "", p.Sandbox.ID, ns, name},
				measured{network: p.network, created: p.Sandbox.Created})
		}
		for j := range p.containers {
			c := &p.containers[j]
			if c.used == nil {
				continue
			}
			m := measured{used: c.used, created: c.Created, started: c.Started, files: c.files}
			if l, ok := layers[c.ID]; ok {
				m.layer, m.layerFS = &l, &images.images
			}
			send([]string{c.Name, c.place.Path(), c.Image, c.ID, ns, name}, m)
		}
	}
}

// cgroup returns the node as a cgroup, as cAdvisor shows it.
func (n *nodeReading) cgroup() *usage.Cgroup {
	out := &usage.Cgroup{At: n.at, Pressure: n.pressure}
	if n.root.used != nil {
		out.CPU, out.Devices = n.root.used.CPU, n.root.used.Devices
	}
	if m := n.memory; m.ok {
		used := m.total - min(m.total, m.free)
		out.Memory = &usage.Memory{
			Usage: used, WorkingSet: used - min(used, m.inactiveFile), RSS: m.anon, InactiveFile: m.inactiveFile,
			Swap: m.swapTotal - min(m.swapTotal, m.swapFree), Faults: n.faults.minor, MajorFaults: n.faults.major,
			OwnFaults: n.faults.minor, OwnMajorFaults: n.faults.major,
		}
		out.Limits = &usage.Limits{Memory: m.total, Swap: m.swapTotal}
	}
	return out
}
