package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/devices"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// What device plugins offer, and which pod has what (ADR 065). A pod waits for a plugin by itself: the node answers the
// requests after it meanwhile.

// ReasonNoPlugin is the reason of a pod that waits for a device plugin.
const ReasonNoPlugin = "DevicePluginNotReady"

const (
	// pluginTimer begins the names of the timers that end the capacity of resources whose plugins are away.
	pluginTimer = "devices "
	// pluginAway is how long that takes. kubelet: 5 min.
	pluginAway = 5 * time.Minute
	// maxResources bounds how many resources are kept.
	maxResources = 128
	// keptDevices bounds the devices that are kept: devices of connected plugins, and of some plugins that are away.
	keptDevices = 2 * devices.MaxOfNode
)

// evolveDevices folds what concerns devices; fired is the timer that fired.
func (a *Actor) evolveDevices(e actors.Event, fired string) {
	s := a.state
	if name, away := strings.CutPrefix(fired, pluginTimer); away && s.Devices[name] != nil {
		s.Devices[name].Devices = nil
	}
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		for _, name := range slices.Sorted(maps.Keys(s.Devices)) {
			s.Devices[name].Connected = false
		}
		for _, uid := range slices.Sorted(maps.Keys(s.DeviceWaits)) {
			s.DeviceWaits[uid].RequestId = 0 // nobody will answer
		}
	case *journaletv1.Event_DevicesObserved:
		a.evolveDevicesObserved(k.DevicesObserved)
	case *journaletv1.Event_AdmissionDeferred:
		if d := k.AdmissionDeferred; d.GetReason() == ReasonNoPlugin || waitsForKept(d.GetReason()) {
			w := a.ensureWait(d.GetUid())
			w.Message, w.Kept = d.GetMessage(), waitsForKept(d.GetReason())
		}
	case *journaletv1.Event_PreferredDevicesRequested:
		q := k.PreferredDevicesRequested
		s.DeviceRequestId = q.GetRequestId()
		w := a.ensureWait(q.GetUid())
		w.RequestId, w.Container, w.Resource = q.GetRequestId(), q.GetContainer(), q.GetResource()
	case *journaletv1.Event_PreferredDevicesRead:
		read := k.PreferredDevicesRead
		if w := s.DeviceWaits[read.GetUid()]; w != nil && w.GetRequestId() == read.GetRequestId() {
			w.RequestId = 0
			w.Preferred = append(w.Preferred, &journaletv1.ContainerDevices{
				Container: w.GetContainer(), Resource: w.GetResource(), Ids: read.GetIds(),
			})
		}
	case *journaletv1.Event_DeviceCapacityDecided:
		if r := s.Devices[k.DeviceCapacityDecided.GetResource()]; r != nil {
			r.Capacity, r.Allocatable = k.DeviceCapacityDecided.GetCapacity(), k.DeviceCapacityDecided.GetAllocatable()
		}
	case *journaletv1.Event_DeviceHealthDecided:
		a.evolveHealth(k.DeviceHealthDecided)
	}
}

// evolveDevicesObserved folds what a plugin offers.
func (a *Actor) evolveDevicesObserved(o *journaletv1.DevicesObserved) {
	s := a.state
	if s.Devices == nil {
		s.Devices = map[string]*journaletv1.DeviceResource{}
	}
	r := s.Devices[o.GetResource()]
	a.makeRoom(o)
	if r == nil {
		r = new(journaletv1.DeviceResource)
		s.Devices[o.GetResource()] = r
	}
	if o.GetAll() {
		r.Devices = nil
	}
	if r.Devices == nil {
		r.Devices = map[string]*journaletv1.Device{}
	}
	r.Connected = o.GetConnected()
	if o.GetConnected() {
		r.PreStart, r.Preferred = o.GetPreStart(), o.GetPreferred()
	}
	for _, d := range o.GetChanged() {
		r.Devices[d.GetId()] = d
	}
	for _, id := range o.GetRemoved() {
		delete(r.Devices, id)
	}
}

// makeRoom forgets resources whose plugins are away, those without a device first, where what a plugin offers is too
// much beside them.
func (a *Actor) makeRoom(o *journaletv1.DevicesObserved) {
	s := a.state
	resources, count := len(s.Devices), len(o.GetChanged())
	if s.Devices[o.GetResource()] == nil {
		resources++
	}
	var away []string
	for _, name := range slices.Sorted(maps.Keys(s.Devices)) {
		r := s.Devices[name]
		count += len(r.GetDevices())
		if name != o.GetResource() && !r.GetConnected() {
			away = append(away, name)
		}
	}
	slices.SortStableFunc(away, func(x, y string) int {
		return cmp.Compare(len(s.Devices[x].GetDevices()), len(s.Devices[y].GetDevices()))
	})
	for _, name := range away {
		if resources <= maxResources && count <= keptDevices {
			return
		}
		resources, count = resources-1, count-len(s.Devices[name].GetDevices())
		delete(s.Devices, name)
	}
}

