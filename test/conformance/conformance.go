package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Time limits of the suite. callTimeout is the kubelet's own for CRI calls; stateTimeout bounds the wait for a state
// that depends on a process.
const (
	callTimeout  = 2 * time.Minute
	stateTimeout = 2 * time.Minute
	pollPeriod   = 20 * time.Millisecond
)

// MissingBinary is a command that exists in no image: starting it must fail. A simulated runtime does not know what an
// image holds, and has to know this path.
const MissingBinary = "/conformance/no-such-binary"

// Env is the runtime under test.
type Env struct {
	// Conn is an open connection to the runtime; the suite leaves it open.
	Conn *grpc.ClientConn
	// Image is the full name of an image that the runtime has, with a busybox shell.
	Image string
	// HasEvents reports whether GetContainerEvents works (containerd 1.7 and later).
	HasEvents bool
	// LogDir returns a new directory, on the runtime's machine, for one pod's logs. The suite removes nothing from it.
	LogDir func(*testing.T) string
	// Sandbox, if set, changes each sandbox's config before it is used, for example the cgroup parent.
	Sandbox func(*cri.PodSandboxConfig)
}

// Run runs the whole suite.
func Run(t *testing.T, env Env) {
	if env.Conn == nil || env.Image == "" || env.LogDir == nil {
		t.Fatal("conformance.Env needs Conn, Image and LogDir")
	}
	s := &suite{Env: env, runtime: cri.NewRuntimeServiceClient(env.Conn), images: cri.NewImageServiceClient(env.Conn)}
	t.Run("Node", s.node)
	t.Run("Sandbox", s.sandbox)
	t.Run("Container", s.container)
	t.Run("Process", s.process)
	t.Run("Stop", s.stop)
	t.Run("Missing", s.missing)
	t.Run("Logs", s.logs)
	t.Run("Exec", s.exec)
	t.Run("Image", s.image)
	if env.HasEvents {
		t.Run("Events", s.events)
	}
}

type suite struct {
	Env
	runtime cri.RuntimeServiceClient
	images  cri.ImageServiceClient
}

// pod is one sandbox that a test created, with what its containers need.
type pod struct {
	s      *suite
	id     string
	config *cri.PodSandboxConfig
}

// call is the context of one CRI call.
func call(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	t.Cleanup(cancel)
	return ctx
}

// must runs one call that has to succeed.
func must[Req, Resp any](t *testing.T, f func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req) Resp {
	t.Helper()
	resp, err := f(call(t), req)
	if err != nil {
		t.Fatalf("%T: %v", req, err)
	}
	return resp
}

// mustFail runs one call that has to fail; what says what happened if it does not.
func mustFail[Req, Resp any](
	t *testing.T, what string, f func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req,
) {
	t.Helper()
	if _, err := f(call(t), req); err == nil {
		t.Fatal(what)
	}
}

// wantCode runs one call that has to fail with a code.
func wantCode[Req, Resp any](
	t *testing.T, want codes.Code, f func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req,
) {
	t.Helper()
	_, err := f(call(t), req)
	equal(t, fmt.Sprintf("code of %T", req), status.Code(err), want)
}

func unique() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails, by its documentation
	return hex.EncodeToString(b)
}

// podConfig returns what the agent sends for a plain pod: a network of its own, a PID namespace for each container.
func (s *suite) podConfig(t *testing.T) *cri.PodSandboxConfig {
	t.Helper()
	name := "conformance-" + unique()
	c := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Namespace: "conformance", Uid: "uid-" + name},
		Hostname:     name,
		LogDirectory: s.LogDir(t),
		Labels:       map[string]string{"suite": "conformance", "pod": name},
		Annotations:  map[string]string{"conformance/note": "kept as it is: ä, \"quotes\", and\nlines"},
		Linux: &cri.LinuxPodSandboxConfig{SecurityContext: &cri.LinuxSandboxSecurityContext{
			NamespaceOptions: &cri.NamespaceOption{Pid: cri.NamespaceMode_CONTAINER},
		}},
	}
	if s.Sandbox != nil {
		s.Sandbox(c)
	}
	return c
}

