//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/runtime/plugins"
	"github.com/journalet/journalet/runtime/plugins/devices"
	"github.com/journalet/journalet/runtime/plugins/podresources"
	"github.com/journalet/journalet/test/must"
)

const thing = "example.com/thing"

// thingPlugin offers the devices a and b: each is a variable, a file and /dev/null by another name.
type thingPlugin struct {
	pluginapi.UnimplementedDevicePluginServer
	server *grpc.Server
	file   string // on the node
}

func (p *thingPlugin) GetDevicePluginOptions(
	context.Context, *pluginapi.Empty,
) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{PreStartRequired: true}, nil
}

func (p *thingPlugin) ListAndWatch(
	_ *pluginapi.Empty, s grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse],
) error {
	err := s.Send(&pluginapi.ListAndWatchResponse{Devices: []*pluginapi.Device{
		{ID: "a", Health: pluginapi.Healthy}, {ID: "b", Health: pluginapi.Healthy},
	}})
	if err == nil {
		<-s.Context().Done()
	}
	return err
}

func (p *thingPlugin) Allocate(_ context.Context, r *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	id := r.GetContainerRequests()[0].GetDevicesIds()[0]
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{
		Envs:    map[string]string{"THING": id, "OWN": "plugin"},
		Mounts:  []*pluginapi.Mount{{ContainerPath: "/etc/thing", HostPath: p.file, ReadOnly: true}},
		Devices: []*pluginapi.DeviceSpec{{ContainerPath: "/dev/thing", HostPath: "/dev/null", Permissions: "rw"}},
	}}}, nil
}

func (p *thingPlugin) PreStartContainer(
	_ context.Context, r *pluginapi.PreStartContainerRequest,
) (*pluginapi.PreStartContainerResponse, error) {
	return &pluginapi.PreStartContainerResponse{}, os.WriteFile(p.file, []byte(r.GetDevicesIds()[0]), 0o600)
}

// plugIn has a plugin serve and register, as plugins do when the kubelet's socket appears.
func (a *agent) plugIn() *thingPlugin {
	a.T.Helper()
	dir := filepath.Join(a.Root, devices.Dir)
	p := &thingPlugin{server: grpc.NewServer(), file: filepath.Join(a.T.TempDir(), "thing")}
	must.OK(a.T, os.WriteFile(p.file, nil, 0o600))
	conn, err := plugins.NewConn(filepath.Join(dir, devices.SocketFile), 1<<20)
	must.OK(a.T, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(a.T.Context(), settle)
	defer cancel()
	// The agent removes the sockets of before when it starts to serve: an empty request shows that it does.
	client := pluginapi.NewRegistrationClient(conn)
	_, _ = client.Register(ctx, &pluginapi.RegisterRequest{}, grpc.WaitForReady(true))
	l, err := plugins.Listen(filepath.Join(dir, "thing.sock"), 8)
	must.OK(a.T, err)
	pluginapi.RegisterDevicePluginServer(p.server, p)
	go func() { _ = p.server.Serve(l) }()
	a.T.Cleanup(p.server.Stop)
	_, err = client.Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: "thing.sock", ResourceName: thing,
	})
	must.OK(a.T, err)
	return p
}

// withThing gives a pod's container one device.
func withThing(p *corev1.Pod) {
	c := &p.Spec.Containers[0]
	c.Resources.Limits = corev1.ResourceList{thing: resource.MustParse("1")}
	c.Env = append(c.Env, corev1.EnvVar{Name: "OWN", Value: "manifest"})
}

// usesThing ends unless the container has all that the plugin gives it.
const usesThing = `test -n "$THING" -a "$OWN" = manifest -a -c /dev/thing && ` +
	`test "$(cat /etc/thing)" = "$THING" && ` + idle

// health returns the health of the device of a pod's container.
func health(p *corev1.Pod) (id string, health corev1.ResourceHealthStatus) {
	for _, st := range p.Status.ContainerStatuses {
		for _, r := range st.AllocatedResourcesStatus {
			return string(r.Resources[0].ResourceID), r.Resources[0].Health
		}
	}
	return "", ""
}

