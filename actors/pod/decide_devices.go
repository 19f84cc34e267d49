package pod

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// deviceTimer ends the wait of devices whose plugin did not answer. Container and resource follow.
const deviceTimer = "devices "

const (
	// firstDeviceDelay and maxDeviceDelay bound the wait after a plugin that did not answer; it doubles between the two.
	// The upper one is short beside the restart of a plugin: its pods are waiting.
	firstDeviceDelay = 500 * time.Millisecond
	maxDeviceDelay   = 30 * time.Second
)

// Reason and message of a pod whose devices a plugin refuses (kubelet: UnexpectedAdmissionError).
const (
	reasonDevices = "UnexpectedAdmissionError"
	deviceRefused = "Pod was rejected: Allocate failed due to "
	deviceWhy     = ", which is unexpected"
)

// allocateDevices requests what plugins want for the containers that have their devices: once for each container and
// resource, and again where a plugin did not answer.
func (d *step) allocateDevices() {
	for _, alloc := range d.state.GetDevices() {
		dev := alloc.GetDevices()
		timer := timerOf(dev)
		if dev.GetAnswer() != nil || alloc.GetRefused() || d.calling(allocationOf(dev)) {
			continue
		}
		if wait := d.left(alloc.GetFailedAt(),
			doubled(alloc.GetFailures(), firstDeviceDelay, maxDeviceDelay)); wait > 0 {
			d.timer(timer, wait)
			continue
		}
		d.clearTimer(timer)
		d.requestCall(&journaletv1.AllocateDevices{
			Container: dev.GetContainer(), Resource: dev.GetResource(), Ids: dev.GetIds(),
		})
	}
}

func timerOf(dev *journaletv1.ContainerDevices) string {
	return deviceTimer + dev.GetContainer() + " " + dev.GetResource()
}

// allocationOf matches the call for a container and a resource.
func allocationOf(dev *journaletv1.ContainerDevices) func(*journaletv1.CallRequested) bool {
	return func(r *journaletv1.CallRequested) bool {
		w := r.GetAllocateDevices()
		return w != nil && w.GetContainer() == dev.GetContainer() && w.GetResource() == dev.GetResource()
	}
}

// preStart requests that plugins prepare a container's devices for its next start, if one of them wants that. prepared
// reports that there is nothing to wait for.
func (d *step) preStart(c *corev1.Container, r *journaletv1.ContainerRecord) (prepared bool) {
	var due []*journaletv1.ContainerDevices
	for _, dev := range d.devicesOf(c.Name) {
		if dev.GetPreStart() {
			due = append(due, &journaletv1.ContainerDevices{
				Container: c.Name, Resource: dev.GetResource(), Ids: dev.GetIds(), PreStart: true,
			})
		}
	}
	if len(due) == 0 || r.GetDevicesPrepared() {
		return true
	}
	d.requestCall(&journaletv1.PreStartContainer{Container: c.Name, Devices: due})
	return false
}

// refusedDevices ends a pod whose devices a plugin refuses, as the kubelet does. refused reports that it ends.
func (d *step) refusedDevices() (refused bool) {
	for _, alloc := range d.state.GetDevices() {
		if alloc.GetRefused() {
			d.decide(&journaletv1.PodTerminating{
				Reason: reasonDevices, Message: deviceRefused + alloc.GetMessage() + deviceWhy, Failed: true,
			})
			return true
		}
	}
	return false
}

// withdrawDevices withdraws calls on plugins for a pod that will start nothing any more.
func (d *step) withdrawDevices() {
	if d.state.GetStage() <= runningPod || len(d.state.GetDevices()) == 0 {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(d.state.Calls)) {
		if !messages.IsAboutDevices(d.state.Calls[id].GetRequest()) {
			continue
		}
		d.withdrawCall(id)
	}
}
