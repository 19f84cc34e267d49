package pod

import (
	"github.com/journalet/journalet/messages/journaletv1"
)

// evolveCgroupLost folds that the pod's containers are not in its cgroup. With none that runs there is nothing to move:
// the next sandbox gets a new cgroup.
func (a *Actor) evolveCgroupLost() {
	for _, c := range a.state.GetObserved().GetContainers() {
		if alive(c) {
			a.state.NoCgroupSandboxId = a.state.GetSandboxId()
		}
	}
}

// evolveNetworkLost folds that an observation shows for the first time that the pod's sandbox has no address: it counts
// as a failed sandbox, so that a network that gives out no addresses is tried with back-off.
func (a *Actor) evolveNetworkLost(o *journaletv1.PodObserved, before bool) {
	if a.lostNetwork() && !before {
		a.state.SandboxFailures++
		a.state.SandboxFailedAt = o.GetObservedAt()
	}
}
