//go:build attack

package attack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/journalet/journalet/actors/exclusive"
	"github.com/journalet/journalet/runtime/plugins"
	"github.com/journalet/journalet/runtime/plugins/devices"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// What device plugins do.

const (
	// listed is how many devices a plugin lists that floods the agent, as many as are taken of one, and flips how often
	// it lists them with another health, as fast as it can. few is how many another one lists.
	listed = 4096
	flips  = 500
	few    = 16
	// hostilePlugins come at once, more than are taken.
	hostilePlugins = 80
)

// hostilePlugin is a device plugin that lists many devices, whose health it changes all the time.
type hostilePlugin struct {
	pluginapi.UnimplementedDevicePluginServer
	name     string
	allocate func(context.Context) (*pluginapi.ContainerAllocateResponse, error)
}

func (p *hostilePlugin) GetDevicePluginOptions(
	context.Context, *pluginapi.Empty,
) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: p.name == "hung"}, nil
}

func (p *hostilePlugin) ListAndWatch(
	_ *pluginapi.Empty, s grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse],
) error {
	n := few
	if strings.HasPrefix(p.name, "flood") {
		n = listed
	}
	all := make([]*pluginapi.Device, n)
	for i := range all {
		all[i] = &pluginapi.Device{ID: fmt.Sprintf("%0128d", i), Health: pluginapi.Healthy}
	}
	for i := range flips {
		all[i%(n/2)].Health = pluginapi.Unhealthy
		if err := s.Send(&pluginapi.ListAndWatchResponse{Devices: all}); err != nil {
			return err
		}
	}
	<-s.Context().Done()
	return nil
}

func (p *hostilePlugin) GetPreferredAllocation(
	ctx context.Context, _ *pluginapi.PreferredAllocationRequest,
) (*pluginapi.PreferredAllocationResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (p *hostilePlugin) Allocate(
	ctx context.Context, _ *pluginapi.AllocateRequest,
) (*pluginapi.AllocateResponse, error) {
	r, err := p.allocate(ctx)
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{r}}, err
}

// register registers a plugin that serves at an endpoint.
func (g *target) register(ctx context.Context, resource, endpoint string) error {
	conn, err := plugins.NewConn(filepath.Join(g.Root, devices.Dir, devices.SocketFile), 1<<20)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: endpoint, ResourceName: resource,
	}, grpc.WaitForReady(true))
	return err
}

// plugIn has a plugin serve at a socket of its own and register, and returns what ends it.
func (g *target) plugIn(p *hostilePlugin) (stop func()) {
	g.Helper()
	endpoint := p.name + ".sock"
	l, err := plugins.Listen(filepath.Join(g.Root, devices.Dir, endpoint), 8)
	must.OK(g.T, err)
	server := grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(server, p)
	go func() { _ = server.Serve(l) }()
	if err := g.register(g.Context(), "example.com/"+p.name, endpoint); err != nil {
		g.Logf("plugin %s is refused: %v", p.name, err)
	}
	return server.Stop
}

// wants gives a pod's container one device.
func wants(resourceName string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
			corev1.ResourceName(resourceName): resource.MustParse("1"),
		}
	}
}

// Plugins that flood the agent, hang, vanish while they are asked, and answer what no container can have.
func TestHostileDevicePlugins(t *testing.T) {
	hung := func(ctx context.Context) (*pluginapi.ContainerAllocateResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	vanish := make(chan struct{}, 1)
	answers := map[string]func(context.Context) (*pluginapi.ContainerAllocateResponse, error){
		"hung": hung,
		"huge": func(context.Context) (*pluginapi.ContainerAllocateResponse, error) {
			return &pluginapi.ContainerAllocateResponse{Envs: map[string]string{"A": strings.Repeat("a", 16<<20)}}, nil
		},
		"paths": func(context.Context) (*pluginapi.ContainerAllocateResponse, error) {
			return &pluginapi.ContainerAllocateResponse{Mounts: []*pluginapi.Mount{
				{ContainerPath: "/mnt", HostPath: "/tmp/../etc"},
			}}, nil
		},
		"refusing": func(context.Context) (*pluginapi.ContainerAllocateResponse, error) {
			return nil, errors.New("no\x1b[2J" + strings.Repeat("!", 1<<20))
		},
		"vanishing": func(ctx context.Context) (*pluginapi.ContainerAllocateResponse, error) {
			vanish <- struct{}{}
			return hung(ctx)
		},
	}
	var stops []func()
	var flood sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	attack{
		begin: func(g *target) {
			must.OK(g.T, g.waitForDevices(ctx))
			for _, name := range slices.Sorted(maps.Keys(answers)) {
				stop := g.plugIn(&hostilePlugin{name: name, allocate: answers[name]})
				stops = append(stops, stop)
				if name == "vanishing" {
					flood.Go(func() {
						select {
						case <-vanish:
							stop()
						case <-ctx.Done():
						}
					})
				}
				g.put(node.Pod(name, node.Image, node.Idle, wants("example.com/"+name)))
			}
			for i := range hostilePlugins {
				stops = append(stops, g.plugIn(&hostilePlugin{name: fmt.Sprint("flood-", i), allocate: hung}))
			}
			flood.Go(func() {
				for ctx.Err() == nil {
					_ = g.register(ctx, "example.com/hung", "hung.sock")
					_ = g.register(ctx, "example.com/"+strings.Repeat("x", 1<<20), "../../kubelet.sock")
				}
			})
			for _, name := range []string{"huge", "paths", "refusing"} {
				g.await(name, "to be rejected", func(p *corev1.Pod) bool {
					return p.Status.Phase == corev1.PodFailed && p.Status.Reason == exclusive.ReasonUnexpected
				})
			}
		},
		check: func(g *target) {
			for _, name := range []string{"hung", "vanishing"} {
				g.await(name, "to wait", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodPending })
			}
		},
		end: func(*target) {
			cancel()
			for _, stop := range stops {
				stop()
			}
			flood.Wait()
		},
	}.run(t)
}

// waitForDevices waits until the agent has removed old sockets and serves its own, which refuses an invalid resource.
func (g *target) waitForDevices(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	for {
		if err := g.register(ctx, "none", "none"); err != nil && ctx.Err() == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchEvery):
		}
	}
}
