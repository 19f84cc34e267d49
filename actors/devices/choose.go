package devices

import (
	"maps"
	"slices"

	"github.com/journalet/journalet/actors/exclusive"
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

// Shortage is a resource that a pod demands more of than is free.
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
	// Request is the first request to a plugin whose preference is not known yet, without its number and its pod. It is
	// nil if no preference is to be requested.
	Request *journaletv1.PreferredDevicesRequested
}

// Choose chooses the devices of a pod wherever they are: as a Chooser does that is finished at once.
func Choose(
	demand []*journaletv1.DeviceDemand, pools map[string]Pool, preferred []*journaletv1.ContainerDevices,
) Choice {
	return NewChooser(demand, pools, preferred).Finish()
}

// Chooser chooses the devices of a pod, container by container. A container gets devices that plain init containers
// before it had, then devices at the NUMA nodes that the container is to be at, then devices at other nodes, then
// devices at no node. Among equal devices the plugin's preferred ones come first, then the others, by id. All are
// healthy and free. A plain init container leaves its devices to the containers after it (kubelet: the same).
type Chooser struct {
	choice    Choice
	demand    []*journaletv1.DeviceDemand
	pools     map[string]Pool
	preferred []*journaletv1.ContainerDevices
	// taken is what is chosen, by the index in demand.
	taken []bool
	// own are the devices that the pod's containers have. reusable are the devices of plain init containers that no
	// other container keeps. Both are by resource.
	own, reusable map[string]map[string]bool
}

var _ exclusive.Devices = (*Chooser)(nil)

// NewChooser returns a chooser of a pod that has nothing yet. preferred is what plugins have answered for it.
func NewChooser(
	demand []*journaletv1.DeviceDemand, pools map[string]Pool, preferred []*journaletv1.ContainerDevices,
) *Chooser {
	c := &Chooser{
		demand: demand, pools: pools, preferred: preferred, taken: make([]bool, len(demand)),
		own: map[string]map[string]bool{}, reusable: map[string]map[string]bool{},
	}
	for _, d := range demand {
		c.own[d.GetResource()], c.reusable[d.GetResource()] = map[string]bool{}, map[string]bool{}
	}
	return c
}

// Containers are those with devices, in the order of their admission.
func (c *Chooser) Containers() (all []*journaletv1.ExclusiveRequest) {
	for _, d := range c.demand {
		if n := len(all); n == 0 || all[n-1].GetContainer() != d.GetContainer() {
			all = append(all, &journaletv1.ExclusiveRequest{Container: d.GetContainer(), Init: d.GetInit()})
		}
	}
	return all
}

// Requests returns the device requests of a container, one for each resource. It skips resources without a pool, which
// no plugin offers.
func (c *Chooser) Requests(container string) (all []exclusive.DeviceRequest) {
	for _, d := range c.demand {
		if pool, has := c.pools[d.GetResource()]; has && d.GetContainer() == container {
			all = append(all, c.request(d.GetResource(), d.GetCount(), pool))
		}
	}
	return all
}

// PodRequests returns what the pod requests as a whole, a resource each.
func (c *Chooser) PodRequests() (all []exclusive.DeviceRequest) {
	seen := map[string]bool{}
	for _, d := range c.demand {
		name := d.GetResource()
		if pool, has := c.pools[name]; has && !seen[name] {
			seen[name] = true
			all = append(all, c.request(name, requested(c.demand, name), pool))
		}
	}
	return all
}

func (c *Chooser) request(name string, count int64, pool Pool) exclusive.DeviceRequest {
	masks := func(ids []string) (out []exclusive.Mask) {
		for _, id := range ids {
			out = append(out, maskOf(pool, id))
		}
		return out
	}
	return exclusive.DeviceRequest{
		Count: count, All: masks(slices.Sorted(maps.Keys(pool.Resource.GetDevices()))), Free: masks(c.free(name, pool)),
		Reusable: masks(slices.Sorted(maps.Keys(c.reusable[name]))),
	}
}

// maskOf returns the NUMA nodes of a device.
func maskOf(pool Pool, id string) exclusive.Mask {
	return exclusive.MaskOf(pool.Resource.GetDevices()[id].GetNumaNodes()...)
}

// Take takes the devices of a container, those at these NUMA nodes first; 0: wherever they are.
func (c *Chooser) Take(container string, nodes exclusive.Mask) {
	for i, d := range c.demand {
		pool, has := c.pools[d.GetResource()]
		if !has || c.taken[i] || d.GetContainer() != container || c.choice.Short != nil {
			continue
		}
		c.taken[i] = true
		if short := c.choose(d, pool, nodes); short {
			c.choice.Short = shortage(c.demand, d.GetResource(), pool)
		}
	}
}

// Finish takes the devices of all containers that have none yet, wherever they are, and returns what is chosen.
func (c *Chooser) Finish() Choice {
	for _, d := range c.demand {
		c.Take(d.GetContainer(), 0)
	}
	return c.choice
}

