package podsapi

import (
	"cmp"
	"context"
	"iter"
	"path"
	"path/filepath"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/plugins/clients"
)

// The names of the directory in the root directory and of the socket in it. kubelet: pods-api/pods-api.sock
// (pkg/kubelet/kubeletconfig/defaults.go, pkg/kubelet/apis/pods/constants.go).
const (
	Dir        = own.PodsAPI
	SocketFile = "pods-api.sock"
)

// apiVersion is the version of the API in metrics.
const apiVersion = "v1alpha1"

// Options configure a Server. All but Requested and Dropped must be set.
type Options struct {
	// Dir is the directory of the socket.
	Dir string
	// Pods returns all pods. They are the caller's.
	Pods func(context.Context) (iter.Seq[*corev1.Pod], error)
	// Pod returns the pod with a UID as it is after all records that were stored before the call, nil if no pod has the
	// UID. The pod is the caller's. UIDs returns the UIDs of all pods, also of some that Pod does not return.
	Pod  func(ctx context.Context, uid string) (*corev1.Pod, error)
	UIDs func() []string
	// Synced reports whether all sources of pods were read once in this run.
	Synced func(context.Context) bool
	// Requested counts a request by its method and the name of its code, Dropped an event that a watcher was not sent
	// because it lags.
	Requested func(version, method, code string)
	Dropped   func()
}

// Server serves the API.
type Server struct {
	api.UnimplementedPodsServer
	opts    Options
	clients *clients.Server
	synced  atomic.Bool
	listing chan struct{} // one list is encoded at a time
	hub     *hub
}

// New returns a server that serves nothing until Run.
func New(o Options) *Server {
	if o.Requested == nil {
		o.Requested = func(_, _, _ string) {}
	}
	if o.Dropped == nil {
		o.Dropped = func() {}
	}
	s := &Server{opts: o, listing: make(chan struct{}, 1), hub: newHub(o.Pod, o.UIDs, o.Dropped)}
	s.clients = clients.New(func(method string, err error) {
		o.Requested(apiVersion, path.Base(method), status.Code(err).String())
	}, func(r grpc.ServiceRegistrar) { api.RegisterPodsServer(r, s) })
	return s
}

// Name implements drivers.Driver.
func (*Server) Name() string { return "pods API" }

// Stored shows the server a stored record. It does not block.
func (s *Server) Stored(rec *journaletv1.Record) { s.hub.stored(rec) }

// Run serves the socket until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	fed := make(chan struct{})
	feeding, stop := context.WithCancel(ctx)
	go func() {
		defer close(fed)
		s.hub.run(feeding)
	}()
	defer func() {
		stop()
		<-fed
	}()
	return s.clients.Run(ctx, filepath.Join(s.opts.Dir, SocketFile))
}

// ready returns an error until all sources were read once.
func (s *Server) ready(ctx context.Context) error {
	if s.synced.Load() || s.opts.Synced(ctx) {
		s.synced.Store(true)
		return nil
	}
	return status.Error(codes.FailedPrecondition, "the agent has not read all sources of pods yet; try again")
}

// ListPods returns all pods, by UID. One whose actor does not answer in time is left out.
func (s *Server) ListPods(ctx context.Context, _ *api.ListPodsRequest) (*api.ListPodsResponse, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	select {
	case s.listing <- struct{}{}:
		defer func() { <-s.listing }()
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	pods, err := s.opts.Pods(ctx)
	if err != nil {
		return nil, unreadable(err)
	}
	type encoded struct {
		uid string
		pod []byte
	}
	var all []encoded
	for p := range pods {
		b, err := encode(p)
		if err != nil {
			return nil, err
		}
		all = append(all, encoded{string(p.UID), b})
	}
	slices.SortFunc(all, func(x, y encoded) int { return cmp.Compare(x.uid, y.uid) })
	out := &api.ListPodsResponse{Pods: make([][]byte, len(all))}
	for i := range all {
		out.Pods[i] = all[i].pod
	}
	return out, nil
}

// GetPod returns the pod with a UID. That of a static pod is its own, not its mirror pod's.
func (s *Server) GetPod(ctx context.Context, r *api.GetPodRequest) (*api.GetPodResponse, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	p, err := s.opts.Pod(ctx, r.GetPodUID())
	if err != nil {
		return nil, unreadable(err)
	}
	if p == nil {
		return nil, status.Errorf(codes.NotFound, "pod with UID %.253s not found", r.GetPodUID())
	}
	b, err := encode(p)
	if err != nil {
		return nil, err
	}
	return &api.GetPodResponse{Pod: b}, nil
}

func unreadable(err error) error {
	return status.Errorf(codes.Unavailable, "the pods cannot be read now: %v; try again", err)
}

// encode returns the bytes of a pod. As in the kubelet, a pod without a phase yet is Pending.
func encode(p *corev1.Pod) ([]byte, error) {
	p.Status.Phase = cmp.Or(p.Status.Phase, corev1.PodPending)
	b, err := p.Marshal()
	if err != nil {
		return nil, status.Errorf(codes.Internal, "encode pod %s: %v", p.UID, err)
	}
	return b, nil
}
