package devices

import (
	"maps"
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
)

// MaxOfNode bounds the devices of all plugins that are there. The kubelet has no bound; a hundred are many.
const MaxOfNode = 16384

// maxAvailable bounds how many devices a plugin is to choose from: the request is recorded.
const maxAvailable = 1024

// Pool is the devices of one resource.
type Pool struct {
	Resource *journaletv1.DeviceResource
	// Taken are the ids that other pods have.
	Taken map[string]bool
}

// Allocatable returns how many devices of a resource are healthy, of a plugin that is there.
func Allocatable(r *journaletv1.DeviceResource) int64 {
	n := int64(0)
	if r.GetConnected() {
		for _, id := range slices.Sorted(maps.Keys(r.GetDevices())) {
			if r.GetDevices()[id].GetHealthy() {
				n++
			}
		}
	}
	return n
}

// Shortage is a resource of which a pod demands more than is free.
type Shortage struct {
	Resource string
	// Requested is what the pod needs, Used what other pods have, Capacity what is allocatable.
	Requested, Used, Capacity int64
}

// Choice is what a pod gets.
type Choice struct {
	// Devices are in the order of the demand. A resource without a pool has none.
	Devices []*journaletv1.ContainerDevices
	// Short is set if a resource does not suffice: then Devices is of no use.
	Short *Shortage
	// Request is the first one to a plugin that has a preference which is not known yet, without its number and its pod;
	// nil: there is none.
	Request *journaletv1.PreferredDevicesRequested
}

// Choose chooses the devices of a pod. A container gets devices that plain init containers before it had, then those
// that its plugin prefers, then others that are healthy and free, by id. A plain init container leaves its devices to
// the containers after it (kubelet: the same).
func Choose(
	demand []*journaletv1.DeviceDemand, pools map[string]Pool, preferred []*journaletv1.ContainerDevices,
) Choice {
	c := chooser{own: map[string]map[string]bool{}, reusable: map[string]map[string]bool{}}
	for _, d := range demand {
		pool, has := pools[d.GetResource()]
		if !has {
			continue
		}
		if short := c.choose(d, pool, preferred); short {
			c.Short = shortage(demand, d.GetResource(), pool)
			return c.Choice
		}
	}
	return c.Choice
}

type chooser struct {
	Choice
	// own are the devices that the pod's containers have, reusable those of plain init containers that no other container
	// keeps, both by resource.
	own, reusable map[string]map[string]bool
}

// choose chooses for one container and resource.
func (c *chooser) choose(
	d *journaletv1.DeviceDemand, pool Pool, preferred []*journaletv1.ContainerDevices,
) (short bool) {
	name := d.GetResource()
	if c.own[name] == nil {
		c.own[name], c.reusable[name] = map[string]bool{}, map[string]bool{}
	}
	ids := slices.Sorted(maps.Keys(c.reusable[name]))
	ids = ids[:min(int64(len(ids)), d.GetCount())]
	free := c.free(name, pool)
	if int64(len(ids)+len(free)) < d.GetCount() {
		return true
	}
	if rest := int(d.GetCount()) - len(ids); rest > 0 {
		wish, known := find(preferred, d)
		available := slices.Sorted(slices.Values(slices.Concat(ids, free)))
		if !known && c.Request == nil && pool.Resource.GetPreferred() && rest < len(free) && len(available) <= maxAvailable {
			c.Request = &journaletv1.PreferredDevicesRequested{
				Container: d.GetContainer(), Resource: name, Available: available, Chosen: slices.Clone(ids),
				Count: d.GetCount(),
			}
		}
		ids = append(ids, firstOf(wish, free, rest)...)
	}
	for _, id := range ids {
		c.own[name][id] = true
		delete(c.reusable[name], id)
		if d.GetInit() {
			c.reusable[name][id] = true
		}
	}
	slices.Sort(ids)
	c.Devices = append(c.Devices, &journaletv1.ContainerDevices{
		Container: d.GetContainer(), Resource: name, Ids: ids, PreStart: pool.Resource.GetPreStart(),
	})
	return false
}

// free returns the devices of a pool that nobody has, sorted.
func (c *chooser) free(name string, pool Pool) []string {
	if !pool.Resource.GetConnected() {
		return nil
	}
	var free []string
	for _, id := range slices.Sorted(maps.Keys(pool.Resource.GetDevices())) {
		if pool.Resource.GetDevices()[id].GetHealthy() && !pool.Taken[id] && !c.own[name][id] {
			free = append(free, id)
		}
	}
	return free
}

// firstOf returns n of the free devices: those that are wished for first, in the order of the wish.
func firstOf(wish, free []string, n int) []string {
	var ids []string
	for _, list := range [][]string{wish, free} {
		for _, id := range list {
			if _, is := slices.BinarySearch(free, id); is && len(ids) < n && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// find returns a plugin's preference for a container and resource; false if it is not known.
func find(preferred []*journaletv1.ContainerDevices, d *journaletv1.DeviceDemand) ([]string, bool) {
	for _, p := range preferred {
		if p.GetContainer() == d.GetContainer() && p.GetResource() == d.GetResource() {
			return p.GetIds(), true
		}
	}
	return nil, false
}

// shortage describes a resource that does not suffice. As in the kubelet's predicate, what a pod requests is the sum of
// its main containers and sidecars, or what an init container needs beside the sidecars before it, if that is more.
func shortage(demand []*journaletv1.DeviceDemand, name string, pool Pool) *Shortage {
	kept, most := int64(0), int64(0)
	for _, d := range demand {
		switch {
		case d.GetResource() != name:
		case d.GetInit():
			most = max(most, saturated(kept, d.GetCount()))
		default:
			kept = saturated(kept, d.GetCount())
		}
	}
	return &Shortage{
		Resource: name, Requested: max(kept, most), Used: int64(len(pool.Taken)), Capacity: Allocatable(pool.Resource),
	}
}

// saturated returns the sum of two amounts that are not negative, or the largest int64.
func saturated(x, y int64) int64 {
	if sum := x + y; sum >= 0 {
		return sum
	}
	return 1<<63 - 1
}