// choose chooses for one container and resource.
func (c *Chooser) choose(d *journaletv1.DeviceDemand, pool Pool, nodes exclusive.Mask) (short bool) {
	name := d.GetResource()
	ids := slices.Sorted(maps.Keys(c.reusable[name]))
	ids = ids[:min(int64(len(ids)), d.GetCount())]
	free := c.free(name, pool)
	if int64(len(ids)+len(free)) < d.GetCount() {
		return true
	}
	rest := int(d.GetCount()) - len(ids)
	at, others := byNodes(pool, free, nodes)
	if rest < len(at) {
		ids = append(ids, c.some(d, pool, ids, at, rest)...)
	} else {
		ids, rest = append(ids, at...), rest-len(at)
		ids = append(ids, c.some(d, pool, ids, others, rest)...)
	}
	for _, id := range ids {
		c.own[name][id] = true
		delete(c.reusable[name], id)
		if d.GetInit() {
			c.reusable[name][id] = true
		}
	}
	slices.Sort(ids)
	c.choice.Devices = append(c.choice.Devices, &journaletv1.ContainerDevices{
		Container: d.GetContainer(), Resource: name, Ids: ids, PreStart: pool.Resource.GetPreStart(),
	})
	return false
}

// byNodes divides devices into those at some NUMA nodes, and the others: first those at other nodes, then those at
// none. Without nodes all are others, in their order.
func byNodes(pool Pool, free []string, nodes exclusive.Mask) (at, others []string) {
	if nodes == 0 {
		return nil, free
	}
	var none []string
	for _, id := range free {
		switch m := maskOf(pool, id); {
		case m == 0:
			none = append(none, id)
		case m&nodes != 0:
			at = append(at, id)
		default:
			others = append(others, id)
		}
	}
	return at, append(others, none...)
}

// some returns n of the devices in from, beside the chosen devices. The plugin's preferred devices come first. If the
// plugin's preference is not known yet, the choice requests it.
func (c *Chooser) some(d *journaletv1.DeviceDemand, pool Pool, chosen, from []string, n int) []string {
	if n == 0 {
		return nil
	}
	wish, known := find(c.preferred, d)
	available := slices.Sorted(slices.Values(slices.Concat(chosen, from)))
	if !known && c.choice.Request == nil && pool.Resource.GetPreferred() && n < len(from) &&
		len(available) <= maxAvailable {
		c.choice.Request = &journaletv1.PreferredDevicesRequested{
			Container: d.GetContainer(), Resource: d.GetResource(), Available: available,
			Chosen: slices.Sorted(slices.Values(chosen)), Count: d.GetCount(),
		}
	}
	return firstOf(wish, from, n)
}

// free returns the devices of a pool that nobody has, sorted.
func (c *Chooser) free(name string, pool Pool) []string {
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

// firstOf returns n of the devices in from. The devices in wish come first, in its order.
func firstOf(wish, from []string, n int) []string {
	may := map[string]bool{}
	for _, id := range from {
		may[id] = true
	}
	var ids []string
	for _, list := range [][]string{wish, from} {
		for _, id := range list {
			if may[id] && len(ids) < n {
				delete(may, id)
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

// shortage describes a resource that does not suffice.
func shortage(demand []*journaletv1.DeviceDemand, name string, pool Pool) *Shortage {
	return &Shortage{
		Resource: name, Requested: requested(demand, name), Used: int64(len(pool.Taken)),
		Capacity: Allocatable(pool.Resource),
	}
}

// requested returns how many devices a pod requests of a resource. As in the kubelet it is the sum of its main
// containers and sidecars, or what an init container needs beside the sidecars before it, if that is more.
func requested(demand []*journaletv1.DeviceDemand, name string) int64 {
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
	return max(kept, most)
}

// saturated returns the sum of two amounts that are not negative, or the largest int64.
func saturated(x, y int64) int64 {
	if sum := x + y; sum >= 0 {
		return sum
	}
	return 1<<63 - 1
}

// Keep returns the devices of a pod's containers, in the order of the demand, if the containers can keep the devices
// that they had: their plugins offer these devices, healthy or not, as many as are demanded, and no other pod has them.
// It skips resources without a pool.
func Keep(
	demand []*journaletv1.DeviceDemand, pools map[string]Pool, had []*journaletv1.ContainerDevices,
) ([]*journaletv1.ContainerDevices, bool) {
	var out []*journaletv1.ContainerDevices
	own := map[[2]string]bool{} // by resource and id, of containers that run beside the next one
	for _, d := range demand {
		pool, has := pools[d.GetResource()]
		if !has {
			continue
		}
		ids, _ := find(had, d)
		ids = slices.Compact(slices.Sorted(slices.Values(ids)))
		if int64(len(ids)) != d.GetCount() {
			return nil, false
		}
		for _, id := range ids {
			key := [2]string{d.GetResource(), id}
			if pool.Resource.GetDevices()[id] == nil || pool.Taken[id] || own[key] {
				return nil, false
			}
			own[key] = !d.GetInit()
		}
		out = append(out, &journaletv1.ContainerDevices{
			Container: d.GetContainer(), Resource: d.GetResource(), Ids: ids, PreStart: pool.Resource.GetPreStart(),
		})
	}
	return out, true
}
