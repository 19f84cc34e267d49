package podresources

import (
	"context"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"
	alpha "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/actors/exclusive"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/plugins/clients"
)

// The names of the directory in the root directory and of the socket in it. kubelet: pod-resources/kubelet.sock.
const (
	Dir        = own.PodResources
	SocketFile = "kubelet.sock"
)

// Pod is a pod that is admitted and has not terminated.
type Pod struct {
	Namespace, Name string
	// Containers are its sidecars and main containers, in the order of the manifest.
	Containers []string
	// Devices are the devices of all its containers.
	Devices []*journaletv1.ContainerDevices
	// Exclusive has the exclusive resources of its containers.
	Exclusive exclusive.Pod
	// Claims are the claims that drivers have prepared, by container.
	Claims map[string][]*journaletv1.PodClaim
}

// Options configure a Server. All must be set.
type Options struct {
	// Dir is the directory of the socket.
	Dir string
	// Pods returns the pods, by namespace and name.
	Pods func(context.Context) ([]Pod, error)
	// Devices returns what plugins offer, by resource. The caller only reads it.
	Devices func(context.Context) (map[string]*journaletv1.DeviceResource, error)
	// Allocatable returns what containers may get exclusively on this machine: CPUs, and memory of NUMA nodes.
	Allocatable func(context.Context) (cpuset.CPUSet, []*journaletv1.NumaMemory, error)
	// Count counts a request within the limit by the version of the API, v1 or v1alpha1, the method, such as
	// GetAllocatableResources, and its error.
	Count func(version, method string, err error)
}

// Server serves the API.
type Server struct {
	api.UnimplementedPodResourcesListerServer
	opts    Options
	clients *clients.Server
}

// New returns a server that serves nothing until Run.
func New(o Options) *Server {
	s := &Server{opts: o}
	s.clients = clients.New(s.count, func(r grpc.ServiceRegistrar) {
		api.RegisterPodResourcesListerServer(r, s)
		alpha.RegisterPodResourcesListerServer(r, old{Server: s})
	})
	return s
}

// Run serves the socket until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	return s.clients.Run(ctx, filepath.Join(s.opts.Dir, SocketFile))
}

// count counts a request by its version and method.
func (s *Server) count(full string, err error) {
	service, method := path.Split(full) // /v1.PodResourcesLister/List
	version, _, _ := strings.Cut(strings.TrimPrefix(service, "/"), ".")
	s.opts.Count(version, method, err)
}

// List returns what the containers of all pods have: devices, CPUs and memory.
func (s *Server) List(ctx context.Context, _ *api.ListPodResourcesRequest) (*api.ListPodResourcesResponse, error) {
	pods, devices, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	out := new(api.ListPodResourcesResponse)
	for i := range pods {
		out.PodResources = append(out.PodResources, resourcesOf(&pods[i], devices))
	}
	return out, nil
}

// Get returns what the containers of one pod have.
func (s *Server) Get(ctx context.Context, r *api.GetPodResourcesRequest) (*api.GetPodResourcesResponse, error) {
	pods, devices, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if pods[i].Namespace == r.GetPodNamespace() && pods[i].Name == r.GetPodName() {
			return &api.GetPodResourcesResponse{PodResources: resourcesOf(&pods[i], devices)}, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "pod %.253s in namespace %.253s not found",
		r.GetPodName(), r.GetPodNamespace())
}

// GetAllocatableResources returns the healthy devices of plugins that are there, and the CPUs and the memory that
// containers may get exclusively.
func (s *Server) GetAllocatableResources(
	ctx context.Context, _ *api.AllocatableResourcesRequest,
) (*api.AllocatableResourcesResponse, error) {
	devices, err := s.opts.Devices(ctx)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	cpus, memory, err := s.opts.Allocatable(ctx)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	out := &api.AllocatableResourcesResponse{CpuIds: numbers(cpus)}
	for _, m := range memory {
		out.Memory = append(out.Memory, memoryOf(m.GetPageBytes(), m.GetBytes(), m.GetNode()))
	}
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		if !devices[name].GetConnected() {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(devices[name].GetDevices())) {
			if devices[name].GetDevices()[id].GetHealthy() {
				out.Devices = append(out.Devices, device(name, id, devices))
			}
		}
	}
	return out, nil
}

