package cri

import (
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func selinuxOptions(o *corev1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if o == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

// relabels reports whether the runtime is to give the files of a volume the pod's SELinux label: if the node has
// SELinux, the files of every volume that is neither the node's nor an NFS server's.
func (d *Driver) relabels(pod *corev1.Pod, v *corev1.Volume) bool {
	return d.opts.Security.SELinux && d.opts.Volumes.Relabels(pod, v.Name)
}
