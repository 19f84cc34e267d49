package pod

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// evolveDevicesAllocated folds which devices the pod's containers have.
func (a *Actor) evolveDevicesAllocated(all []*journaletv1.ContainerDevices) {
	a.state.Devices = nil
	for _, d := range all {
		a.state.Devices = append(a.state.Devices, &journaletv1.DeviceAllocation{Devices: d})
	}
}

// evolveAllocated folds the answer of a plugin.
func (a *Actor) evolveAllocated(e actors.Event, w *journaletv1.AllocateDevices, f *journaletv1.CallFinished) {
	if f.GetError() == journaletv1.CallError_CALL_ERROR_WITHDRAWN {
		return
	}
	for _, alloc := range a.state.GetDevices() {
		if alloc.GetDevices().GetContainer() != w.GetContainer() ||
			alloc.GetDevices().GetResource() != w.GetResource() {
			continue
		}
		if f.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
			alloc.Failures++
			alloc.FailedAt, alloc.Refused = timestamppb.New(e.Time), !f.GetRetryable()
			alloc.Message = cmp.Or(f.GetMessage(), f.GetError().String())
			return
		}
		alloc.Failures, alloc.FailedAt, alloc.Message = 0, nil, ""
		alloc.Devices = proto.CloneOf(alloc.GetDevices()) // the event's devices are shared
		alloc.Devices.Answer = cmp.Or(f.GetDeviceAnswer(), new(journaletv1.DeviceAnswer))
	}
}

// evolvePreStarted folds that plugins have prepared a container's devices for its next start, or why not: then that
// start has failed.
func (a *Actor) evolvePreStarted(e actors.Event, w *journaletv1.PreStartContainer, f *journaletv1.CallFinished) {
	r := a.ensureRecord(w.GetContainer())
	switch f.GetError() {
	case journaletv1.CallError_CALL_ERROR_UNSPECIFIED:
		r.DevicesPrepared = true
	case journaletv1.CallError_CALL_ERROR_WITHDRAWN:
	default:
		r.StartFailures++
		r.StartFailedAt, r.StartError = timestamppb.New(e.Time), startError(f, false)
	}
}

// forgetPreStarts folds that the agent has started: plugins may have started again meanwhile.
func (a *Actor) forgetPreStarts() {
	for _, name := range slices.Sorted(maps.Keys(a.state.Containers)) {
		a.state.Containers[name].DevicesPrepared = false
	}
}

// evolveDeviceHealth folds the health of the pod's devices of one resource.
func (a *Actor) evolveDeviceHealth(h *journaletv1.DeviceHealthDecided) {
	for _, alloc := range a.state.GetDevices() {
		if alloc.GetDevices().GetResource() != h.GetResource() {
			continue
		}
		alloc.Unhealthy = nil
		for _, d := range h.GetDevices() {
			if slices.Contains(alloc.GetDevices().GetIds(), d.GetId()) {
				alloc.Unhealthy = append(alloc.Unhealthy, d)
			}
		}
	}
}
