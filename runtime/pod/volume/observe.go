package volume

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/runtime/persistentvolume"
)

// PluginName returns the kubelet's name of a volume's plugin. The plugin of a claim is its PersistentVolume's, which a
// manifest does not have: N/A, as the kubelet has it of a plugin that is not known.
func PluginName(v *corev1.Volume) string {
	switch {
	case v.CSI != nil, references.IsMigrated(v):
		return persistentvolume.PluginName(persistentvolume.DriverOf(v))
	case v.HostPath != nil:
		return "kubernetes.io/host-path"
	case v.Image != nil:
		return "kubernetes.io/image"
	}
	if dir := pluginOf(v); dir != "" {
		return persistentvolume.PluginName(dir)
	}
	return "N/A"
}

// observe reports an operation on a volume. An operation that the agent's end or its requester has cut short does not
// count.
func (d *Driver) observe(ctx context.Context, plugin, operation string, took time.Duration, err error) {
	if d.opts.Observe != nil && ctx.Err() == nil {
		d.opts.Observe(plugin, operation, took, err)
	}
}
