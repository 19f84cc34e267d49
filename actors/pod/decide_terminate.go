package pod

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// minimumGrace is the least time that a container gets to end by itself.
// kubelet: minimumGracePeriodInSeconds, 2.
const minimumGrace = 2 * time.Second

// defaultGrace is what a pod gets whose manifest is not known. Kubernetes default: 30 s.
const defaultGrace = 30 * time.Second

// orphanSource hears of the end of a pod that no source named.
const orphanSource = messages.FileSource

// graceTimer ends the time that a pod has to end.
const graceTimer = "deadline"

// stop ends one container while its pod runs on, with all the grace that the pod's containers get.
func (d *step) stop(c *journaletv1.ContainerObservation, reason string) error {
	return d.end(c, reason, d.grace())
}

// end ends one container while its pod runs on, on a clock of its own: its preStop hook and then its stop get this grace
// together. It is to be called again at each step until the container has ended.
func (d *step) end(c *journaletv1.ContainerObservation, reason string, grace time.Duration) error {
	if wait := d.tearDownWait(); wait > 0 {
		return d.timer(tearDownTimer, wait)
	}
	reason, left := d.endingOf(c, reason, grace)
	over, err := d.preStop(c, reason, left)
	if err != nil {
		return err
	}
	if !over {
		return d.timer(preStopTimer+c.GetName(), left)
	}
	if err := d.clearTimer(preStopTimer + c.GetName()); err != nil {
		return err
	}
	return d.stopWithin(c, reason, left)
}

// endingOf is why an instance ends and what it has left, where its end has begun before.
func (d *step) endingOf(c *journaletv1.ContainerObservation, reason string, grace time.Duration) (string, time.Duration) {
	e := d.record(c.GetName()).GetTermination()
	if e.GetContainerId() != c.GetId() {
		return reason, grace
	}
	return e.GetReason(), min(grace, d.left(e.GetSince(), e.GetGrace().AsDuration()))
}

func (d *step) stopWithin(c *journaletv1.ContainerObservation, reason string, left time.Duration) error {
	return d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_StopContainer{
		StopContainer: &journaletv1.StopContainer{
			Container: c.GetName(), ContainerId: c.GetId(), Grace: durationpb.New(stopGrace(left)), Reason: reason,
		},
	}})
}

// stopGrace is what a stop gets: what is left in whole seconds, since CRI counts in these, and never less than the minimum.
func stopGrace(left time.Duration) time.Duration {
	return max(minimumGrace, (left + time.Second - 1).Truncate(time.Second))
}

// tearDownWait is what is left of the delay after a failed stop or removal.
func (d *step) tearDownWait() time.Duration {
	return d.left(d.state.GetCleanFailedAt(), setUpDelay(d.state.GetCleanFailures()))
}

// terminate takes back what has not begun, and ends every container: all at once, but for sidecars, which wait for their
// turn. One deadline holds for the whole pod.
func (d *step) terminate() error {
	if err := d.withdraw(); err != nil {
		return err
	}
	busy := d.calling(func(r *journaletv1.CallRequested) bool {
		return r.GetRunSandbox() != nil || r.GetStartContainer() != nil || r.GetSetUpVolumes() != nil
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
		still, err := d.endWithPod(cur)
		if err != nil {
			return err
		}
		waits = waits || still
	}
	if !busy {
		return d.tellTerminated()
	}
	if waits {
		return d.timer(graceTimer, d.podLeft())
	}
	return d.clearTimer(graceTimer)
}

// endWithPod ends one container of a pod that ends. waits tells whether it waits for its hook or its turn, for which the
// pod's deadline is the end.
func (d *step) endWithPod(c *journaletv1.ContainerObservation) (waits bool, err error) {
	if id := d.stopping(c.GetId()); id != "" {
		return false, d.shorten(id)
	}
	if d.calling(forContainer(c.GetName())) {
		return false, nil
	}
	if wait := d.tearDownWait(); wait > 0 {
		return false, d.timer(tearDownTimer, wait)
	}
	reason, left := d.endingOf(c, d.endReason(), d.podLeft())
	over, err := d.preStop(c, reason, left)
	if err != nil || !over || left > 0 && d.waitsForOthers(c.GetName()) {
		return true, err
	}
	return false, d.stopWithin(c, reason, left)
}

// podLeft is what is left of the time that a pod has to end.
func (d *step) podLeft() time.Duration {
	if d.state.GetPastGrace() {
		return 0
	}
	return d.left(d.state.GetTerminatingAt(), d.grace())
}

func (d *step) endReason() string {
	if d.state.GetRemoved() {
		return "pod removed"
	}
	return cmp.Or(d.state.GetReason(), "pod has ended")
}

// stopping is the id of the stop of an instance that is under way, empty if there is none.
func (d *step) stopping(containerID string) string {
	for _, id := range slices.Sorted(maps.Keys(d.state.Calls)) {
		if d.state.Calls[id].GetRequest().GetStopContainer().GetContainerId() == containerID {
			return id
		}
	}
	return ""
}

// shorten takes a stop back that would last beyond the pod's deadline; another one follows with less grace.
func (d *step) shorten(id string) error {
	c := d.state.Calls[id]
	left := d.state.GetTerminatingAt().AsTime().Add(d.grace()).Sub(c.GetRequestedAt().AsTime())
	if c.GetRequest().GetStopContainer().GetGrace().AsDuration() <= stopGrace(left) {
		return nil
	}
	return d.takeBack(id)
}

// waitsForOthers tells whether a container is a sidecar of which something that came after it may still run. (The kubelet
// does not wait for init containers that are no sidecars.)
func (d *step) waitsForOthers(name string) bool {
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

// withdraw takes back the calls that would start something, and the pod's place in pulls.
func (d *step) withdraw() error {
	for _, id := range slices.Sorted(maps.Keys(d.state.Calls)) {
		r := d.state.Calls[id].GetRequest()
		if r.GetRunSandbox() == nil && r.GetStartContainer() == nil && r.GetSetUpVolumes() == nil && r.GetUpdateContainer() == nil {
			continue
		}
		if err := d.takeBack(id); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.state.Containers)) {
		c := d.spec(name)
		if c == nil || !d.state.Containers[name].GetImageRequested() {
			continue
		}
		if err := d.emit(&journaletv1.Event{Kind: &journaletv1.Event_ImagePullWithdrawn{
			ImagePullWithdrawn: &journaletv1.ImagePullWithdrawn{Uid: d.self.ID, Image: c.Image},
		}}); err != nil {
			return err
		}
	}
	return nil
}

// tellTerminated ends the running of a pod. Timers of starts that will not come are cleared.
func (d *step) tellTerminated() error {
	for _, name := range slices.Sorted(maps.Keys(d.state.GetTimers().GetSet())) {
		if err := d.clearTimer(name); err != nil {
			return err
		}
	}
	return d.emit(&journaletv1.Event{Kind: &journaletv1.Event_PodTerminated{PodTerminated: &journaletv1.PodTerminated{
		Uid: d.self.ID, Phase: d.terminalPhase(),
	}}})
}
