package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestASysctlThatReachesBeyondItsPodIsForbidden(t *testing.T) {
	for _, c := range []struct {
		sysctl           string
		hostNet, hostIPC bool
		forbidden        bool
	}{
		{sysctl: "net.ipv4.tcp_syncookies"},
		{sysctl: "net/ipv4/tcp_syncookies"},
		{sysctl: "net.ipv4.tcp_syncookies", hostNet: true, forbidden: true},
		{sysctl: "kernel.shm_rmid_forced", hostIPC: true, forbidden: true},
		{sysctl: "kernel.msgmax", forbidden: true},
		{sysctl: "vm.swappiness", forbidden: true},
	} {
		p := &corev1.Pod{}
		p.Spec.HostNetwork, p.Spec.HostIPC = c.hostNet, c.hostIPC
		p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: c.sysctl, Value: "1"}}}
		r := misfit(nil, p)
		if got := r != nil && r.reason == "SysctlForbidden"; got != c.forbidden {
			t.Errorf("%+v: rejection %+v", c, r)
		}
	}
}
