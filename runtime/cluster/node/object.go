package node

import (
	"cmp"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"github.com/journalet/journalet/runtime/cluster/features"
)

const (
	// attachAnnotation means that the control plane attaches volumes; a node could not.
	attachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"
	// providedIP is the annotation that passes --node-ip to a cloud controller.
	providedIP = "alpha.kubernetes.io/provided-node-ip"
	// uninitialized is the taint that a cloud controller removes.
	uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	// maxNames bounds the names of one image, as the kubelet does.
	maxNames = 5
)

// Settings are what the configuration and the machine say once.
type Settings struct {
	// Name is the Node's name, Version the agent's.
	Name, Version string
	// Labels are the labels of a newly created Node, beside its default labels; Taints are its taints.
	Labels map[string]string
	Taints []corev1.Taint
	// ProviderID is its spec.providerID. External means that a cloud controller initializes it.
	ProviderID string
	External   bool
	// NodeIPs are the addresses that the flag names, Addresses the addresses that were found or named. ByFamily means
	// that the flag names a family only: the first address found counts until a cloud controller sets one.
	NodeIPs, Addresses []string
	ByFamily           bool
	// MaxImages bounds the images of the status; -1: no bound.
	MaxImages int
	// Port is the port of the server that the API server calls; 0: no server.
	Port int32
	// Machine is what does not change while the machine runs.
	Machine Machine
	// Capacity are the machine's resources, Reserved what pods cannot have of them.
	Capacity, Reserved corev1.ResourceList
}

// Machine identifies a machine and its system.
type Machine struct {
	MachineID, SystemUUID, BootID, KernelVersion, OSImage string
	// Architecture is the machine's architecture, as Go names it; empty: this program's.
	Architecture string
	SwapBytes    int64
	// InUserNamespace means that the agent runs in a user namespace.
	InUserNamespace bool
}

// World is what changes.
type World struct {
	// Runtime is what the container runtime reports.
	Runtime Runtime
	// ShuttingDown means that the machine shuts down.
	ShuttingDown bool
	// Pressure are the conditions of what the node is short of.
	Pressure []string
	// Devices are what device plugins offer, by resource.
	Devices map[string]Devices
	// PodsIncomplete is why pods of this node may be unknown to it, with the remedy; empty: none is.
	PodsIncomplete string
	// NoCSINode means that the CSINode does not exist yet.
	NoCSINode bool
	// VolumesInUse are the volumes that the control plane may not detach, sorted.
	VolumesInUse []string
	// Topology are labels that CSI drivers want on the Node.
	Topology map[string]string
}

// Devices are how many devices of a resource the node has, and how many of these pods may have.
type Devices struct{ Capacity, Allocatable int64 }

// Runtime is what a container runtime reports of itself.
type Runtime struct {
	// Down is why the runtime does not answer, Problem why it is not ready, NetworkProblem why the network of pods is not;
	// empty: it does, or it is.
	Down, Problem, NetworkProblem string
	// Name and Version are such as containerd and v2.4.2.
	Name, Version string
	// Handlers are its runtime handlers by name, Groups reports whether it supports supplementalGroupsPolicy.
	Handlers []corev1.NodeRuntimeHandler
	Groups   bool
	// Images are those on the node, the largest first.
	Images []corev1.ContainerImage
}

// orBefore returns what is known of the runtime. One that does not answer is as it was, but for the problem: its images
// and handlers are still there, and a Node without them would cost a patch now and one afterwards.
func (r Runtime) orBefore(before *Runtime) Runtime {
	if r.Down == "" {
		return r
	}
	out := *before
	out.Down, out.Problem = r.Down, ""
	return out
}

// hasProblem reports whether the runtime or the network of pods is not ready.
func (r *Runtime) hasProblem() bool { return r.Down != "" || r.Problem != "" || r.NetworkProblem != "" }

// initial returns the Node to create.
func initial(s *Settings, w *World, now time.Time) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: s.Name, Labels: defaultLabels(s),
		Annotations: map[string]string{attachAnnotation: "true"},
	}}
	maps.Copy(n.Labels, s.Labels)
	n.Spec.ProviderID = s.ProviderID
	n.Spec.Taints = slices.Clone(s.Taints)
	if s.External {
		n.Spec.Taints = append(n.Spec.Taints,
			corev1.Taint{Key: uninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule})
	}
	setStatus(n, s, w, now)
	return n
}

// defaultLabels returns the labels that are corrected on an existing Node.
func defaultLabels(s *Settings) map[string]string {
	arch := cmp.Or(s.Machine.Architecture, runtime.GOARCH)
	return map[string]string{
		corev1.LabelHostname: s.Name, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: arch,
		kubeletapis.LabelOS: runtime.GOOS, kubeletapis.LabelArch: arch,
	}
}

// correctable are labels that a configured value corrects on an existing Node; other configured labels count only when
// the Node is created.
var correctable = []string{
	corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone,
	corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceTypeStable, corev1.LabelInstanceType,
	corev1.LabelOSStable, corev1.LabelArchStable, kubeletapis.LabelOS, kubeletapis.LabelArch,
}

