package pod

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// defaultGrace is the grace period of a pod whose manifest is not known. Kubernetes default: 30 s.
const defaultGrace = 30 * time.Second

// orphanSource receives the PodFinished of a pod that no source named.
const orphanSource = messages.FileSource

// graceTimer ends the grace period of a terminating pod.
const graceTimer = "grace"

// stop terminates one container while its pod keeps running, with the pod's whole grace period.
func (d *step) stop(c *journaletv1.ContainerObservation, reason string) {
	d.terminateContainer(c, reason, d.grace())
}

// terminateContainer ends one container while its pod keeps running. Its preStop hook and its stop share this grace
// period. It is called again at each step until the container has ended.
func (d *step) terminateContainer(c *journaletv1.ContainerObservation, reason string, grace time.Duration) {
	if wait := d.tearDownWait(); wait > 0 {
		d.timer(tearDownTimer, wait)
		return
	}
	reason, left := d.terminationOf(c, reason, grace)
	over := d.preStop(c, reason, left)
	if !over {
		d.timer(preStopTimer+c.GetName(), left)
		return
	}
	d.clearTimer(preStopTimer + c.GetName())
	d.requestStop(c, reason, left)
}

// terminationOf returns why an instance ends and what is left of its grace, where its termination has begun before.
func (d *step) terminationOf(c *journaletv1.ContainerObservation, reason string, grace time.Duration) (
	why string, left time.Duration,
) {
	e := d.record(c.GetName()).GetTermination()
	if e.GetContainerId() != c.GetId() {
		return reason, grace
	}
	return e.GetReason(), min(grace, d.left(e.GetSince(), e.GetGrace().AsDuration()))
}

func (d *step) requestStop(c *journaletv1.ContainerObservation, reason string, left time.Duration) {
	d.requestCall(&journaletv1.StopContainer{
		Container: c.GetName(), ContainerId: c.GetId(), Grace: durationpb.New(stopGrace(left)), Reason: reason,
	})
}

// stopGrace returns the grace period of a stop: what is left in whole seconds, since CRI counts in these, and never
// less than the minimum.
func stopGrace(left time.Duration) time.Duration {
	return max(actors.MinimumGrace, (left + time.Second - 1).Truncate(time.Second))
}

// tearDownWait returns what is left of the delay after a failed stop or removal.
func (d *step) tearDownWait() time.Duration {
	return d.left(d.state.GetCleanFailedAt(), setUpDelay(d.state.GetCleanFailures()))
}

// terminate withdraws what has not begun, and ends every container: all at once, but for sidecars, which end in reverse
// order after the others. One deadline holds for the whole pod.
func (d *step) terminate() {
	d.withdrawStarts()
	d.withdrawCleaning()
	d.shortenGrace()
	d.place(true)
	busy := d.calling(func(r *journaletv1.CallRequested) bool {
		return r.GetRunSandbox() != nil || r.GetStartContainer() != nil || r.GetSetUpVolumes() != nil ||
			r.GetPrepareClaims() != nil
	})
	waits := false
	for _, name := range slices.Sorted(maps.Keys(d.state.Containers)) {
		cur := d.state.Containers[name].GetCurrent()
		if cur == nil || exited(cur) {
			continue
		}
		busy = busy || alive(cur)
		if !alive(cur) || d.wasStopped(cur) {
			continue
		}
		still := d.terminateWithPod(cur)
		waits = waits || still
	}
	if !busy && d.state.GetFound() && d.Unseen() {
		// What the pod has is not free while a container of it may run. A clean-up finds that out.
		d.cleanPod(false)
		return
	}
	if !busy {
		d.unprepareOrReport()
		return
	}
	if waits {
		d.timer(graceTimer, d.podLeft())
		return
	}
	d.clearTimer(graceTimer)
}