// read returns the pods and what plugins offer.
func (s *Server) read(ctx context.Context) ([]Pod, map[string]*journaletv1.DeviceResource, error) {
	pods, err := s.opts.Pods(ctx)
	if err == nil {
		var devices map[string]*journaletv1.DeviceResource
		if devices, err = s.opts.Devices(ctx); err == nil {
			return pods, devices, nil
		}
	}
	return nil, nil, status.Error(codes.Unavailable, fmt.Sprintf("the pods cannot be read now: %v", err))
}

// numbers returns CPUs by their numbers.
func numbers(cpus cpuset.CPUSet) (all []int64) {
	for _, cpu := range cpus.List() {
		all = append(all, int64(cpu))
	}
	return all
}

// memoryOf returns memory of some NUMA nodes; a page of 0 bytes: memory that is not in huge pages.
func memoryOf(page, bytes int64, nodes ...uint32) *api.ContainerMemory {
	out := &api.ContainerMemory{
		MemoryType: string(corev1.ResourceMemory), Size: uint64(max(0, bytes)), Topology: new(api.TopologyInfo),
	}
	if page > 0 {
		out.MemoryType = resources.HugePagesName(page)
	}
	for _, n := range nodes {
		out.Topology.Nodes = append(out.Topology.Nodes, &api.NUMANode{ID: int64(n)})
	}
	return out
}

// resourcesOf returns what the containers of a pod have.
func resourcesOf(p *Pod, devices map[string]*journaletv1.DeviceResource) *api.PodResources {
	out := &api.PodResources{Name: p.Name, Namespace: p.Namespace}
	for _, name := range p.Containers {
		c := &api.ContainerResources{Name: name}
		for _, d := range p.Devices {
			if d.GetContainer() != name {
				continue
			}
			for _, id := range d.GetIds() {
				c.Devices = append(c.Devices, device(d.GetResource(), id, devices))
			}
		}
		given := p.Exclusive.Of(name)
		c.CpuIds = numbers(exclusive.Parse(given.GetCpus()))
		for _, m := range given.GetMemory() {
			c.Memory = append(c.Memory, memoryOf(m.GetPageBytes(), m.GetBytes(), given.GetMemoryNodes()...))
		}
		for _, claim := range p.Claims[name] {
			c.DynamicResources = append(c.DynamicResources, dynamicResource(claim))
		}
		out.Containers = append(out.Containers, c)
	}
	return out
}

// dynamicResource returns the devices of a claim.
func dynamicResource(claim *journaletv1.PodClaim) *api.DynamicResource {
	out := &api.DynamicResource{ClaimNamespace: claim.GetClaim().GetNamespace(), ClaimName: claim.GetClaim().GetName()}
	for _, d := range claim.GetDevices() {
		r := &api.ClaimResource{DriverName: d.GetDriver(), PoolName: d.GetPool(), DeviceName: d.GetDevice()}
		if d.GetShareId() != "" {
			r.ShareId = proto.String(d.GetShareId())
		}
		for _, name := range d.GetCdiDevices() {
			r.CdiDevices = append(r.CdiDevices, &api.CDIDevice{Name: name})
		}
		out.ClaimResources = append(out.ClaimResources, r)
	}
	return out
}

// device returns one device with its NUMA nodes (kubelet: an entry for each).
func device(resource, id string, all map[string]*journaletv1.DeviceResource) *api.ContainerDevices {
	out := &api.ContainerDevices{ResourceName: resource, DeviceIds: []string{id}}
	if nodes := all[resource].GetDevices()[id].GetNumaNodes(); len(nodes) > 0 {
		out.Topology = new(api.TopologyInfo)
		for _, n := range nodes {
			out.Topology.Nodes = append(out.Topology.Nodes, &api.NUMANode{ID: n})
		}
	}
	return out
}