// takeOver corrects an existing Node. Its taints, its providerID and all other labels stay. ours means that this agent
// has written the Node's status before, and that its journal knows what device plugins offer.
func takeOver(n *corev1.Node, s *Settings, ours bool) {
	labels := defaultLabels(s)
	maps.Copy(labels, s.Labels)
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	for _, name := range correctable {
		if v := labels[name]; v != "" {
			n.Labels[name] = v
		}
	}
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[attachAnnotation] = "true"
	// What another agent offered here is there no longer, until its plugins register with this one; its names stay known.
	// On a Node of ours an operator has patched in such a resource.
	for name := range n.Status.Capacity {
		switch {
		case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) || name == corev1.ResourceEphemeralStorage:
			if _, has := s.Capacity[name]; !has {
				delete(n.Status.Capacity, name)
				delete(n.Status.Allocatable, name)
			}
		case extended(name) && !ours:
			n.Status.Capacity[name] = *resource.NewQuantity(0, resource.DecimalSI)
			n.Status.Allocatable[name] = *resource.NewQuantity(0, resource.DecimalSI)
		}
	}
}

// extended reports whether a resource is one of a device plugin or of an operator.
func extended(name corev1.ResourceName) bool {
	domain, _, found := strings.Cut(string(name), "/")
	return found && !strings.HasSuffix(domain, "kubernetes.io")
}

// setStatus sets what the agent owns of the status, and the annotation for a cloud controller.
func setStatus(n *corev1.Node, s *Settings, w *World, now time.Time) {
	setAddresses(n, s)
	setResources(&n.Status, s)
	setDevices(&n.Status, w)
	m := &s.Machine
	info := &n.Status.NodeInfo
	info.MachineID, info.SystemUUID, info.BootID = m.MachineID, m.SystemUUID, m.BootID
	info.KernelVersion, info.OSImage = m.KernelVersion, m.OSImage
	info.OperatingSystem, info.Architecture = runtime.GOOS, cmp.Or(m.Architecture, runtime.GOARCH)
	info.KubeletVersion = KubeletVersion(s.Version)
	info.ContainerRuntimeVersion = cmp.Or(w.Runtime.Name, "unknown") + "://" +
		cmp.Or(strings.TrimPrefix(w.Runtime.Version, "v"), "Unknown") // the kubelet's form
	info.Swap = nil
	if m.SwapBytes > 0 {
		info.Swap = &corev1.NodeSwapStatus{Capacity: new(m.SwapBytes)}
	}
	info.RunningInUserNamespace = new(m.InUserNamespace)
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = s.Port
	n.Status.RuntimeHandlers = w.Runtime.Handlers
	n.Status.Features = &corev1.NodeFeatures{SupplementalGroupsPolicy: new(w.Runtime.Groups)}
	n.Status.DeclaredFeatures = features.Declared()
	n.Status.Images = images(w.Runtime.Images, s.MaxImages)
	n.Status.VolumesInUse = nil
	for _, name := range w.VolumesInUse {
		n.Status.VolumesInUse = append(n.Status.VolumesInUse, corev1.UniqueVolumeName(name))
	}
	setTopology(n, w.Topology)
	setConditions(&n.Status, w, now)
}

// setTopology sets the labels of CSI drivers' topologies. The labels of a Node are shared, and are copied first.
func setTopology(n *corev1.Node, topology map[string]string) {
	if len(topology) == 0 {
		return
	}
	n.Labels = maps.Clone(n.Labels)
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	maps.Copy(n.Labels, topology)
}

// versionMark is in the version of each Node whose status this agent has written last.
const versionMark = "+journalet."

// KubeletVersion returns the version of a kubelet with ours as build metadata, which version skew policies pass over.
func KubeletVersion(ours string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, strings.TrimPrefix(ours, "v"))
	return features.KubernetesVersion + versionMark + cmp.Or(strings.Trim(clean, ".-"), "dev")
}

func setAddresses(n *corev1.Node, s *Settings) {
	if s.External && len(s.NodeIPs) > 0 {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[providedIP] = strings.Join(s.NodeIPs, ",")
	} else {
		delete(n.Annotations, providedIP)
	}
	if s.External && len(n.Status.Addresses) > 0 {
		return // the cloud controller's
	}
	ips := s.NodeIPs
	if len(ips) == 0 && (!s.External || s.ByFamily) {
		ips = s.Addresses[:min(len(s.Addresses), 1)] // as the kubelet: two addresses are given, not found
	}
	out := make([]corev1.NodeAddress, 0, len(ips)+1)
	for _, ip := range ips {
		if _, err := netip.ParseAddr(ip); err == nil {
			out = append(out, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
		}
	}
	n.Status.Addresses = append(out, corev1.NodeAddress{Type: corev1.NodeHostName, Address: s.Name})
}

// setResources sets capacity and allocatable. It keeps resources of others, such as resources that an operator has
// patched in.
func setResources(st *corev1.NodeStatus, s *Settings) {
	capacity, allocatable := maps.Clone(st.Capacity), maps.Clone(st.Allocatable)
	if capacity == nil {
		capacity = corev1.ResourceList{}
	}
	if allocatable == nil {
		allocatable = corev1.ResourceList{}
	}
	maps.Copy(capacity, s.Capacity)
	for name := range allocatable {
		if _, has := capacity[name]; !has && extended(name) {
			delete(allocatable, name)
		}
	}
	for name, q := range capacity {
		left := q.DeepCopy()
		if reserved, ok := s.Reserved[name]; ok {
			left.Sub(reserved)
		}
		if left.Sign() < 0 {
			left.Set(0)
		}
		allocatable[name] = left
	}
	memory := allocatable[corev1.ResourceMemory]
	for name, q := range capacity {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			memory.Sub(q)
		}
	}
	if memory.Sign() < 0 {
		memory.Set(0)
	}
	allocatable[corev1.ResourceMemory] = memory
	st.Capacity, st.Allocatable = capacity, allocatable
}

