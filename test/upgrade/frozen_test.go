package upgrade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"path"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/sim"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// server is a CRI runtime.
type server interface {
	cri.RuntimeServiceServer
	cri.ImageServiceServer
}

// frozen is a runtime that shows what another one showed, and refuses every call that would change that.
type frozen struct {
	cri.UnimplementedRuntimeServiceServer
	cri.UnimplementedImageServiceServer

	mu         sync.Mutex
	sandboxes  []*cri.PodSandbox
	containers []*cri.Container
	boxes      map[string]*cri.PodSandboxStatus
	statuses   map[string]*cri.ContainerStatus
	calls      []string // that would have changed something
	listed     int      // relists of everything
}

// markOf returns the mark of the agent with this root directory on all that it creates. An agent that computed another
// mark would take the recorded pods for pods of another agent.
func markOf(root string) string {
	sum := sha256.Sum256([]byte(nodeName + "\n" + root))
	return hex.EncodeToString(sum[:8])
}

// show shows what was recorded, as if the agent with this mark had created it.
func (f *frozen) show(t *testing.T, r *recorded, mark string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.boxes, f.statuses = map[string]*cri.PodSandboxStatus{}, map[string]*cri.ContainerStatus{}
	for i := range r.Sandboxes {
		s, st := new(cri.PodSandbox), new(cri.PodSandboxStatus)
		r.decode(t, r.Sandboxes[i], s)
		r.decode(t, r.SandboxStatuses[i], st)
		s.Annotations[node.AgentMark], st.Annotations[node.AgentMark] = mark, mark
		f.sandboxes, f.boxes[s.GetId()] = append(f.sandboxes, s), st
	}
	for i := range r.Containers {
		c, st := new(cri.Container), new(cri.ContainerStatus)
		r.decode(t, r.Containers[i], c)
		r.decode(t, r.ContainerStatuses[i], st)
		c.Annotations[node.AgentMark], st.Annotations[node.AgentMark] = mark, mark
		f.containers, f.statuses[c.GetId()] = append(f.containers, c), st
	}
}

// forget shows no objects any more: the agent that could stop these pods is gone.
func (f *frozen) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sandboxes, f.containers = nil, nil
}

// received returns the calls that would have changed something, and how many relists of everything there were.
func (f *frozen) received() ([]string, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...), f.listed
}

// refuse records and refuses a call that would change something.
func (f *frozen) refuse(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	about := ""
	switch q := req.(type) {
	case *cri.StopPodSandboxRequest:
		about = q.GetPodSandboxId()
		if f.boxes[about].GetState() == cri.PodSandboxState_SANDBOX_NOTREADY {
			return &cri.StopPodSandboxResponse{}, nil // changes nothing; an agent with a new journal repeats it
		}
	case *cri.RunPodSandboxRequest:
		about = q.GetConfig().GetMetadata().GetName()
	case *cri.CreateContainerRequest:
		about = q.GetSandboxConfig().GetMetadata().GetName()
	case *cri.StopContainerRequest:
		about = q.GetContainerId()
	case interface{ GetContainerId() string }:
		about = q.GetContainerId()
	case interface{ GetPodSandboxId() string }:
		about = q.GetPodSandboxId()
	}
	switch method := path.Base(info.FullMethod); method {
	case "Version", "Status", "RuntimeConfig", "ListPodSandbox", "PodSandboxStatus", "ListContainers", "ContainerStatus",
		"ImageStatus", "ListImages", "ImageFsInfo":
		return next(ctx, req)
	default:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.calls = append(f.calls, method+" "+about)
		return nil, status.Error(codes.Unavailable, "a recording cannot do it")
	}
}

func (f *frozen) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{
		Version: "0.1.0", RuntimeName: sim.RuntimeName, RuntimeVersion: "recorded", RuntimeApiVersion: "v1",
	}, nil
}

func (f *frozen) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	return &cri.StatusResponse{Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
		{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: true},
	}}}, nil
}

func (f *frozen) ListPodSandbox(_ context.Context, q *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := new(cri.ListPodSandboxResponse)
	for _, s := range f.sandboxes {
		if selects(q.GetFilter(), s) {
			out.Items = append(out.Items, s)
		}
	}
	return out, nil
}

func (f *frozen) ListContainers(_ context.Context, q *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if proto.Size(q) == 0 || q.GetFilter() != nil && proto.Size(q.GetFilter()) == 0 {
		f.listed++
	}
	out := new(cri.ListContainersResponse)
	for _, c := range f.containers {
		if sandbox := q.GetFilter().GetPodSandboxId(); selects(q.GetFilter(), c) &&
			(sandbox == "" || sandbox == c.GetPodSandboxId()) {
			out.Containers = append(out.Containers, c)
		}
	}
	return out, nil
}

// selects reports whether an object has the id and the labels of a filter.
func selects(filter interface {
	GetId() string
	GetLabelSelector() map[string]string
}, object interface {
	GetId() string
	GetLabels() map[string]string
}) bool {
	for k, v := range filter.GetLabelSelector() {
		if object.GetLabels()[k] != v {
			return false
		}
	}
	return filter.GetId() == "" || filter.GetId() == object.GetId()
}

func (f *frozen) PodSandboxStatus(
	_ context.Context, q *cri.PodSandboxStatusRequest,
) (*cri.PodSandboxStatusResponse, error) {
	if s := f.boxes[q.GetPodSandboxId()]; s != nil {
		return &cri.PodSandboxStatusResponse{Status: s}, nil
	}
	return nil, status.Error(codes.NotFound, "no such sandbox")
}

func (f *frozen) ContainerStatus(
	_ context.Context, q *cri.ContainerStatusRequest,
) (*cri.ContainerStatusResponse, error) {
	if s := f.statuses[q.GetContainerId()]; s != nil {
		return &cri.ContainerStatusResponse{Status: s}, nil
	}
	return nil, status.Error(codes.NotFound, "no such container")
}

// ImageStatus reports every image as present.
func (f *frozen) ImageStatus(_ context.Context, q *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	image := &cri.Image{Id: "sha256:recorded", RepoTags: []string{q.GetImage().GetImage()}}
	return &cri.ImageStatusResponse{Image: image}, nil
}

// serve returns the endpoint of a runtime.
func serve(t *testing.T, rt server) string {
	t.Helper()
	// Not TempDir: its paths are longer than a socket's may be.
	dir, err := os.MkdirTemp("", "jl-cri-")
	must.OK(t, err)
	socket := filepath.Join(dir, "cri.sock")
	l, err := net.Listen("unix", socket)
	must.OK(t, err)
	var options []grpc.ServerOption
	if f, ok := rt.(*frozen); ok {
		options = append(options, grpc.UnaryInterceptor(f.refuse))
	}
	s := grpc.NewServer(options...)
	cri.RegisterRuntimeServiceServer(s, rt)
	cri.RegisterImageServiceServer(s, rt)
	go func() { _ = s.Serve(l) }() // ends with Stop
	t.Cleanup(func() {
		s.Stop()
		_ = os.RemoveAll(dir)
	})
	return "unix://" + socket
}
