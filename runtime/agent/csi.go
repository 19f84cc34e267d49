package agent

import (
	"context"
	"path/filepath"

	"github.com/opencontainers/selinux/go-selinux"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/persistentvolume"
	"github.com/journalet/journalet/runtime/plugins"
	"github.com/journalet/journalet/runtime/pod/volume"
)

// newCSI creates what sets up volumes of CSI drivers; nil without a cluster, which keeps their objects.
func (a *agent) newCSI() (volume.CSI, error) {
	if a.cluster == nil {
		return nil, nil
	}
	root, err := filepath.EvalSymlinks(a.absoluteRoot())
	if err != nil {
		return nil, err
	}
	c := a.cluster
	c.csi = persistentvolume.NewDrivers(persistentvolume.DriverOptions{
		NewConn: plugins.NewConn, Log: a.log, Registered: c.node.SetCSIDriver,
		Updated: c.node.SetCSIAllocatable, Periods: persistentvolume.PeriodsOf(c.client, a.log),
		Gone: func(ctx context.Context, name string) {
			if err := c.node.RemoveCSIDriver(ctx, name); err != nil {
				a.log.Warn("a CSI driver that has gone is still in the CSINode", "driver", name, "error", client.Message(err))
			}
		},
	})
	var seLinux func(*corev1.SELinuxOptions) (string, error)
	if selinux.GetEnabled() {
		seLinux = persistentvolume.FileLabel
	}
	c.disks, err = persistentvolume.New(persistentvolume.Options{
		RootDir: root, NodeName: a.facts.NodeName, BootID: a.facts.BootID, Drivers: c.csi,
		Objects: persistentvolume.FromAPI(c.client), Node: c.node, Pod: a.apiObject, Event: c.reports.events.EmitObject,
		Clock: clock.Real{}, Log: a.log, SELinux: seLinux,
		Observe: a.metrics.StorageOperation,
	})
	return c.disks, err
}

// csiPlugins returns what uses CSI drivers.
func (a *agent) csiPlugins() plugins.Handler {
	if a.cluster == nil {
		return plugins.Refuse(noCSI)
	}
	return csiPlugins{a.cluster.csi}
}

// csiPlugins registers CSI drivers that the watcher of plugins finds. It implements plugins.Handler.
type csiPlugins struct{ drivers *persistentvolume.Drivers }

// Validate returns why a driver cannot be used.
func (c csiPlugins) Validate(p plugins.Plugin) error { return c.drivers.Validate(p.Name, p.Versions) }

// Register begins to use a driver.
func (c csiPlugins) Register(ctx context.Context, p plugins.Plugin) error {
	return c.drivers.Register(ctx, p.Name, p.Endpoint)
}

// Deregister ends the use of a driver.
func (c csiPlugins) Deregister(p plugins.Plugin) { c.drivers.Deregister(p.Name, p.Endpoint) }
