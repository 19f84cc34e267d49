package fakecri

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// killedExitCode is the exit code of a stopped container: 128 and the number of SIGKILL.
const killedExitCode = 137

// Runtime is the fake. Its methods may be called from several goroutines.
type Runtime struct {
	// Now is the runtime's clock.
	Now func() time.Time
	// Images holds the node's images by each of their names.
	Images map[string]*runtimeapi.Image
	// IPs are the addresses of every sandbox with a network of its own, the primary one first.
	IPs []string

	mu         sync.Mutex
	calls      []proto.Message
	sandboxes  map[string]*Sandbox
	containers map[string]*Container
	// created counts the creations of each id: a runtime never gives one to two containers.
	created map[string]int
}

// Sandbox is one sandbox of the runtime.
type Sandbox struct {
	ID        string
	Config    *runtimeapi.PodSandboxConfig
	State     runtimeapi.PodSandboxState
	CreatedAt time.Time
	IPs       []string
	// Stopped: a call stopped it, which also releases its network.
	Stopped bool
}

// Container is one container of the runtime.
type Container struct {
	ID, SandboxID string
	Config        *runtimeapi.ContainerConfig
	State         runtimeapi.ContainerState
	ImageID       string
	// StartedAt and FinishedAt are zero before it started and ended.
	CreatedAt, StartedAt, FinishedAt time.Time
	ExitCode                         int32
	Reason, Message                  string
	LogPath                          string
	// MemoryBytes is its memory usage.
	MemoryBytes uint64
}

// New returns a runtime without sandboxes.
func New(now func() time.Time) *Runtime {
	return &Runtime{
		Now: now, Images: map[string]*runtimeapi.Image{}, IPs: []string{"10.88.0.7"},
		sandboxes: map[string]*Sandbox{}, containers: map[string]*Container{}, created: map[string]int{},
	}
}

// Calls returns the requests so far that changed something, in order.
func (r *Runtime) Calls() []proto.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// AddSandbox adds an existing sandbox, without a call.
func (r *Runtime) AddSandbox(s *Sandbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sandboxes[s.ID] = s
}

// AddContainer adds an existing container, without a call.
func (r *Runtime) AddContainer(c *Container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.containers[c.ID] = c
}

// Container returns a copy of the container with this id, nil if no container has it.
func (r *Runtime) Container(id string) *Container {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil {
		return nil
	}
	copied := *c
	return &copied
}

// Running returns the names of the running containers, sorted.
func (r *Runtime) Running() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, c := range r.containers {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			names = append(names, c.Config.GetMetadata().GetName())
		}
	}
	slices.Sort(names)
	return names
}

// Objects describes the sandboxes and containers, one line each, sorted.
func (r *Runtime) Objects() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for id, s := range r.sandboxes {
		state := "dead and not stopped"
		switch {
		case s.State == runtimeapi.PodSandboxState_SANDBOX_READY:
			state = "ready"
		case s.Stopped:
			state = "stopped"
		}
		out = append(out, "sandbox: "+id+" "+state)
	}
	for id, c := range r.containers {
		state := strings.ToLower(strings.TrimPrefix(c.State.String(), "CONTAINER_"))
		out = append(out, fmt.Sprintf("container: %s %s in %s", id, state, c.SandboxID))
	}
	slices.Sort(out)
	return out
}

// Exit ends a running container with an exit code, without a call. It returns false if none runs.
func (r *Runtime) Exit(name string, code int32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(r.containers)) {
		c := r.containers[id]
		if c.Config.GetMetadata().GetName() != name || c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		r.end(c, code)
		return true
	}
	return false
}

func (r *Runtime) end(c *Container, code int32) {
	c.State, c.ExitCode, c.FinishedAt, c.Reason = runtimeapi.ContainerState_CONTAINER_EXITED, code, r.Now(), "Error"
	if code == 0 {
		c.Reason = "Completed"
	}
}

func (r *Runtime) note(m proto.Message) { r.calls = append(r.calls, proto.Clone(m)) }

func notFound(what, id string) error {
	return status.Errorf(codes.NotFound, "%s %q: not found", what, id)
}

func (r *Runtime) runSandbox(config *runtimeapi.PodSandboxConfig) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(&runtimeapi.RunPodSandboxRequest{Config: config})
	s := &Sandbox{
		ID:        fmt.Sprintf("sandbox-%d", config.GetMetadata().GetAttempt()),
		Config:    config,
		State:     runtimeapi.PodSandboxState_SANDBOX_READY,
		CreatedAt: r.Now(),
	}
	if config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() != runtimeapi.NamespaceMode_NODE {
		s.IPs = r.IPs
	}
	r.sandboxes[s.ID] = s
	return s.ID
}

func (r *Runtime) stopSandbox(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(&runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	if s := r.sandboxes[id]; s != nil {
		s.State, s.Stopped = runtimeapi.PodSandboxState_SANDBOX_NOTREADY, true
	}
	for _, c := range r.containers {
		if c.SandboxID == id && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			r.end(c, killedExitCode)
		}
	}
}

func (r *Runtime) removeSandbox(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(&runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	delete(r.sandboxes, id)
	maps.DeleteFunc(r.containers, func(_ string, c *Container) bool { return c.SandboxID == id })
}

func (r *Runtime) createContainer(
	sandbox string, config *runtimeapi.ContainerConfig, copied *runtimeapi.PodSandboxConfig,
) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sandboxes[sandbox] == nil {
		return "", notFound("sandbox", sandbox)
	}
	r.note(&runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, Config: config, SandboxConfig: copied})
	c := &Container{
		ID:        ContainerID(config.GetMetadata().GetName(), config.GetMetadata().GetAttempt()),
		SandboxID: sandbox, Config: config, CreatedAt: r.Now(), ImageID: config.GetImage().GetImage(),
		State:   runtimeapi.ContainerState_CONTAINER_CREATED,
		LogPath: copied.GetLogDirectory() + "/" + config.GetLogPath(),
	}
	if r.created[c.ID]++; r.created[c.ID] > 1 {
		c.ID = fmt.Sprintf("%s-again-%d", c.ID, r.created[c.ID])
	}
	r.containers[c.ID] = c
	return c.ID, nil
}

// ContainerID returns the id of an instance of a container.
func ContainerID(name string, attempt uint32) string { return fmt.Sprintf("%s-%d", name, attempt) }

func (r *Runtime) startContainer(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil {
		return notFound("container", id)
	}
	r.note(&runtimeapi.StartContainerRequest{ContainerId: id})
	c.State, c.StartedAt = runtimeapi.ContainerState_CONTAINER_RUNNING, r.Now()
	return nil
}

// exec notes a command, which succeeds in a running container.
func (r *Runtime) exec(id string, cmd []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil {
		return notFound("container", id)
	}
	r.note(&runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: cmd})
	if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return status.Errorf(codes.FailedPrecondition, "container %q does not run", id)
	}
	return nil
}

func (r *Runtime) stopContainer(id string, timeout int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil {
		return notFound("container", id)
	}
	r.note(&runtimeapi.StopContainerRequest{ContainerId: id, Timeout: timeout})
	if c.State != runtimeapi.ContainerState_CONTAINER_EXITED {
		r.end(c, killedExitCode)
	}
	return nil
}

func (r *Runtime) removeContainer(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(&runtimeapi.RemoveContainerRequest{ContainerId: id})
	delete(r.containers, id)
}
