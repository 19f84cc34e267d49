package podstatus

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/utils/net"
)

// Input is what the status of a pod at the API server follows from.
type Input struct {
	// View is the pod as its actor shows it. It is not changed.
	View *corev1.Pod
	// Is is the newest status of the API server. It is not changed.
	Is *corev1.PodStatus
	// MayRun: a container of the pod runs, or may start again.
	MayRun bool
	// Now is for what has no time of its own.
	Now metav1.Time
}

// owned are the types of conditions that a node agent alone writes (the kubelet's list).
var owned = map[corev1.PodConditionType]bool{
	corev1.PodScheduled: true, corev1.PodReady: true, corev1.PodInitialized: true, corev1.ContainersReady: true,
	corev1.PodResizeInProgress: true, corev1.PodResizePending: true, corev1.PodReadyToStartContainers: true,
	corev1.AllContainersRestarting: true,
}

// Merge returns the status that the API server is to have: the pod's own in what a node agent owns, the API server's in
// the rest. A terminal phase is never left, and comes only when no container can run.
func Merge(in Input) *corev1.PodStatus {
	to := in.View.Status.DeepCopy()
	normalize(to)
	mayRevive := in.MayRun && !terminal(in.Is.Phase)
	keepEnded(in.View, in.Is.InitContainerStatuses, to.InitContainerStatuses, mayRevive)
	keepEnded(in.View, in.Is.ContainerStatuses, to.ContainerStatuses, mayRevive)
	keepEnded(in.View, in.Is.EphemeralContainerStatuses, to.EphemeralContainerStatuses, false)
	if !in.MayRun {
		end(&in.View.Spec, to)
	}
	becomesTerminal := !terminal(in.Is.Phase) && terminal(to.Phase)
	to.Conditions = conditions(in, to.Conditions, becomesTerminal)
	switch {
	case terminal(in.Is.Phase) && to.Phase != in.Is.Phase, becomesTerminal && in.MayRun:
		to.Phase, to.Reason, to.Message = in.Is.Phase, in.Is.Reason, in.Is.Message
	case terminal(in.Is.Phase):
		to.Reason, to.Message = cmp.Or(to.Reason, in.Is.Reason), cmp.Or(to.Message, in.Is.Message)
	}
	if terminal(to.Phase) {
		unready(to, in.Now)
	}
	keep(in, to)
	addresses(in, to)
	return to
}

func terminal(p corev1.PodPhase) bool { return p == corev1.PodSucceeded || p == corev1.PodFailed }

// normalize rounds times to what the API server keeps, seconds, and sorts main containers by name, as the kubelet.
func normalize(s *corev1.PodStatus) {
	if s.StartTime != nil {
		at := s.StartTime.Rfc3339Copy()
		s.StartTime = &at
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		c.LastProbeTime, c.LastTransitionTime = c.LastProbeTime.Rfc3339Copy(), c.LastTransitionTime.Rfc3339Copy()
	}
	for _, list := range [][]corev1.ContainerStatus{
		s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses,
	} {
		for i := range list {
			for _, state := range []*corev1.ContainerState{&list[i].State, &list[i].LastTerminationState} {
				if r := state.Running; r != nil {
					r.StartedAt = r.StartedAt.Rfc3339Copy()
				}
				if t := state.Terminated; t != nil {
					t.StartedAt, t.FinishedAt = t.StartedAt.Rfc3339Copy(), t.FinishedAt.Rfc3339Copy()
				}
			}
		}
	}
	byName := func(a, b corev1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) }
	slices.SortStableFunc(s.ContainerStatuses, byName)
	slices.SortStableFunc(s.EphemeralContainerStatuses, byName)
}

// The end of a container that nothing shows, in the kubelet's words.
const (
	reasonUnknown   = "ContainerStatusUnknown"
	messageUnknown  = "The container could not be located when the pod was terminated"
	exitCodeUnknown = 137
)

// end gives each container of a pod that has ended an end. Main containers of a pod that was never initialized, and
// init containers after the last that has begun, stay as they are.
func end(spec *corev1.PodSpec, s *corev1.PodStatus) {
	if initialized(spec, s) {
		endAll(s.ContainerStatuses)
	}
	begun := min(1, len(s.InitContainerStatuses))
	for i := range s.InitContainerStatuses {
		if began(&s.InitContainerStatuses[i]) {
			begun = i + 1
		}
	}
	endAll(s.InitContainerStatuses[:begun])
}

func endAll(list []corev1.ContainerStatus) {
	for i := range list {
		if list[i].State.Terminated == nil {
			list[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: reasonUnknown, Message: messageUnknown, ExitCode: exitCodeUnknown,
			}}
		}
	}
}

// began reports whether a container was ever started.
func began(s *corev1.ContainerStatus) bool {
	return s.State.Waiting == nil || s.LastTerminationState.Terminated != nil
}

// initialized reports whether main containers could have been started.
func initialized(spec *corev1.PodSpec, s *corev1.PodStatus) bool {
	if len(spec.InitContainers) == 0 || slices.ContainsFunc(s.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return began(&c)
	}) {
		return true
	}
	n := len(s.InitContainerStatuses)
	if n == 0 || n != len(spec.InitContainers) {
		return false
	}
	last := s.InitContainerStatuses[n-1]
	if p := spec.InitContainers[n-1].RestartPolicy; p != nil && *p == corev1.ContainerRestartPolicyAlways {
		return last.State.Running != nil && last.Started != nil && *last.Started
	}
	for _, t := range []*corev1.ContainerStateTerminated{last.State.Terminated, last.LastTerminationState.Terminated} {
		if t != nil && t.ExitCode == 0 {
			return true
		}
	}
	return false
}

