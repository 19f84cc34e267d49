package pod

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// A rule with the action RestartAllContainers has all containers begin again in the sandbox that is there, init containers
// first (KEP-5532): what runs is stopped without grace, and then no instance of before counts any more.

// What the kubelet says meanwhile (pkg/kubelet/status).
const (
	reasonRestartingAll  = "RestartAllContainersStarted"
	messageRestartingAll = "container exited with restart policy rule"

	// reasonRestartAll is the stop reason of the containers that are to begin again.
	reasonRestartAll = "RestartAllContainers"
)

// restartAll has all containers begin again where the end of one asks for it; under tells that this is under way.
func (d *step) restartAll() (under bool, err error) {
	if d.state.GetAllContainersRestarting() == nil {
		for c := range d.all() {
			r := d.record(c.Name)
			if cur := r.GetCurrent(); d.begun(c) && exited(cur) && !r.GetStoppedAsUnhealthy() && !r.GetReplacing() &&
				action(c, cur.GetExitCode()) == corev1.ContainerRestartRuleActionRestartAllContainers {
				err = d.emitRestartingAll(&journaletv1.AllContainersRestarting{Container: c.Name, ContainerId: cur.GetId()})
				break
			}
		}
		if d.state.GetAllContainersRestarting() == nil || err != nil {
			return false, err
		}
	}
	busy, err := d.endAll()
	if busy || err != nil {
		return true, err
	}
	told := d.state.GetAllContainersRestarting()
	return false, d.emitRestartingAll(&journaletv1.AllContainersRestarting{
		Container: told.GetContainer(), ContainerId: told.GetContainerId(), AllStopped: true,
	})
}

func (d *step) emitRestartingAll(r *journaletv1.AllContainersRestarting) error {
	return d.emit(&journaletv1.Event{Kind: &journaletv1.Event_AllContainersRestarting{AllContainersRestarting: r}})
}

// endAll ends what runs and takes back what was to start, sidecars last; busy tells that something is left.
func (d *step) endAll() (busy bool, err error) {
	for _, id := range slices.Sorted(maps.Keys(d.state.Calls)) {
		if d.state.Calls[id].GetRequest().GetStartContainer() == nil {
			continue
		}
		busy = true
		if err := d.takeBack(id); err != nil {
			return true, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.state.Containers)) {
		cur := d.state.Containers[name].GetCurrent()
		if !alive(cur) {
			continue
		}
		busy = true
		if d.wasStopped(cur) || d.calling(forContainer(name)) || d.waitsForOthers(name) {
			continue
		}
		if wait := d.tearDownWait(); wait > 0 {
			if err := d.timer(tearDownTimer, wait); err != nil {
				return true, err
			}
			continue
		}
		if err := d.stopWithin(cur, reasonRestartAll, 0); err != nil {
			return true, err
		}
	}
	return busy, nil
}
