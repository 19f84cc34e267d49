package persistentvolume

import (
	"context"
	"strings"
	"time"
)

// operation is an operation on a volume, in the kubelet's words (pkg/volume/util/operationexecutor).
type operation string

const (
	// OpMount sets up a volume for a pod.
	OpMount operation = "volume_mount"
	// OpUnmount takes a volume of a pod down.
	OpUnmount       operation = "volume_unmount"
	opUnmountDevice operation = "unmount_device"
	// The same of block devices.
	opMap         operation = "map_volume"
	opUnmap       operation = "unmap_volume"
	opUnmapDevice operation = "unmap_device"
	// opAttached is the wait for the control plane to attach a volume.
	opAttached operation = "verify_controller_attached_volume"
	// opOwn gives the files of a volume to the pod's fsGroup, opExpand expands a volume in use.
	opOwn    operation = "volume_apply_access_control"
	opExpand operation = "volume_fs_resize"
)

// either returns the operation on a block device, or on files.
func either(block bool, device, files operation) operation {
	if block {
		return device
	}
	return files
}

// observe reports an operation on a volume of a driver. An operation that the agent's end or the requester has cut
// short does not count. The driver has registered once: each new name adds a time series for good.
func (v *Volumes) observe(
	ctx context.Context, driver string, what operation, migrated bool, began time.Time, err error,
) {
	if v.opts.Observe != nil && ctx.Err() == nil {
		v.opts.Observe(PluginName(driver), string(what), migrated, v.opts.Clock.Now().Sub(began), err)
	}
}

// observeOf is observe for an operation on the volume of a record.
func (v *Volumes) observeOf(ctx context.Context, r *record, device, files operation, began time.Time, err error) {
	v.observe(ctx, r.Driver, either(r.Block == "true", device, files), r.Migrated == "true", began, err)
}

// observe reports an operation on the volume that is set up.
func (s *setUp) observe(ctx context.Context, what operation, began time.Time, err error) {
	s.Volumes.observe(ctx, s.src.key.driver, what, s.src.migrated, began, err)
}

// PluginName returns the kubelet's name of a volume's plugin, by the name of its CSI driver, or of the directory of its
// kind, such as kubernetes.io~empty-dir.
func PluginName(driver string) string {
	if strings.HasPrefix(driver, "kubernetes.io~") {
		return strings.Replace(driver, "~", "/", 1)
	}
	return "kubernetes.io/csi:" + driver
}