// run creates a sandbox. The end of the test removes it.
func (s *suite) run(t *testing.T, config *cri.PodSandboxConfig) *pod {
	t.Helper()
	resp := must(t, s.runtime.RunPodSandbox, &cri.RunPodSandboxRequest{Config: config})
	p := &pod{s: s, id: resp.GetPodSandboxId(), config: config}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		if _, err := s.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.id}); !gone(err) {
			t.Errorf("StopPodSandbox of %s at the end: %v", p.id, err)
		}
		if _, err := s.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.id}); err != nil {
			t.Errorf("RemovePodSandbox of %s at the end: %v", p.id, err)
		}
	})
	return p
}

// newPod creates a sandbox with a plain config.
func (s *suite) newPod(t *testing.T) *pod { t.Helper(); return s.run(t, s.podConfig(t)) }

// containerConfig returns a container that runs argv.
func (p *pod) containerConfig(name string, argv ...string) *cri.ContainerConfig {
	return &cri.ContainerConfig{
		Metadata:    &cri.ContainerMetadata{Name: name},
		Image:       &cri.ImageSpec{Image: p.s.Image, UserSpecifiedImage: p.s.Image},
		Command:     argv,
		Labels:      map[string]string{"suite": "conformance", "container": name},
		Annotations: map[string]string{"conformance/intent": "intent-of-" + name},
		LogPath:     filepath.Join(name, "0.log"),
		Linux: &cri.LinuxContainerConfig{
			Resources: &cri.LinuxContainerResources{CpuShares: 100, OomScoreAdj: 1000},
			SecurityContext: &cri.LinuxContainerSecurityContext{
				NamespaceOptions: p.config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
			},
		},
	}
}

// forever returns a command that only SIGKILL ends: as PID 1 it has no handler for the stop signal.
func forever() []string { return []string{"sleep", "100000"} }

func script(s string) []string { return []string{"sh", "-c", s} }

// logs makes the directory of a container's log, as the agent does. Not every runtime does it: CRI-O does not.
func (p *pod) logs(t *testing.T, c *cri.ContainerConfig) {
	t.Helper()
	dir := filepath.Dir(filepath.Join(p.config.GetLogDirectory(), c.GetLogPath()))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
}

// create creates a container. The removal of its sandbox removes it.
func (p *pod) create(t *testing.T, c *cri.ContainerConfig) string {
	t.Helper()
	p.logs(t, c)
	req := &cri.CreateContainerRequest{PodSandboxId: p.id, Config: c, SandboxConfig: p.config}
	return must(t, p.s.runtime.CreateContainer, req).GetContainerId()
}

// start creates a container and starts it.
func (p *pod) start(t *testing.T, c *cri.ContainerConfig) string {
	t.Helper()
	id := p.create(t, c)
	must(t, p.s.runtime.StartContainer, &cri.StartContainerRequest{ContainerId: id})
	return id
}

func (s *suite) status(t *testing.T, id string) *cri.ContainerStatus {
	t.Helper()
	return must(t, s.runtime.ContainerStatus, &cri.ContainerStatusRequest{ContainerId: id}).GetStatus()
}

func (s *suite) sandboxStatus(t *testing.T, id string) *cri.PodSandboxStatus {
	t.Helper()
	return must(t, s.runtime.PodSandboxStatus, &cri.PodSandboxStatusRequest{PodSandboxId: id}).GetStatus()
}

// exited waits until a container has exited. It polls, because not every runtime under test has events.
func (s *suite) exited(t *testing.T, id string) *cri.ContainerStatus {
	t.Helper()
	var last *cri.ContainerStatus
	eventually(t, "container "+id+" exits", func() bool {
		last = s.status(t, id)
		return last.GetState() == cri.ContainerState_CONTAINER_EXITED
	})
	return last
}

// stopContainer stops a container with a grace period in seconds.
func (s *suite) stopContainer(t *testing.T, id string, grace int64) {
	t.Helper()
	must(t, s.runtime.StopContainer, &cri.StopContainerRequest{ContainerId: id, Timeout: grace})
}

// gone reports whether a stop left nothing running. For an object that does not exist, CRI asks for success, but
// containerd returns NotFound up to 1.6.
func gone(err error) bool { return err == nil || status.Code(err) == codes.NotFound }

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(stateTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %s: %s", stateTimeout, what)
		}
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %s, want %s", what, show(got), show(want))
	}
}

func show(v any) string {
	if s, ok := v.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprint(v)
}
