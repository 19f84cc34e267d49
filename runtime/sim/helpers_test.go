package sim

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/test/must"
)

const testTimeout = 3 * time.Minute

// epoch is the first time of the manual clocks in these tests.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// rig is a runtime on a manual clock, and a client.
type rig struct {
	*Runtime
	clock *clock.Manual
	conn  *grpc.ClientConn
	cri   cri.RuntimeServiceClient
	img   cri.ImageServiceClient
	ctx   context.Context
}

func newRig(t *testing.T, opts Options) *rig {
	t.Helper()
	clock := clock.NewManual(epoch)
	opts.Clock = clock
	opts.Images = append(opts.Images, "busybox")
	r := New(opts)
	t.Cleanup(r.Close)
	conn, err := r.Dial()
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return &rig{r, clock, conn, cri.NewRuntimeServiceClient(conn), cri.NewImageServiceClient(conn), ctx}
}

func podConfig(name string) *cri.PodSandboxConfig {
	return &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name}, Hostname: name,
	}
}

func (g *rig) pod(t *testing.T, name string) string {
	t.Helper()
	resp, err := g.cri.RunPodSandbox(g.ctx, &cri.RunPodSandboxRequest{Config: podConfig(name)})
	must.OK(t, err)
	return resp.GetPodSandboxId()
}

func (g *rig) create(t *testing.T, podID, pod, name string, argv ...string) string {
	t.Helper()
	resp, err := g.cri.CreateContainer(g.ctx, &cri.CreateContainerRequest{
		PodSandboxId: podID, SandboxConfig: podConfig(pod),
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: name}, Image: &cri.ImageSpec{Image: "busybox"}, Command: argv,
		},
	})
	must.OK(t, err)
	return resp.GetContainerId()
}

// running is a started container in a sandbox of its own.
func (g *rig) running(t *testing.T, name string, argv ...string) string {
	t.Helper()
	id := g.create(t, g.pod(t, name), name, name, argv...)
	if _, err := g.cri.StartContainer(g.ctx, &cri.StartContainerRequest{ContainerId: id}); err != nil {
		t.Fatal(err)
	}
	return id
}

func (g *rig) status(t *testing.T, id string) *cri.ContainerStatus {
	t.Helper()
	resp, err := g.cri.ContainerStatus(g.ctx, &cri.ContainerStatusRequest{ContainerId: id})
	must.OK(t, err)
	return resp.GetStatus()
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Fatalf("code is %s (%v), want %s", got, err, want)
	}
}

func wantExit(t *testing.T, st *cri.ContainerStatus, code int32, reason string) {
	t.Helper()
	if st.GetState() != cri.ContainerState_CONTAINER_EXITED || st.GetExitCode() != code || st.GetReason() != reason {
		t.Fatalf("container is %s, code %d, reason %q; want EXITED, %d, %q",
			st.GetState(), st.GetExitCode(), st.GetReason(), code, reason)
	}
}
