package volume

import (
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/references"
)

// The kubelet's names of the directories below which the volumes of a kind are.
const (
	emptyDirPlugin  = "kubernetes.io~empty-dir"
	configMapPlugin = "kubernetes.io~configmap"
	secretPlugin    = "kubernetes.io~secret"
	downwardPlugin  = "kubernetes.io~downward-api"
	projectedPlugin = "kubernetes.io~projected"
	csiPlugin       = "kubernetes.io~csi"
	nfsPlugin       = "kubernetes.io~nfs"
)

var plugins = []string{emptyDirPlugin, configMapPlugin, secretPlugin, downwardPlugin, projectedPlugin}

// supportedKinds is for errors.
const supportedKinds = "configMap, downwardAPI, emptyDir, hostPath, image, nfs, projected or secret"

// Path returns the path of a pod's volume on the host. It does not check that SetUp was called. An image volume has
// none: the runtime mounts it.
func (d *Driver) Path(pod *corev1.Pod, volumeName string) (string, error) {
	v := find(pod, volumeName)
	if v == nil {
		return "", fmt.Errorf("the pod has no volume %q", volumeName)
	}
	if v.HostPath != nil {
		return v.HostPath.Path, nil
	}
	if references.IsCSI(v) && d.opts.CSI != nil {
		return d.opts.CSI.Path(string(pod.UID), volumeName)
	}
	plugin := pluginOf(v)
	if plugin == "" {
		return "", unsupported(volumeName)
	}
	if err := checkNames(string(pod.UID), v.Name); err != nil {
		return "", err
	}
	return filepath.Join(d.PodDir(string(pod.UID)), volumePath(plugin, v.Name)), nil
}

// Relabels reports whether the files of a pod's volume may get the pod's SELinux label: not files of the node, and not
// files of an NFS server. kubelet: the same.
func (d *Driver) Relabels(pod *corev1.Pod, volumeName string) bool {
	v := find(pod, volumeName)
	switch {
	case v == nil, v.HostPath != nil, v.NFS != nil:
		return false
	case references.IsCSI(v) && d.opts.CSI != nil:
		return d.opts.CSI.Relabels(string(pod.UID), volumeName)
	}
	return true
}

// volumePath returns the path of a volume below its pod's directory.
func volumePath(plugin, name string) string { return filepath.Join(volumesDir, plugin, name) }

// pluginOf returns the directory of a volume's kind; "" if the volume has no directory of the agent's.
func pluginOf(v *corev1.Volume) string {
	switch {
	case v.EmptyDir != nil:
		return emptyDirPlugin
	case v.ConfigMap != nil:
		return configMapPlugin
	case v.Secret != nil:
		return secretPlugin
	case v.DownwardAPI != nil:
		return downwardPlugin
	case v.Projected != nil:
		return projectedPlugin
	case v.NFS != nil:
		return nfsPlugin
	}
	return ""
}

func find(pod *corev1.Pod, name string) *corev1.Volume {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return &pod.Spec.Volumes[i]
		}
	}
	return nil
}
