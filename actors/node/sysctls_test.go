package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

func TestSysctlBeyondPodIsForbidden(t *testing.T) {
	newest := &journaletv1.KernelVersion{Major: 6}
	kernel := func(major, minor uint32) *journaletv1.KernelVersion {
		return &journaletv1.KernelVersion{Major: major, Minor: minor}
	}
	for _, c := range []struct {
		sysctl                    string
		kernel                    *journaletv1.KernelVersion
		allowed                   []string
		hostNet, hostIPC, ownUser bool
		forbidden                 string
	}{
		{sysctl: "net.ipv4.tcp_syncookies"},
		{sysctl: "net/ipv4/tcp_syncookies"},
		{sysctl: "net/ipv4/tcp_syncookies", hostNet: true,
			forbidden: `forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled`},
		{sysctl: "kernel.shm_rmid_forced", hostIPC: true,
			forbidden: `forbidden sysctl: "kernel.shm_rmid_forced" not allowed with host IPC enabled`},
		{sysctl: "kernel.msgmax", forbidden: `forbidden sysctl: "kernel.msgmax" not allowlisted`},
		{sysctl: "vm/swappiness", kernel: newest, forbidden: `forbidden sysctl: "vm.swappiness" not allowlisted`},

		// By the version of the kernel. A kernel whose version is not recorded has the list from before versions were
		// recorded.
		{sysctl: "net.ipv4.tcp_rmem"},
		{sysctl: "net.ipv4.tcp_rmem", kernel: newest},
		{sysctl: "net.ipv4.tcp_rmem", kernel: kernel(4, 15)},
		{sysctl: "net.ipv4.tcp_rmem", kernel: kernel(4, 14),
			forbidden: `forbidden sysctl: "net.ipv4.tcp_rmem" not allowlisted`},
		{sysctl: "net.ipv4.tcp_rmem", kernel: kernel(3, 16),
			forbidden: `forbidden sysctl: "net.ipv4.tcp_rmem" not allowlisted`},
		{sysctl: "net.ipv4.tcp_rmem", kernel: kernel(3, 16), allowed: []string{"net.ipv4.tcp_rmem"}},
		{sysctl: "net.ipv4.tcp_slow_start_after_idle",
			forbidden: `forbidden sysctl: "net.ipv4.tcp_slow_start_after_idle" not allowlisted`},
		{sysctl: "net.ipv4.tcp_slow_start_after_idle", kernel: kernel(4, 15)},
		{sysctl: "net.ipv4.tcp_notsent_lowat", kernel: kernel(4, 6)},

		// What the node allows besides.
		{sysctl: "net.core.somaxconn", allowed: []string{"kernel.msg*", "net.core.*"}},
		{sysctl: "net/core/somaxconn", allowed: []string{"net/core/*"}},
		{sysctl: "net.core.somaxconn", allowed: []string{"net.core.somaxconn"}},
		{sysctl: "net.core.somaxconn2", allowed: []string{"net.core.somaxconn"},
			forbidden: `forbidden sysctl: "net.core.somaxconn2" not allowlisted`},
		{sysctl: "net.corex", allowed: []string{"net.core.*"}, forbidden: `forbidden sysctl: "net.corex" not allowlisted`},
		{sysctl: "net.core.somaxconn", allowed: []string{"net.core.*"}, hostNet: true,
			forbidden: `forbidden sysctl: "net.core.somaxconn" not allowed with host Net enabled`},
		{sysctl: "kernel.shm_next_id", allowed: []string{"kernel.shm*"}},
		{sysctl: "kernel.shm_next_id", allowed: []string{"kernel.shm*"}, hostIPC: true,
			forbidden: `forbidden sysctl: "kernel.shm_next_id" not allowed with host IPC enabled`},
		{sysctl: "kernel.domainname", allowed: []string{"kernel.domainname"}, hostNet: true, hostIPC: true},
		{sysctl: "user.max_net_namespaces", allowed: []string{"user.*"}, ownUser: true},
		{sysctl: "user.max_net_namespaces", allowed: []string{"user.*"},
			forbidden: `forbidden sysctl: "user.max_net_namespaces" not allowed with host User enabled`},
	} {
		p := &corev1.Pod{}
		p.Spec.HostNetwork, p.Spec.HostIPC = c.hostNet, c.hostIPC
		if c.ownUser {
			p.Spec.HostUsers = new(bool)
		}
		p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: c.sysctl, Value: "1"}}}
		r := unsupported(&journaletv1.AgentConfig{Kernel: c.kernel, AllowedUnsafeSysctls: c.allowed}, p)
		if r == nil {
			r = &rejection{}
		} else if r.reason != "SysctlForbidden" {
			t.Errorf("%+v: reason %s", c, r.reason)
		}
		if r.message != c.forbidden {
			t.Errorf("%+v: %q", c, r.message)
		}
	}
}