// conditions returns the API server's conditions of others and the pod's own, in the API server's order.
func conditions(in Input, own []corev1.PodCondition, becomesTerminal bool) []corev1.PodCondition {
	var out []corev1.PodCondition
	at := func(list []corev1.PodCondition, t corev1.PodConditionType) int {
		return slices.IndexFunc(list, func(c corev1.PodCondition) bool { return c.Type == t })
	}
	for _, c := range in.Is.Conditions {
		i := at(own, c.Type)
		switch {
		case !owned[c.Type]:
			out = append(out, c)
		case i >= 0:
			mine := own[i]
			if c.Type == corev1.PodScheduled && mine.Status == c.Status && !c.LastTransitionTime.IsZero() {
				mine.LastTransitionTime = c.LastTransitionTime
			}
			out = append(out, mine)
		}
	}
	for _, c := range own {
		i := at(out, c.Type)
		switch {
		case c.Type == corev1.DisruptionTarget && becomesTerminal && !in.MayRun:
			if i < 0 {
				out, i = append(out, c), len(out)
			}
			if was := out[i]; at(in.Is.Conditions, c.Type) >= 0 && was.Status == c.Status {
				c.LastTransitionTime = was.LastTransitionTime
			} else {
				c.LastTransitionTime = in.Now.Rfc3339Copy()
			}
			out[i] = c
		case owned[c.Type] && i < 0:
			out = append(out, c)
		}
	}
	return out
}

// unready takes the readiness of a pod with a terminal phase. Where one of its two conditions is true, both are
// replaced (the kubelet's rule).
func unready(s *corev1.PodStatus, now metav1.Time) {
	is := func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady || c.Type == corev1.ContainersReady }
	if !slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool {
		return is(c) && c.Status == corev1.ConditionTrue
	}) {
		return
	}
	reason := "PodFailed"
	if s.Phase == corev1.PodSucceeded {
		reason = "PodCompleted"
	}
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
		if i < 0 {
			i = len(s.Conditions)
			s.Conditions = append(s.Conditions, corev1.PodCondition{Type: kind, ObservedGeneration: s.ObservedGeneration})
		}
		c := &s.Conditions[i]
		if c.Status != corev1.ConditionFalse {
			c.LastTransitionTime = now.Rfc3339Copy()
		}
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, ""
	}
}

// keep takes over what belongs to others, and what is set once.
func keep(in Input, to *corev1.PodStatus) {
	is := in.Is
	to.ResourceClaimStatuses = is.ResourceClaimStatuses
	to.ExtendedResourceClaimStatus = is.ExtendedResourceClaimStatus
	to.NodeAllocatableResourceClaimStatuses = is.NodeAllocatableResourceClaimStatuses
	if len(to.VolumeHealth) == 0 {
		to.VolumeHealth = is.VolumeHealth
	}
	to.ObservedGeneration = max(to.ObservedGeneration, is.ObservedGeneration)
	to.QOSClass = cmp.Or(is.QOSClass, to.QOSClass)
	switch now := in.Now.Rfc3339Copy(); {
	case !is.StartTime.IsZero():
		to.StartTime = is.StartTime
	case to.StartTime.IsZero():
		to.StartTime = &now
	}
}

// addresses keeps addresses that the pod has lost by its end, and fixes the addresses of a pod in the node's network.
// Of other pods it keeps one address of each family, in the order that the runtime's addresses were observed in: the
// pod's variables have the same order, whatever family a cloud provider gives the Node first.
func addresses(in Input, to *corev1.PodStatus) {
	is := in.Is
	if to.HostIP == "" {
		to.HostIP, to.HostIPs = is.HostIP, is.HostIPs
	}
	switch {
	case len(to.PodIPs) == 0:
		to.PodIPs = is.PodIPs
	case in.View.Spec.HostNetwork && len(is.PodIPs) > 0:
		first := is.PodIPs[:1:1]
		if len(is.PodIPs) > 1 {
			first = is.PodIPs
		} else if i := slices.IndexFunc(to.PodIPs, func(ip corev1.PodIP) bool {
			return family(ip.IP) != family(first[0].IP)
		}); i >= 0 {
			first = append(first, to.PodIPs[i])
		}
		to.PodIPs = first
	case !in.View.Spec.HostNetwork:
		to.PodIPs = oneOfEach(to.PodIPs)
	}
	to.PodIP = ""
	if len(to.PodIPs) > 0 {
		to.PodIP = to.PodIPs[0].IP
	}
}

// family returns the family of an address; IPv4 for a text that is not an address.
func family(ip string) utilnet.IPFamily {
	if utilnet.IsIPv6String(ip) {
		return utilnet.IPv6
	}
	return utilnet.IPv4
}

// oneOfEach returns the first address of each family.
func oneOfEach(ips []corev1.PodIP) (out []corev1.PodIP) {
	for _, ip := range ips {
		if !slices.ContainsFunc(out, func(o corev1.PodIP) bool { return family(o.IP) == family(ip.IP) }) {
			out = append(out, ip)
		}
	}
	return out
}
