package podresources

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"
	alpha "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/actors/exclusive"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/plugins"
	"github.com/journalet/journalet/test/must"
)

// serve serves two pods, one with a device, on a node with two devices, one of them unhealthy.
func serve(t *testing.T) api.PodResourcesListerClient {
	t.Helper()
	conn, _ := connect(t)
	return api.NewPodResourcesListerClient(conn)
}

// connect also returns the requests that are counted, such as "v1 Get NotFound".
func connect(t *testing.T) (*grpc.ClientConn, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var counted []string
	dir := filepath.Join(t.TempDir(), Dir)
	s := New(Options{
		Dir: dir,
		Pods: func(context.Context) ([]Pod, error) {
			return []Pod{
				{Namespace: "default", Name: "plain", Containers: []string{"main"}},
				{
					Namespace: "default", Name: "web", Containers: []string{"side", "main"},
					Devices: []*journaletv1.ContainerDevices{{Container: "main", Resource: "example.com/thing", Ids: []string{"a"}}},
					Exclusive: exclusive.Pod{{
						Container: "main", Cpus: "2-3,6", MemoryNodes: []uint32{0, 1},
						Memory: []*journaletv1.HugePages{{Bytes: 5}, {PageBytes: 2 << 20, Bytes: 4 << 20}},
					}},
					Claims: map[string][]*journaletv1.PodClaim{"side": {{
						Claim: &journaletv1.ResourceClaim{Namespace: "default", Name: "gpu"},
						Devices: []*journaletv1.ClaimDevice{
							{Driver: "d", Pool: "p", Device: "1", ShareId: "s", CdiDevices: []string{"d/c=1"}},
							{Driver: "d", Pool: "p", Device: "2"},
						},
					}}},
				},
			}, nil
		},
		Devices: func(context.Context) (map[string]*journaletv1.DeviceResource, error) {
			return map[string]*journaletv1.DeviceResource{
				"example.com/gone": {Devices: map[string]*journaletv1.Device{"x": {Id: "x", Healthy: true}}},
				"example.com/thing": {Connected: true, Devices: map[string]*journaletv1.Device{
					"a": {Id: "a", Healthy: true, NumaNodes: []int64{1}}, "b": {Id: "b"},
				}},
			}, nil
		},
		Allocatable: func(context.Context) (cpuset.CPUSet, []*journaletv1.NumaMemory, error) {
			return cpuset.New(1, 2), []*journaletv1.NumaMemory{{Node: 1, PageBytes: 1 << 30, Bytes: 7}}, nil
		},
		Count: func(version, method string, err error) {
			mu.Lock()
			defer mu.Unlock()
			counted = append(counted, version+" "+method+" "+status.Code(err).String())
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
	conn, err := plugins.NewConn(filepath.Join(dir, SocketFile), 1<<20)
	must.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(counted)
	}
}

func same(t *testing.T, got, want proto.Message) {
	t.Helper()
	if !proto.Equal(got, want) {
		t.Errorf("answered\n%s\nwant\n%s", prototext.Format(got), prototext.Format(want))
	}
}

var a = []*api.ContainerDevices{{
	ResourceName: "example.com/thing", DeviceIds: []string{"a"},
	Topology: &api.TopologyInfo{Nodes: []*api.NUMANode{{ID: 1}}},
}}

var web = &api.PodResources{Namespace: "default", Name: "web", Containers: []*api.ContainerResources{
	{Name: "side", DynamicResources: []*api.DynamicResource{{
		ClaimNamespace: "default", ClaimName: "gpu", ClaimResources: []*api.ClaimResource{
			{
				DriverName: "d", PoolName: "p", DeviceName: "1", ShareId: proto.String("s"),
				CdiDevices: []*api.CDIDevice{{Name: "d/c=1"}},
			},
			{DriverName: "d", PoolName: "p", DeviceName: "2"},
		},
	}}},
	{Name: "main", Devices: a, CpuIds: []int64{2, 3, 6}, Memory: []*api.ContainerMemory{
		{MemoryType: "memory", Size: 5, Topology: both}, {MemoryType: "hugepages-2Mi", Size: 4 << 20, Topology: both},
	}},
}}

var both = &api.TopologyInfo{Nodes: []*api.NUMANode{{ID: 0}, {ID: 1}}}

func TestPodsAreServedWithTheirDevices(t *testing.T) {
	c := serve(t)
	all, err := c.List(t.Context(), &api.ListPodResourcesRequest{}, grpc.WaitForReady(true))
	must.OK(t, err)
	same(t, all, &api.ListPodResourcesResponse{PodResources: []*api.PodResources{
		{Namespace: "default", Name: "plain", Containers: []*api.ContainerResources{{Name: "main"}}}, web,
	}})
	one, err := c.Get(t.Context(), &api.GetPodResourcesRequest{PodNamespace: "default", PodName: "web"})
	must.OK(t, err)
	same(t, one, &api.GetPodResourcesResponse{PodResources: web})
	if _, err := c.Get(t.Context(), &api.GetPodResourcesRequest{PodName: "web"}); status.Code(err) != codes.NotFound {
		t.Errorf("a pod that is none was answered with %v", err)
	}
}

func TestOldMonitorsAreServedAndRequestsCounted(t *testing.T) {
	conn, counted := connect(t)
	all, err := alpha.NewPodResourcesListerClient(conn).List(t.Context(), &alpha.ListPodResourcesRequest{},
		grpc.WaitForReady(true))
	must.OK(t, err)
	same(t, all, &alpha.ListPodResourcesResponse{PodResources: []*alpha.PodResources{
		{Namespace: "default", Name: "plain", Containers: []*alpha.ContainerResources{{Name: "main"}}},
		{Namespace: "default", Name: "web", Containers: []*alpha.ContainerResources{{Name: "side"}, {
			Name: "main", Devices: []*alpha.ContainerDevices{{ResourceName: "example.com/thing", DeviceIds: []string{"a"}}},
		}}},
	}})
	_, _ = api.NewPodResourcesListerClient(conn).Get(t.Context(), &api.GetPodResourcesRequest{PodName: "none"})
	if got, want := counted(), []string{"v1alpha1 List OK", "v1 Get NotFound"}; !slices.Equal(got, want) {
		t.Errorf("counted %q, want %q", got, want)
	}
}

func TestOnlyHealthyDevicesOfPluginsThatAreThereAreAllocatable(t *testing.T) {
	c := serve(t)
	r, err := c.GetAllocatableResources(t.Context(), &api.AllocatableResourcesRequest{}, grpc.WaitForReady(true))
	must.OK(t, err)
	same(t, r, &api.AllocatableResourcesResponse{
		Devices: a, CpuIds: []int64{1, 2}, Memory: []*api.ContainerMemory{{
			MemoryType: "hugepages-1Gi", Size: 7, Topology: &api.TopologyInfo{Nodes: []*api.NUMANode{{ID: 1}}},
		}},
	})
}

func TestRequestsAreLimited(t *testing.T) {
	c := serve(t)
	for range 100 {
		_, err := c.List(t.Context(), &api.ListPodResourcesRequest{}, grpc.WaitForReady(true))
		if status.Code(err) == codes.ResourceExhausted {
			return
		}
		must.OK(t, err)
	}
	t.Error("no request was refused for being one too many")
}
