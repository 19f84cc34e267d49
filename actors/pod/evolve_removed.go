package pod

import (
	"maps"
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
)

// An inspection may end after the pod that it shows has finished and its next incarnation was added. What was removed
// must not count as an instance of that one: a container of restartPolicy Never would have run already.

// keepRemoved records that a sandbox or a container was removed, until an observation no longer has it.
func (a *Actor) keepRemoved(id string) {
	if id != "" && !slices.Contains(a.state.RemovedIds, id) {
		a.state.RemovedIds = append(a.state.RemovedIds, id)
	}
}

// keepRemovedSandbox records that a sandbox was removed with its containers.
func (a *Actor) keepRemovedSandbox(id string) {
	a.keepRemoved(id)
	for _, c := range a.state.GetObserved().GetContainers() {
		if c.GetSandboxId() == id {
			a.keepRemoved(c.GetId())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.state.Containers)) {
		if cur := a.state.Containers[name].GetCurrent(); cur.GetSandboxId() == id {
			a.keepRemoved(cur.GetId())
		}
	}
}

// withoutRemoved returns an observation without what was removed. It is a copy where something is left out. What it no
// longer has need not be kept.
func (a *Actor) withoutRemoved(o *journaletv1.PodObserved) *journaletv1.PodObserved {
	if len(a.state.RemovedIds) == 0 {
		return o
	}
	shown := idsIn(o)
	a.state.RemovedIds = slices.DeleteFunc(a.state.RemovedIds, func(id string) bool { return !shown[id] })
	removed := a.state.RemovedIds
	if len(removed) == 0 {
		return o
	}
	return &journaletv1.PodObserved{
		Uid: o.GetUid(), ObservedAt: o.GetObservedAt(), PodNamespace: o.GetPodNamespace(), PodName: o.GetPodName(),
		Sandboxes: slices.DeleteFunc(slices.Clone(o.GetSandboxes()), func(x *journaletv1.SandboxObservation) bool {
			return slices.Contains(removed, x.GetId())
		}),
		Containers: slices.DeleteFunc(slices.Clone(o.GetContainers()), func(c *journaletv1.ContainerObservation) bool {
			return slices.Contains(removed, c.GetId())
		}),
	}
}
