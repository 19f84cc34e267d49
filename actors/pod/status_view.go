package pod

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/plain"
)

// Node is what a pod's status reports of its node.
type Node struct {
	// HostIPs are the node's addresses, the first one first.
	HostIPs []string
	// RuntimeName goes before container ids, as in containerd://<id>.
	RuntimeName string
}

// The status of an init container that nothing shows any more (kubelet: the same reason).
const (
	reasonPresumed  = "Completed"
	messagePresumed = "The runtime no longer shows this init container; it must have succeeded, since a main container " +
		"was created"
)

// View returns the pod as the Kubernetes API shows it: the desired manifest with the status that follows from the
// state. It is a copy.
func (a *Actor) View(on Node) *corev1.Pod {
	ref := a.state.GetPod()
	p := &corev1.Pod{}
	if a.desired != nil {
		p = a.desired.DeepCopy()
	}
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	if ref != nil {
		p.Namespace, p.Name, p.UID = ref.GetNamespace(), ref.GetName(), typesUID(ref.GetUid())
	} else {
		p.UID = typesUID(a.self.ID)
		a.viewOrphan(p)
		return p
	}
	if !a.ofAPI() || p.CreationTimestamp.IsZero() {
		p.CreationTimestamp = when(a.state.GetCreatedAt())
	}
	if a.state.GetRemoved() && p.DeletionTimestamp == nil {
		at := when(a.state.GetTerminatingAt())
		p.DeletionTimestamp = &at
		p.DeletionGracePeriodSeconds = graceSeconds(p)
	}
	p.Status = a.certain().status(on)
	return p
}

// ReasonOrphan is the status reason of an orphan: a pod of ours that the runtime shows, or that has a directory, and
// that no source names.
const ReasonOrphan = "Orphan"

// viewOrphan fills in what is known of an orphan. Its deletion time is when it was reported to the node.
func (a *Actor) viewOrphan(p *corev1.Pod) {
	s := a.state
	p.Namespace, p.Name = s.GetReportedAs().GetNamespace(), s.GetReportedAs().GetName()
	for _, x := range s.GetObserved().GetSandboxes() {
		if at := when(x.GetCreatedAt()); p.CreationTimestamp.IsZero() || at.Before(&p.CreationTimestamp) {
			p.CreationTimestamp = at
		}
	}
	p.Status = corev1.PodStatus{
		Phase: corev1.PodUnknown, Reason: ReasonOrphan, Message: "the runtime shows this pod, and no source names it",
	}
	if s.GetObserved() == nil {
		p.Status.Message = "the node has a directory of this pod, and no source names it"
	}
	if s.GetStage() != unknown {
		at := when(s.GetOrphanFoundAt())
		p.DeletionTimestamp = &at
	}
}

func (a *Actor) status(on Node) corev1.PodStatus {
	s := a.state
	st := corev1.PodStatus{
		Phase: phases[s.GetPhase()], Reason: s.GetReason(), Message: s.GetMessage(),
		QOSClass: QOS(a.manifest),
	}
	if a.manifest != nil {
		// Of a pod that has ended its source keeps the manifest that ran, and only the generation follows.
		st.ObservedGeneration = max(a.manifest.Generation, s.GetPod().GetApi().GetGeneration())
	}
	if t := s.GetAdmittedAt(); t != nil {
		at := when(t)
		st.StartTime = &at
	}
	if a.ofAPI() && s.GetRejected() {
		at := when(s.GetCreatedAt())
		st.StartTime = &at
		return st
	}
	for _, ip := range on.HostIPs {
		st.HostIPs = append(st.HostIPs, corev1.HostIP{IP: ip})
	}
	if len(on.HostIPs) > 0 {
		st.HostIP = on.HostIPs[0]
	}
	ips := a.podIPs()
	if a.manifest != nil && a.manifest.Spec.HostNetwork {
		ips = on.HostIPs
	}
	for _, ip := range ips {
		st.PodIPs = append(st.PodIPs, corev1.PodIP{IP: ip})
	}
	if len(ips) > 0 {
		st.PodIP = ips[0]
	}
	if s.GetRejected() {
		// As with the kubelet: the status of a rejected pod has only the reason.
		return st
	}
	for _, c := range sortedConditions(s.Conditions) {
		st.Conditions = append(st.Conditions, corev1.PodCondition{
			Type: corev1.PodConditionType(c.GetType()), Status: conditionStatus(c.GetStatus()),
			Reason: c.GetReason(), Message: c.GetMessage(), LastTransitionTime: when(c.GetLastTransition()),
			ObservedGeneration: st.ObservedGeneration,
		})
	}
	st.Conditions = append(st.Conditions, a.gateConditions(st.ObservedGeneration)...)
	if a.manifest != nil {
		// For static pods the kubelet reports what is allocated, never the values of their cgroup.
		all, has := resource.PodResourcesOptions{}, a.appliedManifest()
		st.AllocatedResources = resource.PodRequests(a.manifest, all)
		st.Resources = &corev1.ResourceRequirements{
			Requests: resource.PodRequests(has, all), Limits: resource.PodLimits(has, all),
		}
	}
	for i := range a.initContainers() {
		st.InitContainerStatuses = append(st.InitContainerStatuses, a.containerStatus(on, &a.initContainers()[i]))
	}
	for i := range a.containers() {
		st.ContainerStatuses = append(st.ContainerStatuses, a.containerStatus(on, &a.containers()[i]))
	}
	for c := range a.ephemerals() {
		st.EphemeralContainerStatuses = append(st.EphemeralContainerStatuses, a.ephemeralStatus(on, c))
	}
	shareMessages(st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses)
	if a.ofAPI() && a.manifest != nil && s.GetStage() >= terminated && !a.AnyAlive() {
		endUnknown(&a.manifest.Spec, &st)
	}
	return st
}