func (a *Actor) ensureWait(uid string) *journaletv1.DeviceWait {
	s := a.state
	if s.DeviceWaits == nil {
		s.DeviceWaits = map[string]*journaletv1.DeviceWait{}
	}
	if s.DeviceWaits[uid] == nil {
		s.DeviceWaits[uid] = new(journaletv1.DeviceWait)
	}
	return s.DeviceWaits[uid]
}

func (a *Actor) evolveHealth(h *journaletv1.DeviceHealthDecided) {
	p := a.state.Pods[h.GetUid()]
	switch {
	case p == nil:
	case len(h.GetDevices()) == 0:
		delete(p.UnhealthyDevices, h.GetResource())
	default:
		if p.UnhealthyDevices == nil {
			p.UnhealthyDevices = map[string]*journaletv1.UnhealthyDevices{}
		}
		p.UnhealthyDevices[h.GetResource()] = &journaletv1.UnhealthyDevices{Devices: h.GetDevices()}
	}
}

// missingPlugin returns the resource whose plugin a pod waits for; "" if it waits for none.
func (a *Actor) missingPlugin(q *journaletv1.AdmissionRequested) string {
	for _, d := range q.GetDevices() {
		r := a.state.Devices[d.GetResource()]
		if r == nil && q.GetSharesName() {
			continue // no plugin has offered it: the scheduler alone counts it
		}
		if !r.GetConnected() {
			return d.GetResource()
		}
	}
	return ""
}

// chooser returns a chooser of the devices of a pod, where some pods have ended; nil: none has. What is reserved for
// others is not free.
func (a *Actor) chooser(q *journaletv1.AdmissionRequested, ended func(uid string) bool) *devices.Chooser {
	return devices.NewChooser(q.GetDevices(), a.pools(q, ended), a.state.DeviceWaits[q.GetUid()].GetPreferred())
}

// pools returns the devices of the resources that a pod demands, by resource, where some pods have ended; nil: none
// has.
func (a *Actor) pools(q *journaletv1.AdmissionRequested, ended func(uid string) bool) map[string]devices.Pool {
	pools := map[string]devices.Pool{}
	for _, d := range q.GetDevices() {
		if r := a.state.Devices[d.GetResource()]; r != nil {
			pools[d.GetResource()] = devices.Pool{Resource: r, Taken: map[string]bool{}}
		}
	}
	if len(pools) == 0 {
		return pools
	}
	for _, uid := range slices.Sorted(maps.Keys(a.state.Pods)) {
		p := a.state.Pods[uid]
		if ended != nil && ended(uid) {
			continue
		}
		if p.GetTerminated() {
			continue
		}
		take(pools, p.GetDevices())
	}
	for _, r := range a.reservationsExcept(q.GetUid()) {
		take(pools, r.GetDevices())
	}
	return pools
}

// take notes in pools which devices are taken.
func take(pools map[string]devices.Pool, taken []*journaletv1.ContainerDevices) {
	for _, d := range taken {
		if pool, has := pools[d.GetResource()]; has {
			for _, id := range d.GetIds() {
				pool.Taken[id] = true
			}
		}
	}
}

// outOfDevices returns the rejection of a pod that the node has too few devices for, in the kubelet's words; nil if
// there are enough. No pod is preempted for devices.
func outOfDevices(c devices.Choice) *rejection {
	if c.Short == nil {
		return nil
	}
	return &rejection{"OutOf" + c.Short.Resource, fmt.Sprintf(
		"Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
		c.Short.Resource, c.Short.Requested, c.Short.Used, c.Short.Capacity)}
}

// awaitsPlugin reports whether a pod waits for a device plugin, and defers its admission if that is new.
func (a *Actor) awaitsPlugin(q *journaletv1.AdmissionRequested, emit actors.Emit) bool {
	name := a.missingPlugin(q)
	if name == "" {
		return a.state.DeviceWaits[q.GetUid()].GetRequestId() != 0
	}
	message := fmt.Sprintf("waits for the device plugin of %s; the pod is admitted when it registers", name)
	if a.state.DeviceWaits[q.GetUid()].GetMessage() == message {
		return true
	}
	emit(messages.NewEvent(&journaletv1.AdmissionDeferred{
		Uid: q.GetUid(), Reason: ReasonNoPlugin, Message: message,
	}))
	return true
}

// preferenceRequested returns the request to a plugin that says what it prefers for a pod.
func (a *Actor) preferenceRequested(
	q *journaletv1.AdmissionRequested, r *journaletv1.PreferredDevicesRequested,
) *journaletv1.Event {
	r.Uid, r.RequestId = q.GetUid(), a.state.GetDeviceRequestId()+1
	return messages.NewEvent(r)
}

