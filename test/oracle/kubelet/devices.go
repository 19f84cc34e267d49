package kubelet

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	_ "unsafe" // for go:linkname

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"

	"github.com/journalet/journalet/messages/journaletv1"
)

//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(
	klog.Logger, string, []cadvisorapi.Node, topologymanager.Store,
) (*devicemanager.ManagerImpl, error)

// Thing is the resource of the device plugin of a machine.
const Thing = "example.com/thing"

// plugin is a device plugin within the process. It prefers the devices with the lowest ids.
type plugin struct {
	pluginapi.DevicePluginClient
	dir string
}

func (p plugin) API() pluginapi.DevicePluginClient { return p }
func (p plugin) Resource() string                  { return Thing }
func (p plugin) SocketPath() string                { return filepath.Join(p.dir, "thing.sock") }

func (p plugin) GetDevicePluginOptions(
	context.Context, *pluginapi.Empty, ...grpc.CallOption,
) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

func (p plugin) GetPreferredAllocation(
	_ context.Context, r *pluginapi.PreferredAllocationRequest, _ ...grpc.CallOption,
) (*pluginapi.PreferredAllocationResponse, error) {
	q := r.GetContainerRequests()[0]
	return &pluginapi.PreferredAllocationResponse{ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{{
		DeviceIDs: Preferred(q.GetAvailableDeviceIDs(), q.GetMustIncludeDeviceIDs(), int(q.GetAllocationSize())),
	}}}, nil
}

// Preferred returns the devices that the plugin prefers: the devices that are chosen already, and then the lowest.
func Preferred(available, chosen []string, count int) []string {
	ids := slices.Sorted(slices.Values(chosen))
	for _, id := range slices.Sorted(slices.Values(available)) {
		if len(ids) < count && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (p plugin) Allocate(
	context.Context, *pluginapi.AllocateRequest, ...grpc.CallOption,
) (*pluginapi.AllocateResponse, error) {
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{}}}, nil
}

// startDevices starts a device manager whose plugin has these devices.
func (m *Managers) startDevices(
	all []*journaletv1.Device, machine []cadvisorapi.Node, ready config.SourcesReady,
) error {
	log, p := klog.Background(), plugin{dir: filepath.Join(m.dir, "device-plugins")}
	var err error
	m.devices, err = newDeviceManager(log, filepath.Join(p.dir, "kubelet.sock"), machine, m.admit)
	if err != nil {
		return err
	}
	m.admit.AddHintProvider(log, m.devices)
	err = m.devices.Start(log, func() []*v1.Pod { return m.active }, ready, containermap.NewContainerMap(),
		sets.New[string]())
	if err != nil {
		return err
	}
	if err := m.devices.PluginConnected(context.Background(), Thing, p); err != nil {
		return err
	}
	list := new(pluginapi.ListAndWatchResponse)
	for _, d := range all {
		one := &pluginapi.Device{ID: d.GetId(), Health: pluginapi.Unhealthy}
		if d.GetHealthy() {
			one.Health = pluginapi.Healthy
		}
		for _, n := range d.GetNumaNodes() {
			if one.Topology == nil {
				one.Topology = new(pluginapi.TopologyInfo)
			}
			one.Topology.Nodes = append(one.Topology.Nodes, &pluginapi.NUMANode{ID: n})
		}
		list.Devices = append(list.Devices, one)
	}
	m.devices.PluginListAndWatchReceiver(log, Thing, list)
	return nil
}

// devicesOf names the devices of a container; "" for none.
func (m *Managers) devicesOf(pod *v1.Pod, c *v1.Container) string {
	if m.devices == nil {
		return ""
	}
	var ids []string
	for id := range m.devices.GetDevices(string(pod.UID), c.Name)[Thing] {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return DevicesText(ids)
}

// Env returns the variables that the device manager sets in a container; nil without a plugin.
func (m *Managers) Env(pod *v1.Pod, c *v1.Container) (map[string]string, error) {
	if m.devices == nil {
		return nil, nil
	}
	opts, err := m.devices.GetDeviceRunContainerOptions(context.Background(), pod, c)
	env := map[string]string{}
	if opts != nil {
		for _, e := range opts.Envs {
			env[e.Name] = e.Value
		}
	}
	return env, err
}

// DevicesText names devices; "" for none.
func DevicesText(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return fmt.Sprintf(", devices %s", strings.Join(ids, " "))
}
