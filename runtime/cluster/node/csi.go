package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/csi-translation-lib/plugins"
)

// maxDrivers bounds the CSI drivers of a node.
const maxDrivers = 128

// SetVolumesInUse sets the volumes that the control plane may not detach, sorted, and has them written at once: a
// heartbeat would come up to 10 s later.
func (d *Driver) SetVolumesInUse(names []string) {
	d.change(func() { d.world.VolumesInUse, d.urgent = names, true })
}

// SetCSIDriver adds a driver to the CSINode, or replaces it, and its topology to the labels of the Node.
func (d *Driver) SetCSIDriver(ctx context.Context, driver storagev1.CSINodeDriver, topology map[string]string) error {
	n := d.Node()
	for k, value := range topology {
		if n != nil && n.Labels[k] != "" && n.Labels[k] != value {
			return fmt.Errorf("the Node has the label %s=%s, and CSI driver %s says %s; remove the label, or correct the driver",
				k, n.Labels[k], driver.Name, value)
		}
	}
	if err := d.updateCSINode(ctx, func(all []storagev1.CSINodeDriver) ([]storagev1.CSINodeDriver, error) {
		i := slices.IndexFunc(all, func(x storagev1.CSINodeDriver) bool { return x.Name == driver.Name })
		switch {
		case i >= 0:
			all[i] = driver
		case len(all) >= maxDrivers:
			return nil, fmt.Errorf("CSI driver %s is one too many: a node has at most %d", driver.Name, maxDrivers)
		default:
			all = append(all, driver)
		}
		return all, nil
	}); err != nil {
		return err
	}
	if len(topology) > 0 {
		d.change(func() {
			d.world.Topology = maps.Clone(d.world.Topology)
			if d.world.Topology == nil {
				d.world.Topology = map[string]string{}
			}
			maps.Copy(d.world.Topology, topology)
			d.urgent = true
		})
	}
	return nil
}

// SetCSIAllocatable sets how many volumes a driver of the CSINode can have on this node; nil: it has no limit. A driver
// that has gone from there stays gone.
func (d *Driver) SetCSIAllocatable(ctx context.Context, name string, now *storagev1.VolumeNodeResources) error {
	return d.updateCSINode(ctx, func(all []storagev1.CSINodeDriver) ([]storagev1.CSINodeDriver, error) {
		if i := slices.IndexFunc(all, func(x storagev1.CSINodeDriver) bool { return x.Name == name }); i >= 0 {
			all[i].Allocatable = now
		}
		return all, nil
	})
}

// RemoveCSIDriver removes a driver from the CSINode.
func (d *Driver) RemoveCSIDriver(ctx context.Context, name string) error {
	return d.updateCSINode(ctx, func(all []storagev1.CSINodeDriver) ([]storagev1.CSINodeDriver, error) {
		return slices.DeleteFunc(all, func(x storagev1.CSINodeDriver) bool { return x.Name == name }), nil
	})
}

// csiNodeWait bounds how long a driver waits for the CSINode. It is created within a second of a Node's first status; a
// driver that is refused meanwhile ends its registrar.
const csiNodeWait = 10 * time.Second

// csiNode reads the CSINode. One that the agent is about to create is waited for.
func (d *Driver) csiNode(ctx context.Context) (*storagev1.CSINode, error) {
	n, err := d.requests().CSINode(ctx)
	if !apierrors.IsNotFound(err) {
		return n, err
	}
	wait, cancel := context.WithTimeout(ctx, csiNodeWait)
	defer cancel()
	select {
	case <-wait.Done():
		return nil, err
	case <-d.hasCSINode:
		return d.requests().CSINode(ctx)
	}
}

// migratedPlugins are the kinds of volumes of clouds that this node leaves to CSI drivers, for the annotation of the
// CSINode: only then do the attach controller and the scheduler. kubelet: all of them (pkg/volume/csi/csi_plugin.go).
var migratedPlugins = []string{
	plugins.AWSEBSInTreePluginName, plugins.AzureDiskInTreePluginName, plugins.AzureFileInTreePluginName,
	plugins.CinderInTreePluginName, plugins.GCEPDInTreePluginName, plugins.PortworxVolumePluginName,
	plugins.VSphereInTreePluginName,
}

// setMigrated writes the annotation, and reports whether it was another one. kubelet: by the set, too.
func setMigrated(n *storagev1.CSINode) bool {
	had := strings.Split(n.Annotations[corev1.MigratedPluginsAnnotationKey], ",")
	slices.Sort(had)
	want := slices.Sorted(slices.Values(migratedPlugins))
	if slices.Equal(slices.Compact(had), want) {
		return false
	}
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[corev1.MigratedPluginsAnnotationKey] = strings.Join(want, ",")
	return true
}

// updateCSINode changes the drivers of the CSINode. Drivers of before the start of the agent stay: they register again.
func (d *Driver) updateCSINode(
	ctx context.Context, change func([]storagev1.CSINodeDriver) ([]storagev1.CSINodeDriver, error),
) error {
	var err error
	for range statusTries {
		var n *storagev1.CSINode
		if n, err = d.csiNode(ctx); err != nil {
			return fmt.Errorf("read the CSINode: %w", err)
		}
		now := n.DeepCopy()
		if now.Spec.Drivers, err = change(now.Spec.Drivers); err != nil {
			return err
		}
		if !setMigrated(now) && equality.Semantic.DeepEqual(n.Spec.Drivers, now.Spec.Drivers) {
			return nil
		}
		if _, err = d.requests().UpdateCSINode(ctx, now); !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("update the CSINode: %w", err)
	}
	return nil
}