// terminateWithPod ends one container of a terminating pod. waits reports whether it waits for its hook or for others,
// until the pod's deadline at most.
func (d *step) terminateWithPod(c *journaletv1.ContainerObservation) (waits bool) {
	if id := d.stopping(c.GetId()); id != "" {
		d.shortenStop(id)
		return false
	}
	if d.calling(forContainer(c.GetName())) {
		return false
	}
	if wait := d.tearDownWait(); wait > 0 {
		d.timer(tearDownTimer, wait)
		return false
	}
	reason, left := d.terminationOf(c, d.stopReason(), d.podLeft())
	over := d.preStop(c, reason, left)
	if !over || left > 0 && d.sidecarWaits(c.GetName()) {
		return true
	}
	d.requestStop(c, reason, left)
	return false
}

// podLeft returns what is left of the grace period of a terminating pod.
func (d *step) podLeft() time.Duration {
	if d.state.GetPastGrace() {
		return 0
	}
	return d.left(d.state.GetTerminatingAt(), d.grace())
}

func (d *step) stopReason() string {
	switch {
	case d.state.GetRemoved():
		return "pod removed"
	case d.deleted():
		return "pod deleted"
	}
	return cmp.Or(d.state.GetReason(), "pod has ended")
}

// stopping returns the id of the call under way that stops an instance, empty if no such call is under way.
func (d *step) stopping(containerID string) string {
	for _, id := range slices.Sorted(maps.Keys(d.state.Calls)) {
		if d.state.Calls[id].GetRequest().GetStopContainer().GetContainerId() == containerID {
			return id
		}
	}
	return ""
}

// shortenStop withdraws a stop that would last beyond the pod's deadline. Another one follows with less grace.
func (d *step) shortenStop(id string) {
	c := d.state.Calls[id]
	left := d.state.GetTerminatingAt().AsTime().Add(d.grace()).Sub(c.GetRequestedAt().AsTime())
	if c.GetRequest().GetStopContainer().GetGrace().AsDuration() <= stopGrace(left) {
		return
	}
	d.withdrawCall(id)
}

// sidecarWaits reports whether a container is a sidecar, and something that started after it may still run. (The
// kubelet does not wait for regular init containers.)
func (d *step) sidecarWaits(name string) bool {
	list := d.initContainers()
	at := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name && isSidecar(&c) })
	if at < 0 {
		return false
	}
	later := slices.Concat(list[at+1:], d.containers())
	return slices.ContainsFunc(later, func(c corev1.Container) bool {
		cur := d.record(c.Name).GetCurrent()
		return alive(cur) && !d.wasStopped(cur) ||
			d.calling(func(r *journaletv1.CallRequested) bool { return r.GetStartContainer().GetContainer() == c.Name })
	})
}

// withdrawStarts withdraws the calls that would start something, and the pod's image pulls.
func (d *step) withdrawStarts() {
	for _, id := range slices.Sorted(maps.Keys(d.state.Calls)) {
		r := d.state.Calls[id].GetRequest()
		if r.GetRunSandbox() == nil && r.GetStartContainer() == nil && r.GetSetUpVolumes() == nil &&
			!updateCall(r) && r.GetReadClaims() == nil && r.GetPrepareClaims() == nil {
			continue
		}
		d.withdrawCall(id)
	}
	for _, name := range slices.Sorted(maps.Keys(d.state.Containers)) {
		c := d.spec(name)
		if c == nil {
			continue
		}
		for _, image := range d.awaitedImages(c) {
			d.decide(&journaletv1.ImagePullWithdrawn{Uid: d.self.ID, Image: image})
		}
	}
}

// reportTerminated ends the termination of a pod. Timers of starts that will not come are cleared.
func (d *step) reportTerminated() {
	for _, name := range slices.Sorted(maps.Keys(d.state.GetTimers().GetSet())) {
		d.clearTimer(name)
	}
	d.decide(&journaletv1.PodTerminated{
		Uid: d.self.ID, Phase: d.terminalPhase(),
	})
}
