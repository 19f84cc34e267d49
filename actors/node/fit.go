package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/journalet/journalet/messages/journaletv1"
)

// rejection is why a pod is not admitted, in the kubelet's words
// (pkg/kubelet/lifecycle: a lack of resources is OutOf<resource>, else the predicate's name).
type rejection struct{ reason, message string }

func failed(predicate, why string) *rejection {
	return &rejection{predicate, fmt.Sprintf("Predicate %s failed: %s", predicate, why)}
}

// never tells why a pod can never run on this node; nil if it can. Of several reasons it gives the one that the kubelet
// gives, which looks at what is left of the node before it looks at labels.
func (a *Actor) never(pod *corev1.Pod, d *journaletv1.PodDemand) *rejection {
	c := a.state.GetConfig()
	if r := unsupported(pod); r != nil {
		return r
	}
	r := misfit(c, pod)
	if r == nil {
		return nil
	}
	if short := a.lack(d); short != nil {
		return short
	}
	return r
}

// unsupported tells what a pod asks for that no node of this kind gives; nil if nothing.
func unsupported(pod *corev1.Pod) *rejection {
	if pod == nil {
		return nil
	}
	if name := unsafeSysctl(pod); name != "" {
		return &rejection{"SysctlForbidden", fmt.Sprintf("forbidden sysctl: %q not allowlisted", name)}
	}
	if system, named := pod.Labels[corev1.LabelOSStable]; named && system != string(corev1.Linux) {
		return &rejection{"PodOSSelectorNodeLabelDoesNotMatch",
			"Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}
	}
	if pod.Spec.OS != nil && pod.Spec.OS.Name != corev1.Linux {
		return &rejection{"PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"}
	}
	return nil
}

// misfit tells why a pod does not belong on a node with this configuration; nil if it does.
func misfit(c *journaletv1.AgentConfig, pod *corev1.Pod) *rejection {
	if pod == nil {
		return nil
	}
	here := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.GetNodeName(), Labels: c.GetNodeLabels()}}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(here); err != nil || !ok {
		return failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
	}
	if n := pod.Spec.NodeName; n != "" && n != c.GetNodeName() {
		return failed("NodeName", "node(s) didn't match the requested node name")
	}
	return nil
}

// safeSysctls are those that reach no further than their pod (kubelet: SafeSysctlAllowlist, for
// kernels that have them in a namespace). No other is allowed: there is no setting to allow one yet.
var safeSysctls = []string{
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
	"net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
}

// unsafeSysctl is the first sysctl of a pod that would reach beyond it, "" for none: one that is not
// on the list, or one of a namespace that the pod shares with the node.
func unsafeSysctl(pod *corev1.Pod) string {
	if pod.Spec.SecurityContext == nil {
		return ""
	}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		name := strings.ReplaceAll(s.Name, "/", ".")
		if !slices.Contains(safeSysctls, name) ||
			pod.Spec.HostNetwork && strings.HasPrefix(name, "net.") || pod.Spec.HostIPC && strings.HasPrefix(name, "kernel.shm") {
			return s.Name
		}
	}
	return ""
}

// shortage tells what the node has too little of for one more pod, or which of its ports is taken; nil if it fits, at the
// latest when those have ended that end for others.
func (a *Actor) shortage(d *journaletv1.PodDemand) *rejection {
	if r := a.lack(d); r != nil {
		return r
	}
	if !a.portsFree(d) {
		return failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
	}
	return nil
}

// lack tells which resource the node has too little of for one more pod; nil if it fits.
func (a *Actor) lack(d *journaletv1.PodDemand) *rejection {
	used := a.usedAfter()
	return a.outOf(a.lacks(d, used), d, used)
}

func (a *Actor) portsFree(d *journaletv1.PodDemand) bool {
	return !slices.ContainsFunc(d.GetHostPorts(), a.portTaken)
}

// portTaken tells whether a host port ("protocol/ip/port") collides with one in use: an empty ip
// stands for all of the node's.
func (a *Actor) portTaken(want string) bool {
	protocol, ip, port := cutPort(want)
	return slices.ContainsFunc(a.ips[protocol+"/"+port], func(i string) bool { return i == ip || i == "" || ip == "" })
}

// takePort gives a host port to a pod.
func (a *Actor) takePort(key, uid string) {
	if a.state.HostPorts[key] == "" {
		a.ips.add(key)
	}
	a.state.HostPorts[key] = uid
}

// freePort takes a host port from a pod, if that has it.
func (a *Actor) freePort(key, uid string) {
	if a.state.HostPorts[key] != uid {
		return
	}
	delete(a.state.HostPorts, key)
	a.ips.remove(key)
}

// addresses are the addresses on which a port is in use, by "protocol/port". They follow from NodeState.host_ports, and
// are kept so that admission does not look at every port of the node.
type addresses map[string][]string

func addressesOf(s *journaletv1.NodeState) addresses {
	x := addresses{}
	for _, key := range slices.Sorted(maps.Keys(s.HostPorts)) {
		x.add(key)
	}
	return x
}

func (x addresses) add(key string) {
	protocol, ip, port := cutPort(key)
	x[protocol+"/"+port] = append(x[protocol+"/"+port], ip)
}

func (x addresses) remove(key string) {
	protocol, ip, port := cutPort(key)
	at := protocol + "/" + port
	x[at] = slices.DeleteFunc(x[at], func(i string) bool { return i == ip })
	if len(x[at]) == 0 {
		delete(x, at)
	}
}

func cutPort(key string) (protocol, ip, port string) {
	protocol, rest, _ := strings.Cut(key, "/")
	cut := strings.LastIndexByte(rest, '/')
	return protocol, rest[:cut], rest[cut+1:]
}

// freed lists the names that somebody waits for and nobody holds.
func (a *Actor) freed() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(a.state.Waiting)) {
		if a.state.Names[name] == "" {
			names = append(names, name)
		}
	}
	return names
}
