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

// grace is how long a container gets to end by itself, its preStop hook included.
func (a *Actor) grace() time.Duration {
	if a.manifest == nil || a.manifest.Spec.TerminationGracePeriodSeconds == nil {
		return defaultGrace
	}
	return time.Duration(*a.manifest.Spec.TerminationGracePeriodSeconds) * time.Second
}

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

// tearDown stops the sandboxes of a pod that has ended, takes its volumes down and removes what is old. The rest stays
// for its logs and its status until the source no longer names the pod.
func (d *step) tearDown() error {
	if over, err := d.stopSandboxes(d.holds); err != nil || !over {
		return err
	}
	if d.manifest != nil && len(d.manifest.Spec.Volumes) > 0 && d.state.GetUsedRuntime() && !d.calling(sandboxCall) && !d.calling(volumesCall) {
		if err := d.cleanPod(false); err != nil {
			return err
		}
	}
	return d.removeOld()
}

// stopSandboxes stops those of the pod's sandboxes that match, one after the other as the runtime's order wants it; over
// tells that none is left.
func (d *step) stopSandboxes(match func(*journaletv1.SandboxObservation) bool) (over bool, err error) {
	for _, x := range d.state.GetObserved().GetSandboxes() {
		if !match(x) {
			continue
		}
		if d.calling(sandboxCall) {
			return false, nil
		}
		if wait := d.tearDownWait(); wait > 0 {
			return false, d.timer(tearDownTimer, wait)
		}
		return false, d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_StopSandbox{
			StopSandbox: &journaletv1.StopSandbox{SandboxId: x.GetId()},
		}})
	}
	return true, nil
}

func isReady(x *journaletv1.SandboxObservation) bool {
	return x.GetState() == journaletv1.SandboxState_SANDBOX_STATE_READY
}

// holds tells whether a sandbox may hold an address and host ports. One that died by itself does until it is stopped.
func (d *step) holds(x *journaletv1.SandboxObservation) bool {
	return isReady(x) || !slices.Contains(d.state.GetStoppedSandboxes(), x.GetId())
}

// clean removes everything that the pod left on the node, and then says so.
func (d *step) clean() error {
	// A hook that is taken back holds up nothing, not even if it is slow to go.
	if d.calling(isNoHook) {
		return nil
	}
	if wait := d.tearDownWait(); wait > 0 {
		return d.timer(tearDownTimer, wait)
	}
	if d.anyAlive() {
		return d.stopAll("no source names this pod")
	}
	// Stopping comes first and removing after every other pod's stop: see LANE_REMOVE.
	// What is dead is stopped as it is removed.
	if over, err := d.stopSandboxes(isReady); err != nil || !over {
		return err
	}
	for _, x := range d.state.GetObserved().GetSandboxes() {
		if err := d.removeSandbox(x.GetId()); err != nil {
			return err
		}
	}
	if id := d.state.GetSandboxId(); id != "" {
		if err := d.removeSandbox(id); err != nil {
			return err
		}
	}
	for _, c := range d.state.GetObserved().GetContainers() {
		if d.inSandbox(c) {
			continue
		}
		if err := d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_RemoveContainer{
			RemoveContainer: &journaletv1.RemoveContainer{Container: c.GetName(), ContainerId: c.GetId()},
		}}); err != nil {
			return err
		}
	}
	if d.calling(isNoHook) {
		return nil
	}
	if d.state.GetUsedRuntime() && !d.state.GetCleanedAll() {
		return d.cleanPod(true)
	}
	if len(d.state.Calls) > 0 {
		return nil
	}
	return d.finish()
}

func isNoHook(r *journaletv1.CallRequested) bool { return r.GetRunHook() == nil }

// stopAll stops every container that is observed alive. Only a pod that no source named can have one
// when it is cleaned: every other has been terminated before.
func (d *step) stopAll(reason string) error {
	for _, c := range d.state.GetObserved().GetContainers() {
		if alive(c) && !d.calling(forContainer(c.GetName())) {
			if err := d.stop(c, reason); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *step) finish() error {
	for _, name := range slices.Sorted(maps.Keys(d.state.GetTimers().GetSet())) {
		if err := d.clearTimer(name); err != nil {
			return err
		}
	}
	source := d.state.GetSource()
	if source == "" {
		source = orphanSource
	}
	return d.emit(&journaletv1.Event{Kind: &journaletv1.Event_PodFinished{
		PodFinished: &journaletv1.PodFinished{Uid: d.self.ID, Source: source, Orphan: d.state.GetSource() == ""},
	}})
}

// inSandbox tells whether a container goes away with a sandbox of the pod.
func (d *step) inSandbox(c *journaletv1.ContainerObservation) bool {
	for _, x := range d.state.GetObserved().GetSandboxes() {
		if x.GetId() == c.GetSandboxId() {
			return true
		}
	}
	return false
}

func (d *step) removeSandbox(id string) error {
	if d.calling(func(r *journaletv1.CallRequested) bool { return r.GetRemoveSandbox().GetSandboxId() == id }) {
		return nil
	}
	return d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_RemoveSandbox{
		RemoveSandbox: &journaletv1.RemoveSandbox{SandboxId: id},
	}})
}

func (d *step) cleanPod(all bool) error {
	if !all && d.state.GetCleanedVolumes() || d.calling(func(r *journaletv1.CallRequested) bool { return r.GetCleanPod() != nil }) {
		return nil
	}
	if wait := d.tearDownWait(); wait > 0 {
		return d.timer(tearDownTimer, wait)
	}
	p := d.state.GetPod()
	return d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_CleanPod{CleanPod: &journaletv1.CleanPod{
		Namespace: p.GetNamespace(), Name: p.GetName(), All: all,
	}}})
}