func TestDevicesOfAPluginThatComesAndGoes(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	a.put(newPod("web", usesThing, withThing))
	a.start()
	waits := func(p *corev1.Pod) bool { return p.Status.Reason == node.ReasonNoPlugin }
	a.pod("web", "waits for its plugin", waits)
	first := a.plugIn()
	web := a.pod("web", "ready", ready)
	if id, health := health(web); id != "a" || health != corev1.ResourceHealthStatusHealthy {
		t.Errorf("web has device %q, %s, want a, healthy", id, health)
	}
	before := a.fingerprint()
	first.server.Stop()
	a.pod("web", "with an unhealthy device", func(p *corev1.Pod) bool {
		_, health := health(p)
		return health == corev1.ResourceHealthStatusUnhealthy && ready(p)
	})
	a.crash()
	a.put(newPod("late", usesThing, withThing))
	a.pod("late", "waits for its plugin", waits)
	a.plugIn()
	late := a.pod("late", "ready", ready)
	if id, _ := health(late); id != "b" {
		t.Errorf("late has device %q, want b: web has a", id)
	}
	a.pod("web", "with a healthy device", func(p *corev1.Pod) bool {
		_, health := health(p)
		return health == corev1.ResourceHealthStatusHealthy
	})
	a.kept(before, "a plugin that went and came, and a crash of the agent")
	a.put(newPod("third", usesThing, withThing))
	a.pod("third", "rejected", func(p *corev1.Pod) bool { return p.Status.Reason == "OutOf"+thing })
	a.listsDevices(map[string]string{"web": "a", "late": "b"})
	a.Remove("web.yaml")
	a.put(newPod("next", usesThing, withThing))
	a.pod("next", "admitted with the device of web, or rejected before its end", func(p *corev1.Pod) bool {
		id, _ := health(p)
		return ready(p) && id == "a" || p.Status.Reason == "OutOf"+thing
	})
}

// After a lost journal a pod keeps the device that its container has, and a new pod gets another one.
func TestDevicesAreKeptOverALostJournal(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	a.put(newPod("first", usesThing, withThing))
	a.start()
	plugin := a.plugIn()
	a.pod("first", "ready", ready)
	a.put(newPod("web", usesThing, withThing))
	if id, _ := health(a.pod("web", "ready", ready)); id != "b" {
		t.Fatalf("web has device %q, want b: first has a", id)
	}
	a.Remove("first.yaml")
	eventually(t, settle, "nothing to be left of first", func() error {
		dirs, err := os.ReadDir(filepath.Join(a.Root, "pods"))
		if err == nil && len(dirs) != 1 {
			err = fmt.Errorf("%d directories of pods, want that of web", len(dirs))
		}
		return err
	})
	before := a.fingerprint()
	a.loseJournal()
	plugin.server.Stop()
	a.put(newPod("next", usesThing, withThing))
	a.start()
	a.plugIn()
	a.pod("web", "ready", ready)
	a.pod("next", "ready", ready)
	a.listsDevices(map[string]string{"web": "b", "next": "a"})
	a.kept(before, "a lost journal")
}

// listsDevices checks what PodResources has of pods, by name.
func (a *agent) listsDevices(want map[string]string) {
	a.T.Helper()
	conn, err := plugins.NewConn(filepath.Join(a.Root, podresources.Dir, podresources.SocketFile), 1<<20)
	must.OK(a.T, err)
	defer conn.Close()
	all, err := podapi.NewPodResourcesListerClient(conn).List(a.T.Context(), &podapi.ListPodResourcesRequest{})
	must.OK(a.T, err)
	for _, p := range all.GetPodResources() {
		name := a.ShortName(p.GetName())
		for _, d := range p.GetContainers()[0].GetDevices() {
			if want[name] != d.GetDeviceIds()[0] || d.GetResourceName() != thing {
				a.T.Errorf("%s is listed with %v, want %s", name, d, want[name])
			}
			delete(want, name)
		}
	}
	if len(want) > 0 {
		a.T.Errorf("these pods are not listed with their devices: %v", want)
	}
}
