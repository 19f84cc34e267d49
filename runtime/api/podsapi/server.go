package podsapi

import (
	"cmp"
	"context"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/plugins"
)

// The names of the directory in the root directory and of the socket in it. kubelet: pods-api/pods-api.sock
// (pkg/kubelet/kubeletconfig/defaults.go, pkg/kubelet/apis/pods/constants.go).
const (
	Dir        = own.PodsAPI
	SocketFile = "pods-api.sock"
)

// apiVersion is the version of the API in metrics.
const apiVersion = "v1alpha1"

const (
	// maxPerSecond and maxBurst bound requests. kubelet: the same, without watches.
	maxPerSecond = 100
	maxBurst     = 10
	// maxConnections bounds clients at once, maxStreams the requests of one, maxRequestBytes the size of a request,
	// maxHeaderBytes the size of its headers, window what a client may send before it is read.
	maxConnections  = 64
	maxStreams      = 8
	maxRequestBytes = 16 << 10
	maxHeaderBytes  = 16 << 10
	window          = 64 << 10
	// requestTimeout bounds one request but a watch, and how long a connection may take to begin.
	requestTimeout = 10 * time.Second
	// dirMode is the mode of the directory. kubelet: 0750.
	dirMode = 0o750
)

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
	limit   *rate.Limiter
	synced  atomic.Bool
	listing chan struct{} // one list is encoded at a time
	conns   *conns
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
	return &Server{
		opts: o, limit: rate.NewLimiter(maxPerSecond, maxBurst), listing: make(chan struct{}, 1),
		conns: newConns(), hub: newHub(o.Pod, o.UIDs, o.Dropped),
	}
}

// Name implements drivers.Driver.
func (*Server) Name() string { return "pods API" }

// Stored shows the server a stored record. It does not block.
func (s *Server) Stored(rec *journaletv1.Record) { s.hub.stored(rec) }

// Run serves the socket until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	if err := os.MkdirAll(s.opts.Dir, dirMode); err != nil {
		return err
	}
	// One more than are served, so that a new one can take the place of one without a request.
	l, err := plugins.Listen(filepath.Join(s.opts.Dir, SocketFile), maxConnections+1)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.Creds(known{insecure.NewCredentials()}),
		grpc.MaxRecvMsgSize(maxRequestBytes), grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxStreams), grpc.ConnectionTimeout(requestTimeout),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window),
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(encodingproto.Name), &s.conns.unread}),
		grpc.UnaryInterceptor(s.answer), grpc.StreamInterceptor(s.stream))
	api.RegisterPodsServer(server, s)
	ended := context.AfterFunc(ctx, server.Stop)
	defer ended()
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
	if err := server.Serve(listener{l, s.conns}); err != nil && ctx.Err() == nil {
		return err
	}
	return ctx.Err()
}

// answer serves a request within its bounds, and counts it.
func (s *Server) answer(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if !s.limit.Allow() {
		return nil, tooMany()
	}
	c := connOf(ctx)
	defer s.conns.use(c)()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	out, err := next(ctx, req)
	s.count(info.FullMethod, err)
	if err != nil {
		return nil, err
	}
	return &answer{out.(proto.Message), c}, nil //nolint:forcetypeassert // all answers of the API are messages
}

// stream serves a watch within its bounds, and counts it at its end.
func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if !s.limit.Allow() {
		return tooMany()
	}
	c := connOf(stream.Context())
	defer s.conns.use(c)()
	err := next(srv, sending{stream, c})
	s.count(info.FullMethod, err)
	return err
}

func tooMany() error { return status.Error(codes.ResourceExhausted, "rejected by rate limit") }

func (s *Server) count(method string, err error) {
	s.opts.Requested(apiVersion, path.Base(method), status.Code(err).String())
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
