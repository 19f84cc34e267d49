package conformance

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (s *suite) process(t *testing.T) {
	t.Run("exit codes and reasons", s.exitCodes)
	t.Run("start that fails", s.startFails)
	t.Run("command, arguments, environment, directory", s.commandLine)
	t.Run("host path mounts", s.mounts)
}

func (s *suite) exitCodes(t *testing.T) {
	p := s.newPod(t)
	for _, c := range []struct {
		name   string
		argv   []string
		code   int32
		reason string
	}{
		{"zero", script("exit 0"), 0, "Completed"},
		{"three", script("exit 3"), 3, "Error"},
		{"true", []string{"true"}, 0, "Completed"},
		{"false", []string{"false"}, 1, "Error"},
		{"after-a-while", script("sleep 0.3; exit 42"), 42, "Error"},
	} {
		st := s.exited(t, p.start(t, p.containerConfig(c.name, c.argv...)))
		equal(t, "exit code of "+c.name, st.GetExitCode(), c.code)
		equal(t, "reason of "+c.name, st.GetReason(), c.reason)
		// containerd has the end from the kernel, and the start from its own clock afterwards. So a process that ends at
		// once may have ended a little before it started. An agent must accept that.
		created, started, finished := st.GetCreatedAt(), st.GetStartedAt(), st.GetFinishedAt()
		if created <= 0 || started < created || finished < started-int64(startSlack) {
			t.Errorf("%s: created at %d, started at %d, finished at %d", c.name, created, started, finished)
		}
		mustFail(t, c.name+" was started after its end", s.runtime.StartContainer,
			&cri.StartContainerRequest{ContainerId: st.GetId()})
		equal(t, "exit code of "+c.name+" after another start", s.status(t, st.GetId()).GetExitCode(), c.code)
	}
}

func (s *suite) startFails(t *testing.T) {
	p := s.newPod(t)
	id := p.create(t, p.containerConfig("main", MissingBinary))
	mustFail(t, "a binary that does not exist was started", s.runtime.StartContainer,
		&cri.StartContainerRequest{ContainerId: id})
	st := s.status(t, id)
	equal(t, "state", st.GetState(), cri.ContainerState_CONTAINER_EXITED)
	equal(t, "exit code", st.GetExitCode(), 128)
	equal(t, "reason", st.GetReason(), "StartError")
	if st.GetMessage() == "" {
		t.Error("the status has no message")
	}
}

func (s *suite) commandLine(t *testing.T) {
	p := s.newPod(t)
	config := p.containerConfig("main", "sh", "-c")
	config.Args = []string{`echo "$GREETING: $0, $1"; pwd`, "zero", "one two"}
	config.Envs = []*cri.KeyValue{{Key: "GREETING", Value: []byte("hello world")}}
	config.WorkingDir = "/tmp"
	id := p.start(t, config)
	equal(t, "exit code", s.exited(t, id).GetExitCode(), 0)
	equal(t, "output", s.output(t, id, "stdout", 2), "hello world: zero, one two\n/tmp\n")
}

