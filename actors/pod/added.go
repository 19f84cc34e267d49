package pod

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A container that comes into the manifest of a pod that runs makes the pod ask for more. The node is asked about the pod as a whole, as about a
// resize, and until then the container waits with it. Where the rest of the manifest can never be allocated, the node is asked for what was
// added alone. One that asks for nothing waits for nobody. ADR 014.

// messageNotCounted is why a container waits whose resources are not allocated.
const messageNotCounted = "the pod's new resources are not allocated yet"

// covers tells whether the pod has what it wants where a manifest is allocated to it.
func (a *Actor) covers(m *corev1.Pod) bool {
	if !a.state.GetAdditions() {
		return resources.Same(m, a.wanted)
	}
	return resources.Covers(m, a.wanted, a.state.AllocatedAdded)
}

// keepLeft notes what containers have that run, or are being started, and that neither the allocated manifest nor the wanted one has any more:
// should they come back before they have been stopped, they have it still. One that is wanted has come back while the node was asked about
// the pod without it, and does not count in what it was given. a.manifest is what was carried out until now.
func (a *Actor) keepLeft() {
	if a.manifest == nil || !a.state.GetAdditions() {
		return
	}
	for c := range a.all() {
		if !resources.Has(a.allocatedOrWanted(), c.Name) && !resources.Has(a.wanted, c.Name) && a.busy(c.Name) {
			a.add(c.Name, resources.Of(&c.Resources))
		}
	}
}

// tidyAdded forgets what containers were given that the allocated manifest has, or that neither the manifest has nor anything runs of.
func (a *Actor) tidyAdded() {
	maps.DeleteFunc(a.state.AllocatedAdded, func(name string, _ *journaletv1.Resources) bool {
		return resources.Has(a.allocatedOrWanted(), name) || !resources.Has(a.wanted, name) && !a.busy(name)
	})
	if len(a.state.AllocatedAdded) == 0 {
		a.state.AllocatedAdded = nil
	}
}

func (a *Actor) allocatedOrWanted() *corev1.Pod {
	if a.allocated != nil {
		return a.allocated
	}
	return a.wanted
}

// busy tells whether a container runs or is being started.
func (a *Actor) busy(name string) bool {
	return alive(a.record(name).GetCurrent()) || a.calling(startOf(name))
}

// isAdded tells whether nothing is allocated to a container, not even what it was started with.
func (a *Actor) isAdded(c *corev1.Container) bool {
	_, has := a.state.AllocatedAdded[c.Name]
	return a.state.GetAdditions() && a.allocated != nil && !has && !resources.Has(a.allocated, c.Name)
}

// notCounted tells whether a container asks for what is not in the pod's share of the node: it does not start.
func (a *Actor) notCounted(c *corev1.Container) bool { return a.isAdded(c) && resources.Asks(c) }

// uncounted are the names of such containers.
func (a *Actor) uncounted() []string {
	var names []string
	for c := range a.all() {
		if a.notCounted(c) {
			names = append(names, c.Name)
		}
	}
	return names
}

// counted is the pod without such containers.
func (a *Actor) counted() *corev1.Pod {
	names := a.uncounted()
	if len(names) == 0 {
		return a.manifest
	}
	p := a.manifest.DeepCopy()
	not := func(c corev1.Container) bool { return slices.Contains(names, c.Name) }
	p.Spec.InitContainers, p.Spec.Containers = slices.DeleteFunc(p.Spec.InitContainers, not), slices.DeleteFunc(p.Spec.Containers, not)
	return p
}

// addedDemand is what the pod takes of the node with such containers, beside what it takes without them.
func (a *Actor) addedDemand() *journaletv1.PodDemand {
	with, without := Demand(a.manifest), Demand(a.counted())
	with.MilliCpu -= without.GetMilliCpu()
	with.MemoryBytes -= without.GetMemoryBytes()
	return with
}

// added is what containers have that the allocated manifest lacks; a copy, since an event goes on telling what was so then.
func (a *Actor) added() map[string]*journaletv1.Resources { return maps.Clone(a.state.AllocatedAdded) }

// addedWith is what containers have that the allocated manifest lacks, when one more of them starts.
func (a *Actor) addedWith(c *corev1.Container) map[string]*journaletv1.Resources {
	added := a.added()
	if !a.isAdded(c) {
		return added
	}
	if added == nil {
		added = map[string]*journaletv1.Resources{}
	}
	added[c.Name] = resources.Of(&c.Resources)
	return added
}

// evolveAddedWith folds what a container is started with that the allocated manifest lacks.
func (a *Actor) evolveAddedWith(w *journaletv1.StartContainer) {
	if has := w.GetAllocatedAdded()[w.GetContainer()]; has != nil && a.state.GetAllocatedDigest() != "" {
		a.add(w.GetContainer(), has)
	}
}

// add notes what is allocated to a container, unless that is known.
func (a *Actor) add(name string, has *journaletv1.Resources) {
	if a.state.AllocatedAdded == nil {
		a.state.AllocatedAdded = map[string]*journaletv1.Resources{}
	}
	if a.state.AllocatedAdded[name] == nil {
		a.state.AllocatedAdded[name] = has
	}
}

// evolveAdditionDecided takes up the node's answer about containers that were added to a pod whose resize is infeasible.
func (a *Actor) evolveAdditionDecided(e actors.Event, k *journaletv1.ResizeDecided) {
	r := a.resizing()
	defer a.tidyResize()
	switch {
	case k.GetAllocated():
		for c := range (&Actor{manifest: e.Manifest}).all() {
			if a.allocated != nil && !resources.Has(a.allocated, c.Name) && resources.Asks(c) {
				a.add(c.Name, resources.Of(&c.Resources))
			}
		}
		// What is asked by now may be answered already: it is asked again as far as it is not.
		r.RequestedDigest, r.AskedAdded, r.Deferred = "", false, ""
		a.carryOut()
	case k.GetDigest() == r.GetRequestedDigest():
		r.Deferred = k.GetMessage()
	}
}

// anyStray tells whether something runs, or is being started, that the manifest no longer has: it has a part of the pod's share, which
// is not asked for anew before it has ended.
func (a *Actor) anyStray() bool {
	stray := func(c *journaletv1.ContainerObservation) bool { return alive(c) && a.spec(c.GetName()) == nil }
	for _, name := range slices.Sorted(maps.Keys(a.state.Containers)) {
		if stray(a.state.Containers[name].GetCurrent()) {
			return true
		}
	}
	return slices.ContainsFunc(a.state.GetObserved().GetContainers(), stray) || a.calling(func(r *journaletv1.CallRequested) bool {
		return r.GetStartContainer() != nil && a.spec(r.GetStartContainer().GetContainer()) == nil
	})
}
