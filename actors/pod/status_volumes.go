package pod

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages/journaletv1"
)

// volumeProblem returns why a volume of a starting pod is not set up, as the kubelet words it in its event FailedMount;
// empty if nothing is wrong.
func (a *Actor) volumeProblem() string {
	if a.state.GetStage() != runningPod {
		return ""
	}
	for _, v := range a.derive().volumes {
		r := a.state.Volumes[v.name]
		switch {
		case r.GetStage() == volumeSetUp:
		case v.problem != "":
			return v.problem
		case v.contents != "" && r.GetFailedContents() == v.contents:
			return r.GetMessage()
		}
	}
	return ""
}

// configProblem returns why a container that may start does not: what its environment refers to is missing, or its
// target. It is empty for every other container.
func (a *Actor) configProblem(c *corev1.Container) string {
	r, timers := a.record(c.Name), a.state.GetTimers().GetSet()
	if a.state.GetStage() != runningPod || a.state.GetSandboxId() == "" || awaitsImages(r) ||
		alive(r.GetCurrent()) || timers[startTimer+c.Name] != nil || timers[backOffTimer+c.Name] != nil ||
		a.created(r) != nil || !a.mayStart(c) || !a.volumesReady(c) || a.calling(forContainer(c.Name)) {
		return ""
	}
	if _, problem := a.lacking(references.OfContainer(c)); problem != "" {
		return problem
	}
	return a.targetProblem(c.Name)
}

// VolumeWait is a volume that is not set up, or not with its desired contents.
type VolumeWait struct {
	Name string
	// Missing names the object that it waits for, in the kubelet's words; Unread reports that its objects are not read
	// yet.
	Missing string
	Unread  bool
	// Record is its record; nil if it was never tried. Failed reports whether the last set-up of what is desired failed.
	Record *journaletv1.VolumeRecord
	Failed bool
}

// VolumeWaits returns the volumes of a running pod that are not as desired, in the order of the manifest.
func (a *Actor) VolumeWaits() []VolumeWait {
	if a.state.GetStage() != runningPod {
		return nil
	}
	var all []VolumeWait
	for _, v := range a.derive().volumes {
		r := a.state.Volumes[v.name]
		if r.GetStage() == volumeSetUp && (v.contents == "" || r.GetContents() == v.contents) {
			continue
		}
		all = append(all, VolumeWait{
			Name: v.name, Missing: v.problem, Unread: v.unread(), Record: r,
			Failed: v.contents != "" && r.GetFailedContents() == v.contents,
		})
	}
	return all
}

// Missing returns what a container waits for, in the kubelet's words: what its environment refers to and is missing, or
// its target. It is empty if there is nothing.
func (a *Actor) Missing(container string) string {
	if c := a.spec(container); c != nil {
		return a.configProblem(c)
	}
	return ""
}

// busyVolumes returns what holds the volumes of a pod that has ended and that could not be torn down.
func (a *Actor) busyVolumes() []Wait {
	var all []Wait
	for _, name := range slices.Sorted(maps.Keys(a.state.Volumes)) {
		if r := a.state.Volumes[name]; r.GetStage() != tornDown && r.GetMessage() != "" && a.state.GetStage() >= terminated {
			all = append(all, Wait{
				For:   fmt.Sprintf("volume %s, which cannot be torn down: %s", name, r.GetMessage()),
				Since: r.GetFailedAt().AsTime(),
			})
		}
	}
	return all
}