func (s *suite) mounts(t *testing.T) {
	p := s.newPod(t)
	host := t.TempDir()
	//nolint:gosec // G306: a container reads it
	if err := os.WriteFile(filepath.Join(host, "in"), []byte("from the host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	config := p.containerConfig("main", script("cat /data/in; echo 'from the container' > /data/out")...)
	config.Mounts = []*cri.Mount{{ContainerPath: "/data", HostPath: host}}
	id := p.start(t, config)
	equal(t, "exit code", s.exited(t, id).GetExitCode(), 0)
	equal(t, "output", s.output(t, id, "stdout", 1), "from the host\n")
	out, err := os.ReadFile(filepath.Join(host, "out"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "file on the host", string(out), "from the container\n")
}

func (s *suite) stop(t *testing.T) {
	t.Run("handled signal ends it within the grace period", s.stopHandled)
	t.Run("ignored signal leads to SIGKILL after the grace period", s.stopIgnored)
	t.Run("without a grace period it is killed at once", s.stopAtOnce)
	t.Run("canceled call leaves it running", s.stopCanceled)
	t.Run("is idempotent", s.stopTwice)
}

// trapping starts a container that exits with 7 on SIGTERM, and waits until its handler is in place.
func (s *suite) trapping(t *testing.T, p *pod) string {
	t.Helper()
	const text = "trap 'echo bye; exit 7' TERM; echo ready; while true; do sleep 0.1; done"
	id := p.start(t, p.containerConfig("main", script(text)...))
	s.output(t, id, "stdout", 1)
	return id
}

func (s *suite) stopHandled(t *testing.T) {
	p := s.newPod(t)
	id := s.trapping(t, p)
	const grace = 100 // seconds, less than the limit of a call
	began := time.Now()
	s.stopContainer(t, id, grace)
	if took := time.Since(began); took >= grace*time.Second {
		t.Errorf("the stop took %s, though the container handles the signal", took)
	}
	st := s.status(t, id)
	equal(t, "state", st.GetState(), cri.ContainerState_CONTAINER_EXITED)
	equal(t, "exit code", st.GetExitCode(), 7)
	equal(t, "output", s.output(t, id, "stdout", 2), "ready\nbye\n")
}

func (s *suite) stopIgnored(t *testing.T) {
	p := s.newPod(t)
	id := p.start(t, p.containerConfig("main", forever()...))
	began := time.Now()
	s.stopContainer(t, id, 1)
	if took := time.Since(began); took < time.Second {
		t.Errorf("the stop took %s, less than the grace period of 1 s", took)
	}
	st := s.status(t, id)
	equal(t, "state", st.GetState(), cri.ContainerState_CONTAINER_EXITED)
	equal(t, "exit code", st.GetExitCode(), 137)
	equal(t, "reason", st.GetReason(), "Error")
}

func (s *suite) stopAtOnce(t *testing.T) {
	p := s.newPod(t)
	id := s.trapping(t, p)
	s.stopContainer(t, id, 0)
	equal(t, "exit code", s.status(t, id).GetExitCode(), 137)
}

// stopCanceled checks what an agent must know after its own timeout or crash: the grace period ends with the call, and
// no SIGKILL follows.
func (s *suite) stopCanceled(t *testing.T) {
	p := s.newPod(t)
	id := p.start(t, p.containerConfig("main", forever()...))
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	const grace = 3 // seconds; meanwhile the cancellation reaches a busy runtime
	_, err := s.runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: id, Timeout: grace})
	equal(t, "code", status.Code(err), codes.DeadlineExceeded)
	// Another container's whole grace period passes: the SIGKILL would have come by now.
	s.stopContainer(t, p.start(t, p.containerConfig("other", forever()...)), grace)
	equal(t, "state", s.status(t, id).GetState(), cri.ContainerState_CONTAINER_RUNNING)
	s.stopContainer(t, id, 1)
	equal(t, "exit code", s.status(t, id).GetExitCode(), 137)
}

func (s *suite) stopTwice(t *testing.T) {
	p := s.newPod(t)
	idle := p.create(t, p.containerConfig("idle", forever()...))
	s.stopContainer(t, idle, 1)
	equal(t, "state of a container never started", s.status(t, idle).GetState(), cri.ContainerState_CONTAINER_CREATED)
	id := p.start(t, p.containerConfig("main", script("exit 5")...))
	before := s.exited(t, id)
	s.stopContainer(t, id, 10)
	s.stopContainer(t, id, 0)
	after := s.status(t, id)
	equal(t, "exit code", after.GetExitCode(), 5)
	equal(t, "finished_at", after.GetFinishedAt(), before.GetFinishedAt())
}

// startSlack bounds how long a process may seem to have ended before it started; containerd 2.4 showed 1 ms.
const startSlack = time.Second

// missing checks calls for objects that do not exist: most fail with NotFound, stops and removals succeed.
func (s *suite) missing(t *testing.T) {
	id := unique() + unique() + unique() + unique()
	p := s.newPod(t)
	wantCode(t, codes.NotFound, s.runtime.PodSandboxStatus, &cri.PodSandboxStatusRequest{PodSandboxId: id})
	wantCode(t, codes.NotFound, s.runtime.ContainerStatus, &cri.ContainerStatusRequest{ContainerId: id})
	wantCode(t, codes.NotFound, s.runtime.StartContainer, &cri.StartContainerRequest{ContainerId: id})
	wantCode(t, codes.NotFound, s.runtime.CreateContainer, &cri.CreateContainerRequest{
		PodSandboxId: id, Config: p.containerConfig("main", forever()...), SandboxConfig: p.config,
	})
	wantCode(t, codes.NotFound, s.runtime.UpdateContainerResources,
		&cri.UpdateContainerResourcesRequest{ContainerId: id, Linux: &cri.LinuxContainerResources{}})
	wantCode(t, codes.NotFound, s.runtime.ContainerStats, &cri.ContainerStatsRequest{ContainerId: id})
	wantCode(t, codes.NotFound, s.runtime.ReopenContainerLog, &cri.ReopenContainerLogRequest{ContainerId: id})
	wantCode(t, codes.NotFound, s.runtime.ExecSync,
		&cri.ExecSyncRequest{ContainerId: id, Cmd: []string{"true"}, Timeout: 5})
	mustFail(t, "StopPodSandbox accepted an empty id", s.runtime.StopPodSandbox, &cri.StopPodSandboxRequest{})
	mustFail(t, "RemoveContainer accepted an empty id", s.runtime.RemoveContainer, &cri.RemoveContainerRequest{})
	if _, err := s.runtime.StopContainer(call(t), &cri.StopContainerRequest{ContainerId: id, Timeout: 10}); !gone(err) {
		t.Errorf("StopContainer: %v", err)
	}
	must(t, s.runtime.RemoveContainer, &cri.RemoveContainerRequest{ContainerId: id})
	if _, err := s.runtime.StopPodSandbox(call(t), &cri.StopPodSandboxRequest{PodSandboxId: id}); !gone(err) {
		t.Errorf("StopPodSandbox: %v", err)
	}
	must(t, s.runtime.RemovePodSandbox, &cri.RemovePodSandboxRequest{PodSandboxId: id})
}
