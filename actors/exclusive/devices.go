package exclusive

import (
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Devices are the devices that a pod requests, while it is admitted. What is free changes with each container that has
// taken its own.
type Devices interface {
	// Containers are those with devices, in the order of their admission.
	Containers() []*journaletv1.ExclusiveRequest
	// Requests returns what a container requests, a resource each.
	Requests(container string) []DeviceRequest
	// PodRequests returns what the pod requests as a whole, a resource each, before any container has taken its own.
	PodRequests() []DeviceRequest
	// Take takes a container's devices, those at these NUMA nodes first; 0: wherever they are.
	Take(container string, nodes Mask)
}

// DeviceRequest is how many devices of one resource are requested, and the NUMA nodes of the existing devices: one mask
// for each device, 0 for a device at no node.
type DeviceRequest struct {
	Count int64
	// All are all devices of the resource, Free the devices that can be taken, Reusable the devices of the pod's
	// earlier init containers.
	All, Free, Reusable []Mask
}

// tally is how many devices are at some NUMA nodes.
type tally struct {
	at    Mask
	count int64
}

func tallied(deviceMasks []Mask) (all []tally) {
	deviceMasks = slices.Clone(deviceMasks)
	slices.Sort(deviceMasks)
	for _, m := range deviceMasks {
		if len(all) == 0 || all[len(all)-1].at != m {
			all = append(all, tally{at: m})
		}
		all[len(all)-1].count++
	}
	return all
}

// near returns how many devices are at one of some nodes.
func near(all []tally, nodes Mask) (n int64) {
	for _, t := range all {
		if t.at&nodes != 0 {
			n += t.count
		}
	}
	return n
}

// hints returns the hints for devices: sets of nodes with enough that are free. A resource whose devices are at no node
// has no preference.
func (d DeviceRequest) hints(every Mask) Hints {
	all, free, reusable := tallied(d.All), tallied(d.Free), tallied(d.Reusable)
	var at Mask
	for _, t := range all {
		at |= t.at
	}
	if at == 0 {
		return anywhere()
	}
	if int64(len(d.Free)+len(d.Reusable)) < d.Count {
		return nil
	}
	nodes := (at & every).nodes()
	if len(nodes) == 0 {
		nodes = every.nodes()
	}
	least, located := len(nodes), near(reusable, ^Mask(0))
	var out Hints
	for mask := range masks(nodes) {
		if near(all, mask) >= d.Count {
			least = min(least, mask.count())
		}
		reused := near(reusable, mask)
		if reused == located && reused+near(free, mask) >= d.Count {
			out = append(out, Hint{Nodes: mask})
		}
	}
	for i := range out {
		out[i].Preferred = out[i].Nodes.count() == least
	}
	return out
}

// deviceHints returns the hints for some requests of devices.
func (s *Settings) deviceHints(all []DeviceRequest) (out []Hints) {
	for _, d := range all {
		out = append(out, d.hints(s.nodes))
	}
	return out
}

// noDevices is a pod that requests none.
type noDevices struct{}

func (noDevices) Containers() []*journaletv1.ExclusiveRequest { return nil }
func (noDevices) Requests(string) []DeviceRequest             { return nil }
func (noDevices) PodRequests() []DeviceRequest                { return nil }
func (noDevices) Take(string, Mask)                           {}
