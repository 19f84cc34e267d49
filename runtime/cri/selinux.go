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

// relabels reports whether the runtime is to give the files of a volume the pod's SELinux label: where the node has
// SELinux, those of every volume that the agent sets up itself. Those of a hostPath are the node's.
func (d *Driver) relabels(v *corev1.Volume) bool { return d.opts.SELinux && v.HostPath == nil }
