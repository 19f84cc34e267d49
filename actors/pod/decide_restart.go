package pod

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// A rule with the action RestartAllContainers restarts all containers in the same sandbox, init containers first
// (KEP-5532). What runs is stopped without grace. Then no older instance counts any more.

// Reason and message of the condition meanwhile (pkg/kubelet/status).
const (
	reasonRestartingAll  = "RestartAllContainersStarted"
	messageRestartingAll = "container exited with restart policy rule"

	// reasonRestartAll is the stop reason of the containers.
	reasonRestartAll = "RestartAllContainers"
)

// restartAll restarts all containers where the end of one requires it, or an operator requested it. under reports that
// the old instances are still being stopped.
func (d *step) restartAll() (under bool) {
	if d.state.GetAllContainersRestarting() == nil && d.state.GetRestart() == nil {
		for c := range d.all() {
			r := d.record(c.Name)
			if cur := r.GetCurrent(); d.hasInstance(c) && exited(cur) && !notRun(r) &&
				!r.GetStoppedAsUnhealthy() && !r.GetReplacing() &&
				ruleAction(c, cur.GetExitCode()) == corev1.ContainerRestartRuleActionRestartAllContainers {
				d.decide(&journaletv1.AllContainersRestarting{Container: c.Name, ContainerId: cur.GetId()})
				break
			}
		}
		if d.state.GetAllContainersRestarting() == nil {
			return false
		}
	}
	if d.stopForRestart() {
		return true
	}
	d.clearTimer(restartTimer)
	started := d.state.GetAllContainersRestarting()
	d.decide(&journaletv1.AllContainersRestarting{
		Container: started.GetContainer(), ContainerId: started.GetContainerId(), AllStopped: true,
	})
	return false
}

// stopForRestart stops what runs and withdraws what was to start, sidecars last; ephemeral containers stay, as with the
// kubelet. busy reports that something is left.
func (d *step) stopForRestart() (busy bool) {
	for _, id := range slices.Sorted(maps.Keys(d.state.Calls)) {
		req := d.state.Calls[id].GetRequest()
		start := req.GetStartContainer()
		if req.GetPreStartContainer() == nil && (start == nil || d.isEphemeral(start.GetContainer())) {
			continue
		}
		busy = true
		d.withdrawCall(id)
	}
	for _, name := range slices.Sorted(maps.Keys(d.state.Containers)) {
		cur := d.state.Containers[name].GetCurrent()
		if !alive(cur) || d.isEphemeral(name) {
			continue
		}
		busy = true
		if d.wasStopped(cur) || d.calling(forContainer(name)) {
			continue
		}
		if d.state.GetAllContainersRestarting() == nil {
			d.stopWithGrace(cur)
			continue
		}
		if d.sidecarWaits(name) {
			continue
		}
		if wait := d.tearDownWait(); wait > 0 {
			d.timer(tearDownTimer, wait)
			continue
		}
		d.requestStop(cur, reasonRestartAll, 0)
	}
	return busy
}