// admitAwaiting decides on the pods that wait for a device plugin, in the order of their requests; once more, when
// what was kept for one of them is kept no longer.
func (a *Actor) admitAwaiting(emit actors.Emit) {
	kept := len(a.state.GetKubeletPods())
	a.admitAll(emit)
	if len(a.state.GetKubeletPods()) != kept {
		a.admitKept(emit)
	}
}

func (a *Actor) admitAll(emit actors.Emit) {
	var all []*journaletv1.AdmissionRequested
	for _, uid := range slices.Sorted(maps.Keys(a.state.DeviceWaits)) {
		if q := a.waitingRequest(uid); q != nil && a.state.Names[queueOf(q)] == "" && !a.closed(q.GetPriority()) {
			all = append(all, q)
		}
	}
	slices.SortStableFunc(all, func(x, y *journaletv1.AdmissionRequested) int {
		return int(int64(x.GetIncarnation()) - int64(y.GetIncarnation()))
	})
	for _, q := range all {
		if a.state.Names[queueOf(q)] != "" {
			continue // the one before has taken their name
		}
		a.admit(q, emit)
	}
}

// decideDevices decides what follows for devices, and for the pods that wait for them or have them.
func (a *Actor) decideDevices(e actors.Event, emit actors.Emit) {
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		// The capacity stays as it was: pods wait until the plugins are back.
		for _, name := range slices.Sorted(maps.Keys(a.state.Devices)) {
			a.timeAway(name, emit)
		}
	case *journaletv1.Event_DevicesObserved:
		name := k.DevicesObserved.GetResource()
		if k.DevicesObserved.GetMore() {
			return
		}
		a.timeAway(name, emit)
		a.reportDevices(name, emit)
		a.admitAwaiting(emit)
		a.admitPending(emit)
	case *journaletv1.Event_PreferredDevicesRead:
		a.admitAwaiting(emit)
	case *journaletv1.Event_TimerFired:
		if name, away := strings.CutPrefix(k.TimerFired.GetName(), pluginTimer); away {
			a.reportDevices(name, emit)
			return
		}
	}
}

// timeAway sets the timer of a resource whose plugin is away, and clears the timer if the plugin is connected.
func (a *Actor) timeAway(name string, emit actors.Emit) {
	r := a.state.Devices[name]
	ev := actors.ClearTimer(a.state.Timers, pluginTimer+name)
	if !r.GetConnected() {
		ev = nil
		if len(r.GetDevices()) > 0 {
			ev = actors.SetTimer(a.state.Timers, pluginTimer+name, pluginAway)
		}
	}
	if ev == nil {
		return
	}
	emit(ev)
}

// reportDevices decides the capacity of a resource, and the health of the devices that pods have of it, where they have
// changed.
func (a *Actor) reportDevices(name string, emit actors.Emit) {
	r := a.state.Devices[name]
	if r == nil {
		return
	}
	c := &journaletv1.DeviceCapacityDecided{
		Resource: name, Capacity: int64(len(r.GetDevices())), Allocatable: devices.Allocatable(r),
	}
	// A plugin that has gone without a device has its resource on the Node all the same, as with the kubelet.
	none := !r.GetConnected() && len(r.GetDevices()) == 0
	if c.GetCapacity() != r.GetCapacity() || c.GetAllocatable() != r.GetAllocatable() || none {
		emit(messages.NewEvent(c))
	}
	for _, uid := range slices.Sorted(maps.Keys(a.state.Pods)) {
		if h := a.healthOf(uid, name, r); h != nil {
			emit(messages.NewEvent(h))
		}
	}
}

// healthOf returns the health of a pod's devices of a resource; nil if it has none or was reported so.
func (a *Actor) healthOf(uid, name string, r *journaletv1.DeviceResource) *journaletv1.DeviceHealthDecided {
	p := a.state.Pods[uid]
	if p.GetTerminated() {
		return nil
	}
	var ids []string
	for _, d := range p.GetDevices() {
		if d.GetResource() == name {
			ids = append(ids, d.GetIds()...)
		}
	}
	slices.Sort(ids)
	var now []*journaletv1.HealthOfDevice
	for _, id := range slices.Compact(ids) {
		switch d := r.GetDevices()[id]; {
		case r.GetConnected() && d.GetHealthy():
		case r.GetConnected() && d == nil:
			now = append(now, &journaletv1.HealthOfDevice{Id: id, Health: journaletv1.DeviceHealth_DEVICE_HEALTH_UNKNOWN})
		default:
			now = append(now, &journaletv1.HealthOfDevice{Id: id, Health: journaletv1.DeviceHealth_DEVICE_HEALTH_UNHEALTHY})
		}
	}
	same := func(x, y *journaletv1.HealthOfDevice) bool { return proto.Equal(x, y) }
	if slices.EqualFunc(now, p.GetUnhealthyDevices()[name].GetDevices(), same) {
		return nil
	}
	return &journaletv1.DeviceHealthDecided{Uid: uid, Resource: name, Devices: now}
}
