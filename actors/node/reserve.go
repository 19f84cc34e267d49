package node

import (
	"maps"
	"slices"

	"github.com/journalet/journalet/actors/exclusive"
	"github.com/journalet/journalet/messages/journaletv1"
)

// What a pod is to get is reserved for it while the pods that it waits for end: others that are admitted meanwhile get
// none of it. In the kubelet nothing comes between, since it waits for their end while it admits the pod.

// reservationsExcept returns what is reserved for other pods: for pods that wait for others to end, in the order of
// their waiting, and for pods that had something before the journal began.
func (a *Actor) reservationsExcept(uid string) []*journaletv1.Reservation {
	var all []*journaletv1.Reservation
	for _, q := range a.state.GetPendingPreemption() {
		if r := a.state.GetReservations()[q.GetUid()]; r != nil && q.GetUid() != uid {
			all = append(all, r)
		}
	}
	for _, other := range slices.Sorted(maps.Keys(a.state.GetKubeletPods())) {
		if had := a.state.KubeletPods[other]; other != uid {
			all = append(all, &journaletv1.Reservation{Devices: had.GetDevices(), Exclusive: had.GetExclusive()})
		}
	}
	return all
}

// allocatePreemptor returns what a pod gets that others were preempted for: what is reserved for it, or, as long as one
// that ends has some of that, or a device is not healthy any more, what else there is. What it runs with, it keeps.
func (a *Actor) allocatePreemptor(q *journaletv1.AdmissionRequested) (grant, *rejection) {
	r := a.state.GetReservations()[q.GetUid()]
	if r != nil && (r.GetKept() || a.healthy(r.GetDevices())) && !a.stillHeld(r) {
		return grant{devices: r.GetDevices(), exclusive: r.GetExclusive()}, nil
	}
	return a.allocate(q, nil)
}

// healthy reports whether plugins that are there offer all of some devices, and say that they are healthy.
func (a *Actor) healthy(list []*journaletv1.ContainerDevices) bool {
	return !slices.ContainsFunc(list, func(d *journaletv1.ContainerDevices) bool {
		r := a.state.Devices[d.GetResource()]
		return !r.GetConnected() || slices.ContainsFunc(d.GetIds(), func(id string) bool {
			return !r.GetDevices()[id].GetHealthy()
		})
	})
}

// stillHeld reports whether a pod that has not terminated has some of what is reserved for another one. Memory counts
// by its NUMA nodes.
func (a *Actor) stillHeld(r *journaletv1.Reservation) bool {
	cpus, nodes := exclusive.Pod(r.GetExclusive()).CPUs(), memoryNodes(r.GetExclusive())
	for _, uid := range slices.Sorted(maps.Keys(a.victims)) {
		p := a.state.Pods[uid]
		if !exclusive.Pod(p.GetExclusive()).CPUs().Intersection(cpus).IsEmpty() ||
			memoryNodes(p.GetExclusive())&nodes != 0 || sharesDevice(p.GetDevices(), r.GetDevices()) {
			return true
		}
	}
	return false
}

// memoryNodes returns the NUMA nodes that containers have memory of.
func memoryNodes(list []*journaletv1.ExclusiveContainer) (m exclusive.Mask) {
	for _, c := range list {
		m |= exclusive.MaskOf(c.GetMemoryNodes()...)
	}
	return m
}

func sharesDevice(x, y []*journaletv1.ContainerDevices) bool {
	has := deviceSet(x)
	return slices.ContainsFunc(y, func(d *journaletv1.ContainerDevices) bool {
		return slices.ContainsFunc(d.GetIds(), func(id string) bool { return has[[2]string{d.GetResource(), id}] })
	})
}

// deviceSet returns the devices of a list, each as its resource and id.
func deviceSet(list []*journaletv1.ContainerDevices) map[[2]string]bool {
	set := map[[2]string]bool{}
	for _, d := range list {
		for _, id := range d.GetIds() {
			set[[2]string{d.GetResource(), id}] = true
		}
	}
	return set
}
