package simulation

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Invariants of devices. They are judged by what the runtime was given, and by manifests.
const (
	devicesAlone    = "no two running containers have the same device"
	devicesAnswered = "a container has as many devices as it requests, and what their plugin answered for them"
	pluginAwaited   = "a pod waits for a plugin that is not there, and does not fail"
	devicesShort    = "a pod is rejected for devices only if too few are free"
	devicesHealthy  = "a container gets healthy devices"
	pluginRefused   = "a pod ends for its devices only if their plugin refused them"
)

// deviceBook is what is recorded of a plugin.
type deviceBook struct {
	connected bool
	healthy   map[string]bool
	// changedBy is the record that changed it last.
	changedBy uint64
}

// bookDevices notes what a plugin offers, and judges the ends of pods for their devices.
func (j *judge) bookDevices(author string, seq uint64, e *journaletv1.Event) {
	j.endedForDevices(author, e.GetPodTerminating())
	o := e.GetDevicesObserved()
	if o == nil {
		return
	}
	b := j.devices[o.GetResource()]
	if b == nil {
		b = &deviceBook{healthy: map[string]bool{}}
		j.devices[o.GetResource()] = b
	}
	if o.GetAll() {
		clear(b.healthy)
	}
	for _, d := range o.GetChanged() {
		b.healthy[d.GetId()] = d.GetHealthy()
	}
	b.connected, b.changedBy = o.GetConnected(), seq
}

// devicesGiven: a container has the devices that its manifest says, by an answer of their plugin for just these.
func (j *judge) devicesGiven(c *container, k *runtimeapi.ContainerConfig) {
	if j.lostIntents[c.intent] {
		return
	}
	var paths []string
	for _, d := range k.GetDevices() {
		paths = append(paths, strings.TrimPrefix(d.GetHostPath(), "/dev/"))
	}
	count := 0
	for _, x := range j.sim.world.plugins {
		want, number := devicesIn(c.spec, x.resource), ""
		for _, e := range k.GetEnvs() {
			if e.GetKey() == answerOf(x.resource) {
				number = string(e.GetValue())
			}
		}
		ids := x.answers[number]
		count += len(ids)
		if int64(len(ids)) != want || slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(paths, id) }) {
			j.broken(devicesAnswered, c.uid, "%s has %v by the answer %q of %s, and device files %v; it requests %d", c.id, ids,
				number, x.resource, paths, want)
		}
	}
	if len(paths) != count {
		j.broken(devicesAnswered, c.uid, "%s has the device files %v, and answers for %d", c.id, paths, count)
	}
	c.devices = paths
}

// devicesIn returns how many devices of a resource a container requests.
func devicesIn(c *corev1.Container, resource string) int64 {
	q := c.Resources.Limits[corev1.ResourceName(resource)]
	return q.Value()
}

// devicesApart: no other running container has a device of a container that starts.
func (j *judge) devicesApart(c *container) {
	if j.leaves(c) {
		return
	}
	for _, o := range j.sim.world.objects {
		for _, x := range o.containers {
			if x == c || !x.alive() || j.leaves(x) {
				continue
			}
			if i := slices.IndexFunc(c.devices, func(id string) bool { return slices.Contains(x.devices, id) }); i >= 0 {
				j.broken(devicesAlone, c.uid, "%s and %s of %s both have %s", c.id, x.id, x.uid, c.devices[i])
			}
		}
	}
}

// outOfDevices judges the rejection of a pod for devices: their plugin is there, and too few of them are healthy and
// free.
func (j *judge) outOfDevices(cause uint64, k *journaletv1.AdmissionDecided, m *corev1.Pod) (judged bool) {
	resource, out := strings.CutPrefix(k.GetReason(), "OutOf")
	if !out || !strings.Contains(resource, "/") {
		return false
	}
	if b := j.devices[resource]; b == nil || !b.connected && b.changedBy <= cause {
		j.broken(pluginAwaited, k.GetUid(), "%s: %s", k.GetReason(), k.GetMessage())
	}
	if !j.lacksDevices(cause, k.GetUid(), resource, m) {
		j.broken(devicesShort, k.GetUid(), "%s: %s", k.GetReason(), k.GetMessage())
	}
	return true
}

// devicesChosen: the devices of an admitted pod are healthy. The node decided on record cause.
func (j *judge) devicesChosen(cause uint64, k *journaletv1.AdmissionDecided) {
	for _, d := range k.GetDevices() {
		for _, id := range d.GetIds() {
			b := j.devices[d.GetResource()]
			if b == nil || b.changedBy <= cause && !b.healthy[id] && !j.had(k.GetUid(), d.GetResource(), id) {
				j.broken(devicesHealthy, k.GetUid(), "%s gets %s of %s", d.GetContainer(), id, d.GetResource())
			}
		}
	}
}

// lacksDevices reports whether a pod requests more devices of a resource than are healthy and free, as far as that is
// known: the node decided on record cause, and did not know later ends and changes.
func (j *judge) lacksDevices(cause uint64, uid, resource string, m *corev1.Pod) bool {
	b, free := j.devices[resource], int64(0)
	if b == nil {
		return false
	}
	for id, healthy := range b.healthy {
		taken := false
		for other, h := range j.pods {
			taken = taken || other != uid && (h.holdsShare || h.releasedBy > cause) && slices.Contains(h.devices, id) ||
				other != uid && h.reserves(cause) && h.isReserved(resource, id)
		}
		for other, f := range j.exclusive.found {
			taken = taken || other != uid && f.keeps(cause) && j.had(other, resource, id)
		}
		if healthy && !taken {
			free++
		}
	}
	kept, most := int64(0), int64(0)
	for i := range m.Spec.InitContainers {
		if c := &m.Spec.InitContainers[i]; isSidecar(c) {
			kept += devicesIn(c, resource)
		} else {
			most = max(most, kept+devicesIn(c, resource))
		}
	}
	for i := range m.Spec.Containers {
		kept += devicesIn(&m.Spec.Containers[i], resource)
	}
	need := max(kept, most)
	return need > 0 && (need > free || !b.connected || b.changedBy > cause)
}

// isReserved reports whether a pod waits for a device.
func (h *podHistory) isReserved(resource, id string) bool {
	return slices.ContainsFunc(h.pendingDevices, func(d *journaletv1.ContainerDevices) bool {
		return d.GetResource() == resource && slices.Contains(d.GetIds(), id)
	})
}

// endedForDevices judges the end of a pod whose plugin refuses its devices.
func (j *judge) endedForDevices(uid string, k *journaletv1.PodTerminating) {
	if k.GetReason() != refusals[2] {
		return
	}
	h := j.history(uid)
	if !h.refusedDevices {
		j.broken(pluginRefused, uid, "%s", k.GetMessage())
	}
	h.refusedAs, j.book.ending[uid] = h.incarnation, true
}
