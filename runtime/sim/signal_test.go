package sim

import (
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
)

func TestAContainerDiesOfItsStopSignal(t *testing.T) {
	for signal, want := range map[cri.Signal]int32{
		cri.Signal_SIGNAL_RUNTIME_DEFAULT: 143, cri.Signal_SIGNAL_SIGINT: 130, cri.Signal_SIGNAL_SIGKILL: 137,
	} {
		forever := func(*cri.ContainerConfig) (Behaviour, bool) { return Behaviour{RunFor: Forever}, true }
		g := newRig(t, Options{Behaviour: forever})
		resp, err := g.cri.CreateContainer(g.ctx, &cri.CreateContainerRequest{
			PodSandboxId: g.pod(t, "a"), SandboxConfig: podConfig("a"),
			Config: &cri.ContainerConfig{
				Metadata: &cri.ContainerMetadata{Name: "a"}, Image: &cri.ImageSpec{Image: "busybox"}, StopSignal: signal,
			},
		})
		must.OK(t, err)
		id := resp.GetContainerId()
		if _, err := g.cri.StartContainer(g.ctx, &cri.StartContainerRequest{ContainerId: id}); err != nil {
			t.Fatal(err)
		}
		if _, err := g.cri.StopContainer(g.ctx, &cri.StopContainerRequest{ContainerId: id, Timeout: 30}); err != nil {
			t.Fatal(err)
		}
		st, err := g.cri.ContainerStatus(g.ctx, &cri.ContainerStatusRequest{ContainerId: id})
		if err != nil || st.GetStatus().GetExitCode() != want {
			t.Errorf("%s: exit code %d, want %d (%v)", signal, st.GetStatus().GetExitCode(), want, err)
		}
	}
}

func TestWhatRunsInAContainerDiesWithIt(t *testing.T) {
	g := newRig(t, Options{})
	id := g.running(t, "a", "sh", "-c", "trap 'exit 0' TERM; sleep 1000")
	done := make(chan *cri.ExecSyncResponse, 1)
	go func() {
		resp, err := g.cri.ExecSync(g.ctx, &cri.ExecSyncRequest{ContainerId: id, Cmd: []string{"sleep", "10"}})
		if err != nil {
			t.Error(err)
		}
		done <- resp
	}()
	// The container's own end and the command's are what the clock has to fire.
	must.OK(t, g.clock.WaitPending(g.ctx, 2))
	must.OK(t, g.Kill(id, 1))
	g.clock.Advance(time.Second)
	if code := (<-done).GetExitCode(); code != 137 {
		t.Errorf("the command ended with %d, want 137", code)
	}
}
