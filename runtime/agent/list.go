package agent

import (
	"context"
	"maps"
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/cgroup"
	"github.com/journalet/journalet/runtime/drivers"
	"github.com/journalet/journalet/runtime/iptables"
	"github.com/journalet/journalet/runtime/pod/volume"
	"github.com/journalet/journalet/runtime/source/feed"
)

// newList returns the list of the drivers of this run.
func (a *agent) newList() *drivers.List {
	all := []drivers.Driver{
		a.timers, a.calls, a.health, a.probes, a.gates, a.storage, a.images, a.objects, a.credentials, a.manifests,
		storing{"log", func(rec *journaletv1.Record) { feed.LogIgnored(a.log, rec) }}, a.podMetrics,
		nodeVolumes{a.volumes, a}, a.pleg, a.files, a.newEnforcer(),
		a.retention, drivers.Only("server", a.serveAPI),
		drivers.Only("health server", a.serveHTTP),
	}
	if pods := a.newPodsAPI(); pods != nil {
		all = append(all, pods)
	}
	if a.rotation != nil {
		all = append(all, a.rotation)
	}
	if a.url != nil {
		all = append(all, a.url)
	}
	if a.shutdown != nil {
		all = append(all, a.shutdown)
	}
	if a.pressure != nil {
		all = append(all, a.pressure)
	}
	if a.oom != nil {
		all = append(all, drivers.Only("oom", a.oom.Run))
	}
	if a.cgroups != nil {
		all = append(all, nodeCgroups{a.cgroups, a})
	}
	if a.traces != nil {
		all = append(all, a.traces)
	}
	if a.once != nil {
		all = append(all, a.once)
	}
	all = append(all, a.pluginDrivers()...)
	if a.cluster != nil {
		all = append(all, a.cluster.drivers()...)
		if !simulated(a.cfg) && !a.cfg.Cluster.NoIPTablesChains {
			all = append(all, drivers.Only("iptables", iptables.New(iptables.Options{Log: a.log}).Run))
		}
	}
	return drivers.New(all...)
}

// drivers returns the drivers of cluster mode.
func (c *cluster) drivers() []drivers.Driver {
	all := []drivers.Driver{
		c.node, c.claims, c.health, c.reports.status, c.reports.mirrors, c.reports.events, c.pods,
		drivers.Only("API server", c.contact.Run), drivers.Only("services", c.services.Run),
		drivers.Only("runtime classes", c.classes.Run), drivers.Only("CSI drivers", c.csi.Run),
		drivers.Only("CSI volumes", c.disks.Run), drivers.Only("ResourceSlices", c.slices.Run),
	}
	for _, name := range slices.Sorted(maps.Keys(c.ports)) {
		all = append(all, drivers.Only(name, c.ports[name]))
	}
	if c.identity != nil {
		all = append(all, drivers.Only("client certificate", c.keepIdentity))
	}
	if c.serving != nil {
		all = append(all, drivers.Only("serving certificate", c.serving.Run))
	}
	return all
}

// storing is a driver that sees records and does nothing else.
type storing struct {
	name   string
	stored func(*journaletv1.Record)
}

// Name implements drivers.Driver.
func (s storing) Name() string { return s.name }

// Stored implements drivers.Storer.
func (s storing) Stored(rec *journaletv1.Record) { s.stored(rec) }

// nodeVolumes reports what of the volumes has changed while the agent did not run.
type nodeVolumes struct {
	*volume.Driver
	a *agent
}

// Run implements drivers.Runner.
func (v nodeVolumes) Run(ctx context.Context) error { return v.a.reportDirectories(ctx) }

// nodeCgroups keeps the cgroup tree.
type nodeCgroups struct {
	*cgroup.Tree
	a *agent
}

// Name implements drivers.Driver.
func (nodeCgroups) Name() string { return "cgroups" }

// Run implements drivers.Runner.
func (c nodeCgroups) Run(ctx context.Context) error { return c.a.maintainCgroups(ctx) }
