package kubeletstate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// noNode is the NUMA node of devices whose plugin names none (kubelet: -1).
const noNode = -1

// devices returns the device manager's file. A container that a kubelet has started keeps the answer of its plugin from
// the kubelet's own entries: without an answer a kubelet would start the container again without its devices.
func (g *Given) devices(had []podDevicesEntry) (data []byte, lacking map[string]string, err error) {
	lacking = map[string]string{}
	file := deviceCheckpoint{Data: checkpointData{
		PodDeviceEntries: []podDevicesEntry{}, RegisteredDevices: map[string][]string{},
	}}
	for resource, r := range g.Devices {
		file.Data.RegisteredDevices[resource] = []string{}
		for _, id := range slices.Sorted(maps.Keys(r.GetDevices())) {
			if r.GetDevices()[id].GetHealthy() {
				file.Data.RegisteredDevices[resource] = append(file.Data.RegisteredDevices[resource], id)
			}
		}
	}
	for _, uid := range g.uids() {
		for _, d := range g.Pods[uid].GetDevices() {
			e := podDevicesEntry{
				PodUID: uid, ContainerName: d.GetContainer(), ResourceName: d.GetResource(), DeviceIDs: g.byNode(d),
			}
			switch old := entryOf(had, e); {
			case d.GetAnswer() != nil:
				if e.AllocResp, err = proto.Marshal(response(d.GetAnswer())); err != nil {
					return nil, nil, err
				}
			case old != nil:
				e.AllocResp = old.AllocResp
			default:
				lacking[uid] = fmt.Sprintf("container %s: it is not known what the plugin of %s answered: a kubelet would start "+
					"it again without these devices", d.GetContainer(), d.GetResource())
			}
			file.Data.PodDeviceEntries = append(file.Data.PodDeviceEntries, e)
		}
	}
	file.Checksum = sumOf(file.Data)
	data, err = json.Marshal(file)
	return data, lacking, err
}

// byNode returns a container's devices by NUMA node: a device that is close to two is there twice.
func (g *Given) byNode(d *journaletv1.ContainerDevices) devicesPerNUMA {
	out := devicesPerNUMA{}
	for _, id := range d.GetIds() {
		nodes := g.Devices[d.GetResource()].GetDevices()[id].GetNumaNodes()
		if len(nodes) == 0 {
			nodes = []int64{noNode}
		}
		for _, n := range nodes {
			out[n] = append(out[n], id)
		}
	}
	return out
}

// entryOf returns a kubelet's entry for the same container and resource with the same devices; nil if it has none.
func entryOf(had []podDevicesEntry, e podDevicesEntry) *podDevicesEntry {
	want, _ := e.ids() // of this agent
	for i, old := range had {
		ids, err := old.ids()
		if err == nil && old.PodUID == e.PodUID && old.ContainerName == e.ContainerName &&
			old.ResourceName == e.ResourceName && slices.Equal(ids, want) {
			return &had[i]
		}
	}
	return nil
}

// response returns a plugin's answer as the plugin gave it.
func response(a *journaletv1.DeviceAnswer) *pluginapi.ContainerAllocateResponse {
	r := &pluginapi.ContainerAllocateResponse{Envs: named(a.GetEnvs()), Annotations: named(a.GetAnnotations())}
	for _, m := range a.GetMounts() {
		r.Mounts = append(r.Mounts, &pluginapi.Mount{
			ContainerPath: m.GetContainerPath(), HostPath: m.GetHostPath(), ReadOnly: m.GetReadOnly(),
		})
	}
	for _, n := range a.GetNodes() {
		r.Devices = append(r.Devices, &pluginapi.DeviceSpec{
			ContainerPath: n.GetContainerPath(), HostPath: n.GetHostPath(), Permissions: n.GetPermissions(),
		})
	}
	for _, name := range a.GetCdiDevices() {
		r.CdiDevices = append(r.CdiDevices, &pluginapi.CDIDevice{Name: name})
	}
	return r
}

func named(list []*journaletv1.NamedValue) map[string]string {
	out := map[string]string{}
	for _, v := range list {
		out[v.GetName()] = v.GetValue()
	}
	return out
}
