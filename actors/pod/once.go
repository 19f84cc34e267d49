package pod

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A container that its policy starts once runs at most once in each of its instances, whatever dies at which moment. It is
// made by one call and started by another one, so that the journal tells whether its start can have begun; a start in doubt
// that cannot be told counts as a run. ADR 015 has the reasons.

// AnnotationStartGuarantee of a pod says what holds for containers of restartPolicy Never when a start is in doubt.
const AnnotationStartGuarantee = "journalet.io/start-guarantee"

// The values of AnnotationStartGuarantee. AtMostOnce holds for a pod that does not say.
const (
	AtMostOnce  = "at-most-once"
	AtLeastOnce = "at-least-once"
)

// messageStartLost is said of an instance that counts as having run.
const messageStartLost = "The container was being started when the connection to the runtime was lost, and the runtime does not " +
	"show that it has not run; it is not started again"

// never tells whether a container is not to be started again by its policy; its rules may have it run again all the same.
func (a *Actor) never(c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy == corev1.ContainerRestartPolicyNever
	}
	return a.manifest.Spec.RestartPolicy == corev1.RestartPolicyNever
}

// onlyOnce tells whether no instance of a container may run twice.
func (a *Actor) onlyOnce(c *corev1.Container) bool {
	return a.never(c) && a.manifest.Annotations[AnnotationStartGuarantee] != AtLeastOnce
}

// made is the instance of a container that waits for its start, nil if there is none: one in another sandbox will not be
// started. What an update of the manifest brings it gets as one that runs does.
func (a *Actor) made(r *journaletv1.ContainerRecord) *journaletv1.CreatedContainer {
	m := r.GetCreated()
	if m == nil || m.GetSandboxId() != a.state.GetSandboxId() {
		return nil
	}
	return m
}

// startMade starts the instance that was made.
func (d *step) startMade(c *corev1.Container, m *journaletv1.CreatedContainer) error {
	return d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_StartContainer{StartContainer: &journaletv1.StartContainer{
		Container: c.Name, Attempt: m.GetAttempt(), Digest: d.state.GetPod().GetDigest(), SandboxId: m.GetSandboxId(),
		Part: journaletv1.StartPart_START_PART_START, ContainerId: m.GetContainerId(), Init: d.isInit(c.Name),
	}}})
}

// evolveMade folds that an instance was made.
func evolveMade(r *journaletv1.ContainerRecord, w *journaletv1.StartContainer, f *journaletv1.CallFinished) {
	r.ImageMissing = false
	r.Created = &journaletv1.CreatedContainer{ContainerId: f.GetContainerId(), Attempt: w.GetAttempt(), SandboxId: w.GetSandboxId()}
}

// evolveLost ends an instance that may have run.
func (a *Actor) evolveLost(e actors.Event, r *journaletv1.ContainerRecord, w *journaletv1.StartContainer) {
	cur := r.GetCurrent()
	if cur.GetAttempt() > w.GetAttempt() {
		return
	}
	gone := &journaletv1.ContainerObservation{
		Id: w.GetContainerId(), Name: w.GetContainer(), Attempt: w.GetAttempt(), SandboxId: w.GetSandboxId(), CreatedAt: timestamppb.New(e.Time),
	}
	if cur.GetId() == w.GetContainerId() {
		gone = proto.CloneOf(cur)
	}
	gone.State, gone.ExitCode = journaletv1.ContainerState_CONTAINER_STATE_EXITED, exitStatusUnknown
	gone.Reason, gone.Message, gone.FinishedAt = reasonStatusUnknown, messageStartLost, timestamppb.New(e.Time)
	r.StartFailures, r.StartError = 0, nil
	a.setNewest(r, gone)
	r.StoppedAsUnhealthy = true
}

// evolveNotRun forgets an instance that has not run and is gone: the next one gets its number, since the restart count tells
// of restarts only. Where it was told already, the count stays (kubelet: the same). What it was to replace is replaced still.
func (a *Actor) evolveNotRun(r *journaletv1.ContainerRecord, w *journaletv1.StartContainer) {
	a.dropContainer(w.GetContainerId())
	if r.GetCurrent().GetId() == w.GetContainerId() {
		r.ReportedRestarts = max(r.GetReportedRestarts(), w.GetAttempt())
		r.Current, r.Last = r.GetLast(), nil
	}
	r.Replacing = exited(r.GetCurrent())
	if r.GetCurrent().GetAttempt() <= w.GetAttempt() && r.GetNextAttempt() == w.GetAttempt()+1 {
		r.NextAttempt = w.GetAttempt()
	}
	takeBackOffBack(r)
}

// known is the pod as far as it is certain: without the instances that are seen to have ended without having run while their start
// is under way. Whether they have not run, and so have not been, is known when the start has its outcome; what was told
// of them before might have to be taken back.
func (a *Actor) known() *Actor {
	var uncertain []string
	for _, name := range slices.Sorted(maps.Keys(a.state.GetContainers())) {
		r := a.state.Containers[name]
		if cur := r.GetCurrent(); exited(cur) && cur.GetStartedAt() == nil && a.calling(beginning(r)) {
			uncertain = append(uncertain, name)
		}
	}
	if len(uncertain) == 0 {
		return a
	}
	k := *a
	k.state = proto.CloneOf(a.state)
	for _, name := range uncertain {
		k.state.Containers[name].Current, k.state.Containers[name].Last = k.state.Containers[name].GetLast(), nil
	}
	return &k
}
