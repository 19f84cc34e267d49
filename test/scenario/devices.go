package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors/devices"
	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// plugin records what a device plugin offers: "plugin <resource> [gone] [preferred] [pre-start]", with a device a line
// as "<id> [unhealthy] [node=<NUMA node>]". One that prefers devices prefers those with the highest ids. A plugin stays
// until it is gone: after a restart of the agent it registers again.
func (s *Scenario) plugin(d *datadriven.TestData) (string, error) {
	resource := d.CmdArgs[0].Key
	if d.HasArg("gone") {
		delete(s.g.world.plugins, resource)
		gone := &journaletv1.DevicesObserved{Resource: resource, Message: "its stream ended"}
		return "", s.put(messages.Node, messages.NewEvent(gone))
	}
	o := &journaletv1.DevicesObserved{
		Resource: resource, Connected: true, All: true, Preferred: d.HasArg("preferred"), PreStart: d.HasArg("pre-start"),
	}
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		one := &journaletv1.Device{Id: words[0], Healthy: !slices.Contains(words, "unhealthy")}
		for _, w := range words[1:] {
			if node, has := strings.CutPrefix(w, "node="); has {
				n, err := strconv.ParseInt(node, 10, 64)
				if err != nil {
					return "", err
				}
				one.NumaNodes = append(one.NumaNodes, n)
			}
		}
		o.Changed = append(o.Changed, one)
	}
	s.g.world.plugins[resource] = o
	return "", s.put(messages.Node, messages.NewEvent(proto.CloneOf(o)))
}

// node returns the state of the node.
func (g *engine) node() *journaletv1.NodeState {
	return g.core.Decider(messages.Node).(*node.Actor).Node()
}

// serveDevices has the plugins do what is due: one registers again after a restart of the agent, or answers what it
// prefers.
func (g *engine) serveDevices() (bool, error) {
	for _, resource := range slices.Sorted(maps.Keys(g.world.plugins)) {
		if !g.node().GetDevices()[resource].GetConnected() {
			return true, g.put(messages.Node, messages.NewEvent(proto.CloneOf(g.world.plugins[resource])))
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(g.node().GetDeviceWaits())) {
		w := g.node().GetDeviceWaits()[uid]
		if w.GetRequestId() == 0 {
			continue
		}
		read := &journaletv1.PreferredDevicesRead{RequestId: w.GetRequestId(), Uid: uid}
		if p := g.world.plugins[w.GetResource()]; p != nil {
			for _, one := range p.GetChanged() {
				read.Ids = append(read.Ids, one.GetId())
			}
			slices.Reverse(read.Ids)
		}
		return true, g.put(messages.Node, messages.NewEvent(read))
	}
	return false, nil
}

// allocate answers as a plugin does.
func (w *world) allocate(k *journaletv1.AllocateDevices, out *journaletv1.CallFinished) {
	if w.plugins[k.GetResource()] == nil {
		out.Error, out.Message, out.Retryable = journaletv1.CallError_CALL_ERROR_DEVICE, "the plugin is not there", true
		return
	}
	out.DeviceAnswer = &journaletv1.DeviceAnswer{
		Envs: []*journaletv1.NamedValue{{Name: "DEVICES", Value: strings.Join(k.GetIds(), ",")}},
	}
}

// checkDevices records a violation if a container starts with a device that a container of another pod has, or without
// the answer of a plugin.
func (w *world) checkDevices(o *objects, alias string, k *journaletv1.StartContainer) {
	var own []string
	for _, d := range k.GetDevices() {
		if d.GetAnswer() == nil {
			w.violation("%s: container %s starts before the plugin of its devices has answered", alias, k.GetContainer())
		}
		for _, id := range d.GetIds() {
			own = append(own, d.GetResource()+" "+id)
		}
	}
	for uid, other := range w.pods {
		for _, c := range other.containers {
			for _, device := range other.devices[c.GetId()] {
				if other != o && alive(c) && slices.Contains(own, device) {
					w.violation("%s: device %s is another pod's, %s", alias, device, uid)
				}
			}
		}
	}
}

// deviceIDs names the devices of an admitted pod.
func deviceIDs(all []*journaletv1.ContainerDevices) string {
	text := ""
	for _, d := range all {
		text += fmt.Sprintf(" %s:%s=%s", d.GetContainer(), d.GetResource(), strings.Join(d.GetIds(), ","))
	}
	return text
}

// devices describes decisions about devices.
func (n *names) devices(e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_PreferredDevicesRequested:
		q := k.PreferredDevicesRequested
		return fmt.Sprintf("request which %d of %s for %s of pod/%s", q.GetCount(), strings.Join(q.GetAvailable(), ","),
			q.GetContainer(), n.aliasOf(q.GetUid()))
	case *journaletv1.Event_NodeReadRequested:
		return "read the Node for pod/" + n.aliasOf(k.NodeReadRequested.GetUid())
	case *journaletv1.Event_DeviceCapacityDecided:
		c := k.DeviceCapacityDecided
		return fmt.Sprintf("capacity %s %d, allocatable %d", c.GetResource(), c.GetCapacity(), c.GetAllocatable())
	case *journaletv1.Event_DeviceHealthDecided:
		text := "health of " + k.DeviceHealthDecided.GetResource() + " of pod/" + n.aliasOf(k.DeviceHealthDecided.GetUid())
		for _, d := range k.DeviceHealthDecided.GetDevices() {
			text += " " + d.GetId() + "=" + strings.ToLower(strings.TrimPrefix(d.GetHealth().String(), "DEVICE_HEALTH_"))
		}
		return text
	}
	return ""
}

// awaitsPlugin reports whether a pod waits for a device plugin that is not there.
func (g *engine) awaitsPlugin(a *pod.Actor) bool {
	for _, d := range devices.Demand(a.Manifest()) {
		if g.world.plugins[d.GetResource()] == nil {
			return a.View(pod.Node{}).Status.Reason == node.ReasonNoPlugin
		}
	}
	return false
}
