package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Time limits of the suite. callTimeout is the kubelet's own for CRI calls; stateTimeout bounds the wait for a state
// that a process has to bring about.
const (
	callTimeout  = 2 * time.Minute
	stateTimeout = 30 * time.Second
	pollPeriod   = 20 * time.Millisecond
)

// MissingBinary is a command that exists in no image: starting it must fail. A simulated runtime, which can't know
// what an image holds, has to be told so.
const MissingBinary = "/conformance/no-such-binary"

// Env is the runtime under test.
type Env struct {
	// Conn is an open connection to it; the suite leaves it open.
	Conn *grpc.ClientConn
	// Image is present there, fully named, and has a busybox shell.
	Image string
	// HasEvents says that GetContainerEvents works (containerd 1.7 and later).
	HasEvents bool
	// LogDir gives a fresh folder, on the runtime's machine, for one pod's logs. The suite removes nothing from it.
	LogDir func(*testing.T) string
	// Sandbox, if set, changes each sandbox's config before it is used (a cgroup parent, say).
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

// pod is one sandbox made by a test, with what is needed to put containers into it.
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

func unique() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails, by its documentation
	return hex.EncodeToString(b)
}

// podConfig is what the agent sends for a plain pod: a network of its own, a PID namespace a container.
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

// run makes a sandbox and sees to its removal.
func (s *suite) run(t *testing.T, config *cri.PodSandboxConfig) *pod {
	t.Helper()
	resp, err := s.runtime.RunPodSandbox(call(t), &cri.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatalf("RunPodSandbox: %v", err)
	}
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

// newPod is run with a plain config.
func (s *suite) newPod(t *testing.T) *pod { t.Helper(); return s.run(t, s.podConfig(t)) }

// containerConfig is a container that runs argv.
func (p *pod) containerConfig(name string, argv ...string) *cri.ContainerConfig {
	return &cri.ContainerConfig{
		Metadata:    &cri.ContainerMetadata{Name: name},
		Image:       &cri.ImageSpec{Image: p.s.Image},
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

// forever is a process that ends only by SIGKILL: as PID 1 it has no handler for the stop signal.
func forever() []string { return []string{"sleep", "100000"} }

func script(s string) []string { return []string{"sh", "-c", s} }

// create makes a container; the sandbox's removal removes it.
func (p *pod) create(t *testing.T, c *cri.ContainerConfig) string {
	t.Helper()
	resp, err := p.s.runtime.CreateContainer(call(t), &cri.CreateContainerRequest{PodSandboxId: p.id, Config: c, SandboxConfig: p.config})
	if err != nil {
		t.Fatalf("CreateContainer %s: %v", c.GetMetadata().GetName(), err)
	}
	return resp.GetContainerId()
}

// start creates a container and starts it.
func (p *pod) start(t *testing.T, c *cri.ContainerConfig) string {
	t.Helper()
	id := p.create(t, c)
	if _, err := p.s.runtime.StartContainer(call(t), &cri.StartContainerRequest{ContainerId: id}); err != nil {
		t.Fatalf("StartContainer %s: %v", c.GetMetadata().GetName(), err)
	}
	return id
}

func (s *suite) status(t *testing.T, id string) *cri.ContainerStatus {
	t.Helper()
	resp, err := s.runtime.ContainerStatus(call(t), &cri.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		t.Fatalf("ContainerStatus: %v", err)
	}
	return resp.GetStatus()
}

func (s *suite) sandboxStatus(t *testing.T, id string) *cri.PodSandboxStatus {
	t.Helper()
	resp, err := s.runtime.PodSandboxStatus(call(t), &cri.PodSandboxStatusRequest{PodSandboxId: id})
	if err != nil {
		t.Fatalf("PodSandboxStatus: %v", err)
	}
	return resp.GetStatus()
}

// exited waits for a container's end. It polls, because not every runtime under test has events.
func (s *suite) exited(t *testing.T, id string) *cri.ContainerStatus {
	t.Helper()
	var last *cri.ContainerStatus
	eventually(t, "container "+id+" exits", func() bool {
		last = s.status(t, id)
		return last.GetState() == cri.ContainerState_CONTAINER_EXITED
	})
	return last
}

// stopContainer stops with grace in seconds.
func (s *suite) stopContainer(t *testing.T, id string, grace int64) {
	t.Helper()
	if _, err := s.runtime.StopContainer(call(t), &cri.StopContainerRequest{ContainerId: id, Timeout: grace}); err != nil {
		t.Fatalf("StopContainer: %v", err)
	}
}

// gone says whether a stop succeeded, as far as an agent may care: of something that isn't there, the API wants success,
// but containerd answers NotFound up to 1.6.
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
			t.Fatalf("waited %s in vain until %s", stateTimeout, what)
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
