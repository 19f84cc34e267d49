package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// MaxMessageBytes is the kubelet's limit for CRI messages.
	MaxMessageBytes = 16 << 20
	// buildTimeout bounds the build of the agent with a cold cache.
	buildTimeout = 10 * time.Minute
	// reachTimeout bounds the first call of the runtime.
	reachTimeout = time.Minute
	// callTimeout bounds a test's call of the runtime, which may be restarting.
	callTimeout = 2 * time.Minute

	program = "github.com/journalet/journalet/cmd/journalet"
)

// Labels and annotations of the runtime's objects.
const (
	PodNameLabel       = "io.kubernetes.pod.name"
	PodUIDLabel        = "io.kubernetes.pod.uid"
	PodNamespaceLabel  = "io.kubernetes.pod.namespace"
	ContainerNameLabel = "io.kubernetes.container.name"
	// AgentMark is the annotation with the id of the agent that created the object.
	AgentMark = "journalet.io/agent"
)

// Setup is what all tests of a package share: the program under test and the runtime.
type Setup struct {
	Program string
	Runtime *Runtime
}

// Run builds the program, connects to the runtime at the endpoint that find returns, and runs the tests. It returns
// their exit status.
func (s *Setup) Run(m *testing.M, find func() (string, error)) (int, error) {
	dir, err := os.MkdirTemp("", "jl-bin-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left is in the temporary directory
	if s.Program, err = Build(dir); err != nil {
		return 0, err
	}
	endpoint, err := find()
	if err != nil {
		return 0, err
	}
	if s.Runtime, err = Dial(endpoint); err != nil {
		return 0, err
	}
	defer s.Runtime.conn.Close()
	return m.Run(), nil
}

// Build builds the program in a directory and returns its path.
func Build(dir string) (string, error) {
	path := filepath.Join(dir, "journalet")
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", path, program) //nolint:gosec // a path of tests
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the agent: %w\n%s", err, out)
	}
	return path, nil
}

// Runtime is the container runtime under test.
type Runtime struct {
	cri.RuntimeServiceClient
	Images   cri.ImageServiceClient
	Endpoint string
	Name     string // as the runtime calls itself: containerd, cri-o
	conn     *grpc.ClientConn
}

// Dial connects to the runtime and calls it once, so that a run without one fails at once.
func Dial(endpoint string) (*Runtime, error) {
	if endpoint[0] == '/' {
		endpoint = "unix://" + endpoint
	}
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.WaitForReady(true)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", endpoint, err)
	}
	r := &Runtime{
		RuntimeServiceClient: cri.NewRuntimeServiceClient(conn), Images: cri.NewImageServiceClient(conn),
		Endpoint: endpoint, conn: conn,
	}
	ctx, cancel := context.WithTimeout(context.Background(), reachTimeout)
	defer cancel()
	version, err := r.Version(ctx, &cri.VersionRequest{})
	if err != nil {
		return nil, fmt.Errorf("no CRI runtime responds at %s: %w", endpoint, err)
	}
	r.Name = version.GetRuntimeName()
	return r, nil
}

// Bounded returns a context for one call of the runtime.
func Bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), callTimeout)
}

// Of returns the sandboxes and containers of one node's pods, in any state.
func (r *Runtime) Of(node string) ([]*cri.PodSandbox, []*cri.Container, error) {
	ctx, cancel := Bounded()
	defer cancel()
	boxes, err := r.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return nil, nil, err
	}
	all, err := r.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return nil, nil, err
	}
	var sandboxes []*cri.PodSandbox
	for _, s := range boxes.GetItems() {
		if strings.HasSuffix(s.GetLabels()[PodNameLabel], "-"+node) {
			sandboxes = append(sandboxes, s)
		}
	}
	var containers []*cri.Container
	for _, c := range all.GetContainers() {
		if strings.HasSuffix(c.GetLabels()[PodNameLabel], "-"+node) {
			containers = append(containers, c)
		}
	}
	return sandboxes, containers, nil
}

// OnRuntime returns the sandboxes and containers of this agent's pods, in any state. If not all of them carry one
// agent's mark, it returns an error.
func (a *Agent) OnRuntime() ([]*cri.PodSandbox, []*cri.Container, error) {
	sandboxes, containers, err := a.runtime.Of(a.Node)
	marks := map[string]bool{}
	for _, s := range sandboxes {
		marks[s.GetAnnotations()[AgentMark]] = true
	}
	for _, c := range containers {
		marks[c.GetAnnotations()[AgentMark]] = true
	}
	if err == nil && (len(marks) > 1 || marks[""]) {
		err = fmt.Errorf("the agent's sandboxes and containers carry the marks %v, want one", marks)
	}
	return sandboxes, containers, err
}

// Container returns the CRI status of a container. The id may have the runtime's prefix, as in a pod's status.
func (r *Runtime) Container(id string) (*cri.ContainerStatus, error) {
	ctx, cancel := Bounded()
	defer cancel()
	answer, err := r.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: BareID(id)})
	return answer.GetStatus(), err
}

// BareID returns a container id of a pod's status without the runtime's prefix.
func BareID(id string) string {
	if _, bare, ok := strings.Cut(id, "://"); ok {
		return bare
	}
	return id
}

// Exec runs a command in a container and returns its stdout. Another exit code than 0 fails the test.
func (r *Runtime) Exec(t *testing.T, id string, command ...string) string {
	t.Helper()
	ctx, cancel := Bounded()
	defer cancel()
	answer, err := r.ExecSync(ctx, &cri.ExecSyncRequest{ContainerId: BareID(id), Cmd: command, Timeout: 100})
	if err != nil {
		t.Fatalf("%v in %s: %v", command, id, err)
	}
	if answer.GetExitCode() != 0 {
		t.Fatalf("%v in %s ended with %d: %s%s", command, id, answer.GetExitCode(), answer.GetStdout(), answer.GetStderr())
	}
	return string(answer.GetStdout())
}

// RemoveSandbox stops and removes a sandbox that a failed test left.
func (r *Runtime) RemoveSandbox(id string) {
	ctx, cancel := Bounded()
	defer cancel()
	_, _ = r.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id})
	_, _ = r.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
}

// Conn returns the connection to the runtime.
func (r *Runtime) Conn() *grpc.ClientConn { return r.conn }
