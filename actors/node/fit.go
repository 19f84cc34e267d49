package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/apparmor"
	"github.com/journalet/journalet/messages/journaletv1"
)

// rejection is why a pod is not admitted, in the kubelet's words (pkg/kubelet/lifecycle: OutOf<resource> for a
// shortage, else the predicate's name).
type rejection struct{ reason, message string }

func failed(predicate, why string) *rejection {
	return &rejection{predicate, fmt.Sprintf("Predicate %s failed: %s", predicate, why)}
}

// cannotRun returns why a pod can never run on this node; nil if it can. Of several reasons it returns the same one
// as the kubelet, which checks the node's free resources before labels, and AppArmor last.
func (a *Actor) cannotRun(pod *corev1.Pod, q *journaletv1.AdmissionRequested) *rejection {
	c, d := a.state.GetConfig(), q.GetDemand()
	if q.GetUnsupported() != "" && !q.GetRuns() {
		return unsupportedFeature(q)
	}
	if r := unsupported(c, pod); r != nil {
		return r
	}
	if r := a.misfit(pod); r != nil {
		return cmp.Or(a.outOfResources(d), r)
	}
	if r := a.untolerated(pod, q); r != nil {
		return cmp.Or(a.noRoom(d), r)
	}
	if r := unconfinable(c, pod); r != nil {
		return cmp.Or(a.noRoom(d), r)
	}
	return nil
}

// unconfinable returns the rejection of a pod with AppArmor profiles on a node without AppArmor; nil for none.
func unconfinable(c *journaletv1.AgentConfig, pod *corev1.Pod) *rejection {
	if pod == nil || c.GetAppArmor() || !apparmor.Required(pod) {
		return nil
	}
	return &rejection{"AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"}
}

// unsupported returns the rejection of a pod that needs what this node does not support, whatever is free; nil for
// none.
func unsupported(c *journaletv1.AgentConfig, pod *corev1.Pod) *rejection {
	if pod == nil {
		return nil
	}
	if why := forbiddenSysctl(c, pod); why != "" {
		return &rejection{"SysctlForbidden", "forbidden sysctl: " + why}
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

// misfit returns why a pod does not belong on this node; nil if it does.
func (a *Actor) misfit(pod *corev1.Pod) *rejection {
	if pod == nil {
		return nil
	}
	c := a.state.GetConfig()
	here := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.GetNodeName(), Labels: a.labels()}}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(here); err != nil || !ok {
		return failed(reasonAffinity, "node(s) didn't match Pod's node affinity/selector")
	}
	if n := pod.Spec.NodeName; n != "" && n != c.GetNodeName() {
		return failed("NodeName", "node(s) didn't match the requested node name")
	}
	return nil
}

// unsupportedFeature returns why a pod is rejected that this version does not carry out, or left alone if it runs
// already (ADR 112).
func unsupportedFeature(q *journaletv1.AdmissionRequested) *rejection {
	message := "this node does not support " + q.GetUnsupported()
	if q.GetRuns() {
		message += ": what runs of the pod is left alone, without probes and restarts"
	}
	return &rejection{actors.ReasonUnsupported, message}
}

// labels returns the labels of the Node object, or the configuration's labels if there is no Node object.
func (a *Actor) labels() map[string]string {
	if a.state.GetNode().GetUid() != "" {
		return a.state.GetNode().GetLabels()
	}
	return a.state.GetConfig().GetNodeLabels()
}

// untolerated returns the rejection of a pod of the API server that does not tolerate a NoExecute taint of the Node;
// nil for none. Pods of other sources tolerate them all, as with the kubelet.
func (a *Actor) untolerated(pod *corev1.Pod, q *journaletv1.AdmissionRequested) *rejection {
	if pod == nil || !q.GetSharesName() {
		return nil
	}
	for _, t := range a.state.GetNode().GetTaints() {
		taint := corev1.Taint{Key: t.GetKey(), Value: t.GetValue(), Effect: corev1.TaintEffect(t.GetEffect())}
		if taint.Effect == corev1.TaintEffectNoExecute &&
			!scheduling.TolerationsTolerateTaint(logr.Discard(), pod.Spec.Tolerations, &taint, true) {
			return failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
		}
	}
	return nil
}

// noRoom returns the rejection of a pod that the node lacks resources or host ports for; nil if the pod fits, at the
// latest when all preempted pods have terminated.
func (a *Actor) noRoom(d *journaletv1.PodDemand) *rejection {
	if r := a.outOfResources(d); r != nil {
		return r
	}
	if !a.portsFree(d) {
		return failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
	}
	return nil
}

// outOfResources returns the rejection of a pod that the node lacks a resource for; nil if the pod fits.
func (a *Actor) outOfResources(d *journaletv1.PodDemand) *rejection {
	used := a.usedAfterVictims()
	return cmp.Or(a.rejectShort(a.shortages(d, used), d, used), a.outOfHugePages(d))
}

func (a *Actor) portsFree(d *journaletv1.PodDemand) bool {
	return !slices.ContainsFunc(d.GetHostPorts(), a.portTaken)
}

// portTaken reports whether a host port ("protocol/ip/port") collides with one in use. An empty ip stands for all
// addresses of the node.
func (a *Actor) portTaken(want string) bool {
	protocol, ip, port := cutPort(want)
	used := a.addresses[protocol+"/"+port]
	return used[ip] || used[""] || ip == "" && len(used) > 0
}

// takePort gives a host port to a pod.
func (a *Actor) takePort(key, uid string) {
	if a.state.HostPorts[key] == "" {
		a.addresses.add(key)
	}
	a.state.HostPorts[key] = uid
}

// freePort frees a host port, if this pod has it.
func (a *Actor) freePort(key, uid string) {
	if a.state.HostPorts[key] != uid {
		return
	}
	delete(a.state.HostPorts, key)
	a.addresses.remove(key)
}

// addresses are the addresses where a port is in use, by "protocol/port". They are derived from NodeState.host_ports,
// and kept so that admission scans neither every port of the node nor every address of a port.
type addresses map[string]map[string]bool

func addressesOf(s *journaletv1.NodeState) addresses {
	x := addresses{}
	for _, key := range slices.Sorted(maps.Keys(s.HostPorts)) {
		x.add(key)
	}
	return x
}

func (x addresses) add(key string) {
	protocol, ip, port := cutPort(key)
	at := protocol + "/" + port
	if x[at] == nil {
		x[at] = map[string]bool{}
	}
	x[at][ip] = true
}

func (x addresses) remove(key string) {
	protocol, ip, port := cutPort(key)
	at := protocol + "/" + port
	delete(x[at], ip)
	if len(x[at]) == 0 {
		delete(x, at)
	}
}

func cutPort(key string) (protocol, ip, port string) {
	protocol, rest, _ := strings.Cut(key, "/")
	cut := strings.LastIndexByte(rest, '/')
	return protocol, rest[:cut], rest[cut+1:]
}

// freed returns the names that a pod waits for and no pod holds.
func (a *Actor) freed() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(a.state.Waiting)) {
		if a.state.Names[name] == "" {
			names = append(names, name)
		}
	}
	return names
}
