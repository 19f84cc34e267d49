package node

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/util/sysctl"

	"github.com/journalet/journalet/messages/journaletv1"
)

// safeSysctl is a sysctl that affects only its pod: each network or IPC namespace has a value of its own.
type safeSysctl struct {
	name string
	// major and minor are the first kernel version where that is so.
	major, minor uint32
	// recorded: it needs the recorded version of the kernel. Without one, all others are safe, as they were decided before
	// it was recorded.
	recorded bool
}

// safeSysctls is the kubelet's list with its kernel versions (pkg/kubelet/sysctl/safe_sysctls.go, pkg/util/kernel).
var safeSysctls = []safeSysctl{
	{name: "kernel.shm_rmid_forced"}, {name: "net.ipv4.ip_local_port_range"}, {name: "net.ipv4.tcp_syncookies"},
	{name: "net.ipv4.ping_group_range"}, {name: "net.ipv4.ip_unprivileged_port_start"},
	{name: "net.ipv4.ip_local_reserved_ports", major: 3, minor: 16},
	{name: "net.ipv4.tcp_keepalive_time", major: 4, minor: 5},
	{name: "net.ipv4.tcp_fin_timeout", major: 4, minor: 6},
	{name: "net.ipv4.tcp_keepalive_intvl", major: 4, minor: 5},
	{name: "net.ipv4.tcp_keepalive_probes", major: 4, minor: 5},
	{name: "net.ipv4.tcp_rmem", major: 4, minor: 15}, {name: "net.ipv4.tcp_wmem", major: 4, minor: 15},
	{name: "net.ipv4.tcp_slow_start_after_idle", major: 4, minor: 15, recorded: true},
	{name: "net.ipv4.tcp_notsent_lowat", major: 4, minor: 6, recorded: true},
}

// in reports whether the sysctl is safe with a kernel; nil: its version is not recorded.
func (s safeSysctl) in(kernel *journaletv1.KernelVersion) bool {
	if kernel == nil {
		return !s.recorded
	}
	return kernel.GetMajor() > s.major || kernel.GetMajor() == s.major && kernel.GetMinor() >= s.minor
}

// forbiddenSysctl returns why a pod must not set one of its sysctls, the first of them; "" if it may set all.
func forbiddenSysctl(c *journaletv1.AgentConfig, pod *corev1.Pod) string {
	if pod.Spec.SecurityContext == nil {
		return ""
	}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		name := sysctl.NormalizeName(s.Name)
		in, allowed := namespaceOf(c, name)
		if !allowed {
			return fmt.Sprintf("%q not allowlisted", name)
		}
		if sharedWithHost(pod, in) {
			return fmt.Sprintf("%q not allowed with host %s enabled", name, in)
		}
	}
	return ""
}

// namespaceOf returns the namespace that a sysctl belongs to, and whether pods with a namespace of their own may set
// it: the sysctl is safe, or the node allows it, by its name or by a pattern that ends in an asterisk.
func namespaceOf(c *journaletv1.AgentConfig, name string) (in sysctl.Namespace, allowed bool) {
	for _, s := range safeSysctls {
		if s.name == name && s.in(c.GetKernel()) {
			in, _, _ = sysctl.GetNamespace(name)
			return in, true
		}
	}
	for _, pattern := range c.GetAllowedUnsafeSysctls() {
		in, start, open := sysctl.GetNamespace(pattern)
		if start == name || open && strings.HasPrefix(name, start) {
			return in, true
		}
	}
	return sysctl.UnknownNamespace, false
}

// sharedWithHost reports whether a pod shares a namespace of sysctls with the host.
func sharedWithHost(pod *corev1.Pod, in sysctl.Namespace) bool {
	switch in {
	case sysctl.NetNamespace:
		return pod.Spec.HostNetwork
	case sysctl.IPCNamespace:
		return pod.Spec.HostIPC
	case sysctl.UserNamespace:
		return pod.Spec.HostUsers == nil || *pod.Spec.HostUsers
	case sysctl.UTSNamespace, sysctl.UnknownNamespace: // the kubelet compares no other namespace
	}
	return false
}
