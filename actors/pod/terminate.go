package pod

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

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

// grace is how long a container gets between SIGTERM and SIGKILL.
func (d *step) grace() time.Duration {
	if d.manifest == nil || d.manifest.Spec.TerminationGracePeriodSeconds == nil {
		return defaultGrace
	}
	return max(minimumGrace, time.Duration(*d.manifest.Spec.TerminationGracePeriodSeconds)*time.Second)
}

func (d *step) stop(c *journaletv1.ContainerObservation, reason string) error {
	if wait := d.tearDownWait(); wait > 0 {
		return d.timer(tearDownTimer, wait)
	}
	return d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_StopContainer{
		StopContainer: &journaletv1.StopContainer{
			Container: c.GetName(), ContainerId: c.GetId(), Grace: durationpb.New(d.grace()), Reason: reason,
		},
	}})
}

// tearDownWait is what is left of the delay after a failed stop or removal.
func (d *step) tearDownWait() time.Duration {
	return d.left(d.state.GetCleanFailedAt(), setUpDelay(d.state.GetCleanFailures()))
}

// terminate takes back what has not begun, and stops every container, all at once.
func (d *step) terminate() error {
	if err := d.withdraw(); err != nil {
		return err
	}
	busy := d.calling(func(r *journaletv1.CallRequested) bool {
		return r.GetRunSandbox() != nil || r.GetStartContainer() != nil || r.GetSetUpVolumes() != nil
	})
	for _, name := range slices.Sorted(maps.Keys(d.state.Containers)) {
		cur := d.state.Containers[name].GetCurrent()
		if cur == nil || exited(cur) {
			continue
		}
		busy = busy || alive(cur)
		if !alive(cur) || d.wasStopped(cur) || d.calling(forContainer(name)) {
			continue
		}
		if err := d.stop(cur, "pod removed"); err != nil {
			return err
		}
	}
	if busy {
		return nil
	}
	return d.tellTerminated()
}

// withdraw takes back the calls that would start something, and the pod's place in pulls.
func (d *step) withdraw() error {
	for _, id := range slices.Sorted(maps.Keys(d.state.Calls)) {
		c := d.state.Calls[id]
		r := c.GetRequest()
		if c.GetWithdrawn() || r.GetRunSandbox() == nil && r.GetStartContainer() == nil && r.GetSetUpVolumes() == nil {
			continue
		}
		if err := d.emit(&journaletv1.Event{Kind: &journaletv1.Event_CallWithdrawn{
			CallWithdrawn: &journaletv1.CallWithdrawn{IntentId: id},
		}}); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.state.Containers)) {
		c := d.spec(name)
		if c == nil || !d.state.Containers[name].GetImageAsked() {
			continue
		}
		if err := d.emit(&journaletv1.Event{Kind: &journaletv1.Event_ImageReleased{
			ImageReleased: &journaletv1.ImageReleased{Uid: d.self.ID, Image: c.Image},
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

// tearDown stops the sandbox of a pod that has ended and takes its volumes down. What is left stays
// for its logs and its status until the source no longer names the pod.
func (d *step) tearDown() error {
	if err := d.stopSandboxes(); err != nil || d.readySandboxes() {
		return err
	}
	if d.manifest == nil || len(d.manifest.Spec.Volumes) == 0 || !d.state.GetTouched() || d.calling(sandboxCall) {
		return nil
	}
	return d.cleanPod(false)
}

// stopSandboxes stops the pod's sandboxes, one after the other as the runtime's order wants it.
func (d *step) stopSandboxes() error {
	for _, x := range d.state.GetObserved().GetSandboxes() {
		if x.GetState() != journaletv1.SandboxState_SANDBOX_STATE_READY || d.calling(sandboxCall) {
			continue
		}
		if wait := d.tearDownWait(); wait > 0 {
			return d.timer(tearDownTimer, wait)
		}
		return d.call(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_StopSandbox{
			StopSandbox: &journaletv1.StopSandbox{SandboxId: x.GetId()},
		}})
	}
	return nil
}

// readySandboxes tells whether a sandbox is still to be stopped.
func (d *step) readySandboxes() bool {
	for _, x := range d.state.GetObserved().GetSandboxes() {
		if x.GetState() == journaletv1.SandboxState_SANDBOX_STATE_READY {
			return true
		}
	}
	return false
}

// clean removes everything that the pod left on the node, and then says so.
func (d *step) clean() error {
	if len(d.state.Calls) > 0 {
		return nil
	}
	if wait := d.tearDownWait(); wait > 0 {
		return d.timer(tearDownTimer, wait)
	}
	if d.anyAlive() {
		return d.stopAll("no source names this pod")
	}
	// Stopping comes first and removing after every other pod's stop: see LANE_REMOVE.
	if err := d.stopSandboxes(); err != nil || d.readySandboxes() {
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
	if len(d.state.Calls) > 0 {
		return nil
	}
	if d.state.GetTouched() && !d.state.GetCleanedAll() {
		return d.cleanPod(true)
	}
	return d.finish()
}

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
		PodFinished: &journaletv1.PodFinished{Uid: d.self.ID, Source: source},
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
