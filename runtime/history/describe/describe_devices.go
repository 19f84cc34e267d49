package describe

import (
	"fmt"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
)

// devices describes what concerns device plugins.
func (d *Describer) devices(_ string, e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_DevicesObserved:
		return devicesObserved(k.DevicesObserved)
	case *journaletv1.Event_PreferredDevicesRequested:
		q := k.PreferredDevicesRequested
		return fmt.Sprintf("requested which %d of %d devices %s the plugin prefers for container %s of pod %s",
			q.GetCount(), len(q.GetAvailable()), q.GetResource(), q.GetContainer(), d.podName(q.GetUid()))
	case *journaletv1.Event_PreferredDevicesRead:
		r := k.PreferredDevicesRead
		if len(r.GetIds()) == 0 {
			return withMessage("the plugin has no preference for pod "+d.podName(r.GetUid()), r.GetMessage())
		}
		return fmt.Sprintf("the plugin prefers %s for pod %s", list(r.GetIds(), 6), d.podName(r.GetUid()))
	case *journaletv1.Event_DeviceCapacityDecided:
		c := k.DeviceCapacityDecided
		return fmt.Sprintf("the node has %d of %s, allocatable %d", c.GetCapacity(), c.GetResource(), c.GetAllocatable())
	case *journaletv1.Event_DeviceHealthDecided:
		h := k.DeviceHealthDecided
		if len(h.GetDevices()) == 0 {
			return fmt.Sprintf("devices %s of pod %s are healthy", h.GetResource(), d.podName(h.GetUid()))
		}
		var ids []string
		for _, one := range h.GetDevices() {
			ids = append(ids, fmt.Sprintf("%s (%s)", one.GetId(), Enum(one.GetHealth().String(), "DEVICE_HEALTH_")))
		}
		return fmt.Sprintf("devices %s of pod %s: %s", h.GetResource(), d.podName(h.GetUid()), list(ids, 6))
	case *journaletv1.Event_ClaimHealthObserved:
		return claimHealth(k.ClaimHealthObserved.GetDevices())
	}
	return ""
}

// claimHealth describes what DRA drivers report of a pod's devices.
func claimHealth(all []*journaletv1.ClaimDeviceHealth) string {
	if len(all) == 0 {
		return "the health of the devices of its claims is unknown"
	}
	var ids []string
	for _, d := range all {
		id := d.GetDriver() + "/" + d.GetPool() + "/" + d.GetDevice()
		ids = append(ids, withMessage(id+" "+Enum(d.GetHealth().String(), "DEVICE_HEALTH_"), d.GetMessage()))
	}
	return "devices of its claims: " + list(ids, 6)
}

func devicesObserved(o *journaletv1.DevicesObserved) string {
	switch {
	case o.GetAll() && o.GetMore():
		return fmt.Sprintf("device plugin of %s lists its devices", o.GetResource())
	case o.GetAll():
		return fmt.Sprintf("device plugin of %s is there with %s", o.GetResource(), healthyOf(o.GetChanged()))
	case !o.GetConnected() && !o.GetMore():
		return withMessage("device plugin of "+o.GetResource()+" has gone", o.GetMessage())
	}
	var parts []string
	if len(o.GetChanged()) > 0 {
		parts = append(parts, "changed: "+healthyOf(o.GetChanged()))
	}
	if len(o.GetRemoved()) > 0 {
		parts = append(parts, "removed: "+list(o.GetRemoved(), 6))
	}
	return strings.TrimSpace("devices of " + o.GetResource() + " " + strings.Join(parts, ", "))
}

func healthyOf(all []*journaletv1.Device) string {
	healthy := 0
	for _, one := range all {
		if one.GetHealthy() {
			healthy++
		}
	}
	return fmt.Sprintf("%d devices, %d healthy", len(all), healthy)
}