// podMessageBytes is how long the termination messages of a pod's containers may be in sum, the same for each (kubelet:
// MaxPodTerminationMessageLogLength).
const podMessageBytes = 12 << 10

// shareMessages cuts termination messages, also of last instances, to their container's share.
func shareMessages(lists ...[]corev1.ContainerStatus) {
	most := podMessageBytes / max(len(slices.Concat(lists...)), 1)
	for _, list := range lists {
		for i := range list {
			now, last := list[i].State.Terminated, list[i].LastTerminationState.Terminated
			for _, t := range []*corev1.ContainerStateTerminated{now, last} {
				if t != nil && len(t.Message) > most {
					t.Message = plain.Cut(t.Message, most)
				}
			}
		}
	}
}

func (a *Actor) containerStatus(on Node, c *corev1.Container) corev1.ContainerStatus {
	r := a.record(c.Name)
	cur := r.GetCurrent()
	ready := a.ready(c)
	if a.runsToCompletion(c) {
		ready = a.initCompleted(c)
	}
	st := corev1.ContainerStatus{
		Name: c.Name, Image: cmp.Or(cur.GetImage(), c.Image), ImageID: cur.GetImageRef(), Ready: ready,
		Started: ptr.To(a.started(c)), RestartCount: int32(restartCount(r)),
	}
	if cur.GetId() != "" {
		st.ContainerID = on.containerID(cur)
		st.AllocatedResources = c.Resources.DeepCopy().Requests
		st.Resources = a.reportedResources(c, r)
	}
	st.User, st.VolumeMounts = userOf(cur), mountStatuses(c, cur)
	st.AllocatedResourcesStatus = append(a.deviceStatus(c.Name), a.claimStatus(c)...)
	st.State = a.containerState(on, cur, a.waiting(c))
	if a.startsAnyway(c, r) && st.State.Terminated != nil {
		st.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: a.creating()}}
	}
	if a.presumedDone(c) {
		st.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: reasonPresumed, Message: messagePresumed,
		}}
	}
	if st.State.Waiting != nil && exited(cur) {
		st.LastTerminationState.Terminated = terminatedState(on, cur)
	} else if last := a.last(r); last != nil {
		st.LastTerminationState.Terminated = terminatedState(on, last)
	}
	return st
}

// startsAnyway reports whether a container that has ended starts again although its exit code and its policy say that
// it does not: it was stopped for another image, by an operator, or for a failed probe. The API server takes a state
// "terminated" of such a container for final, and refuses every later one, unless a rule restarts all containers. A
// kubelet reports nothing between the stop and the start; the agent, whose start may wait for a pull, reports a wait.
func (a *Actor) startsAnyway(c *corev1.Container, r *journaletv1.ContainerRecord) bool {
	return exited(r.GetCurrent()) && !a.noMoreStarts() && a.willRestart(c, r) && afterRestartAll(r) &&
		!a.policyRestarts(c, r.GetCurrent().GetExitCode(), false)
}

// ephemeralStatus is containerStatus of an ephemeral container. As with the kubelet it is neither ready nor started.
func (a *Actor) ephemeralStatus(on Node, c *corev1.Container) corev1.ContainerStatus {
	st := a.containerStatus(on, c)
	st.Ready, st.Started = false, nil
	return st
}

func (on Node) containerID(c *journaletv1.ContainerObservation) string {
	return on.RuntimeName + "://" + c.GetId()
}

func (a *Actor) containerState(
	on Node, cur *journaletv1.ContainerObservation, w *journaletv1.ContainerWaiting,
) corev1.ContainerState {
	switch {
	case w != nil:
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: w.GetReason(), Message: w.GetMessage()}}
	case running(cur):
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: when(cur.GetStartedAt())}}
	case exited(cur):
		return corev1.ContainerState{Terminated: terminatedState(on, cur)}
	}
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: a.creating()}}
}

func terminatedState(on Node, c *journaletv1.ContainerObservation) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{
		ExitCode: c.GetExitCode(), Reason: c.GetReason(), Message: c.GetMessage(),
		StartedAt: when(c.GetStartedAt()), FinishedAt: when(c.GetFinishedAt()), ContainerID: on.containerID(c),
	}
}

// gateConditions returns the conditions of the readiness gates, as the API shows them.
func (a *Actor) gateConditions(generation int64) []corev1.PodCondition {
	var all []corev1.PodCondition
	for _, c := range a.state.GetGateConditions() {
		all = append(all, corev1.PodCondition{
			Type: corev1.PodConditionType(c.GetType()), Status: corev1.ConditionStatus(c.GetStatus()),
			LastTransitionTime: metav1.NewTime(c.GetLastTransition().AsTime()), ObservedGeneration: generation,
		})
	}
	return all
}

var phases = map[journaletv1.PodPhase]corev1.PodPhase{
	pending: corev1.PodPending, runningPhase: corev1.PodRunning, succeeded: corev1.PodSucceeded, failed: corev1.PodFailed,
}

func conditionStatus(ok bool) corev1.ConditionStatus {
	if ok {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

func when(t *timestamppb.Timestamp) metav1.Time {
	if t == nil {
		return metav1.Time{}
	}
	return metav1.NewTime(t.AsTime())
}