// setDevices sets what device plugins offer.
func setDevices(st *corev1.NodeStatus, w *World) {
	for name, d := range w.Devices {
		st.Capacity[corev1.ResourceName(name)] = *resource.NewQuantity(d.Capacity, resource.DecimalSI)
		st.Allocatable[corev1.ResourceName(name)] = *resource.NewQuantity(d.Allocatable, resource.DecimalSI)
	}
}

// images returns the largest images, with few names each.
func images(all []corev1.ContainerImage, most int) []corev1.ContainerImage {
	if most >= 0 && len(all) > most {
		all = all[:most]
	}
	out := make([]corev1.ContainerImage, 0, len(all))
	for _, i := range all {
		i.Names = i.Names[:min(len(i.Names), maxNames)]
		out = append(out, i)
	}
	return out
}

// pressures are the conditions of what a node may be short of, with the kubelet's reasons and messages.
var pressures = []struct {
	kind                                               corev1.NodeConditionType
	short, shortMessage, sufficient, sufficientMessage string
}{
	{corev1.NodeMemoryPressure, "KubeletHasInsufficientMemory", "kubelet has insufficient memory available",
		"KubeletHasSufficientMemory", "kubelet has sufficient memory available"},
	{corev1.NodeDiskPressure, "KubeletHasDiskPressure", "kubelet has disk pressure",
		"KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
	{corev1.NodePIDPressure, "KubeletHasInsufficientPID", "kubelet has insufficient PID available",
		"KubeletHasSufficientPID", "kubelet has sufficient PID available"},
}

// setConditions sets the conditions that the agent owns. Ready is the last one.
func setConditions(st *corev1.NodeStatus, w *World, now time.Time) {
	set := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) {
		c := corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, Message: message,
			LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
		}
		i := slices.IndexFunc(st.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
		if i < 0 {
			st.Conditions = append(st.Conditions, c)
			return
		}
		if old := st.Conditions[i]; old.Status == status {
			c.LastTransitionTime = old.LastTransitionTime
			if old.Reason == reason && old.Message == message {
				c.LastHeartbeatTime = old.LastHeartbeatTime
			}
		}
		st.Conditions[i] = c
	}
	st.Conditions = slices.Clone(st.Conditions)
	for _, p := range pressures {
		if slices.Contains(w.Pressure, string(p.kind)) {
			set(p.kind, corev1.ConditionTrue, p.short, p.shortMessage)
		} else {
			set(p.kind, corev1.ConditionFalse, p.sufficient, p.sufficientMessage)
		}
	}
	if problems := notReady(w); len(problems) > 0 {
		message := problems[0]
		if len(problems) > 1 {
			message = "[" + strings.Join(problems, ", ") + "]"
		}
		set(corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady", message)
		return
	}
	message := "kubelet is posting ready status"
	if w.PodsIncomplete != "" {
		// No reason of not Ready: the node controller would evict everybody for an object of one (ADR 074). This is the
		// kubelet's form for what a node can do without.
		message += ". WARNING: " + w.PodsIncomplete
	}
	set(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", message)
}

// notReady returns why the node is not ready.
func notReady(w *World) []string {
	var out []string
	if w.Runtime.Down != "" {
		out = append(out, "container runtime is down: "+w.Runtime.Down)
	}
	if w.Runtime.Problem != "" {
		out = append(out, "container runtime not ready: "+w.Runtime.Problem)
	}
	if w.Runtime.NetworkProblem != "" {
		out = append(out, "container runtime network not ready: "+w.Runtime.NetworkProblem)
	}
	if w.NoCSINode {
		out = append(out, "CSINode is not yet initialized")
	}
	if w.ShuttingDown {
		out = append(out, "node is shutting down")
	}
	return out
}

// heartbeat sets the heartbeat of the conditions that the agent owns.
func heartbeat(st *corev1.NodeStatus, now time.Time) {
	for i := range st.Conditions {
		switch st.Conditions[i].Type {
		case corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady:
			st.Conditions[i].LastHeartbeatTime = metav1.NewTime(now)
		default: // of others, such as NetworkUnavailable
		}
	}
}
