package clients

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/runtime/plugins"
)

// Bounds of one Server.
const (
	// maxPerSecond and maxBurst bound requests, streams too. kubelet: the same, for its PodResources and PodsAPI.
	maxPerSecond = 100
	maxBurst     = 10
	// MaxConnections bounds clients at once, MaxStreams the requests of one, maxRequestBytes the size of a request,
	// maxHeaderBytes the size of its headers, Window what a client may send before it is read.
	MaxConnections  = 64
	MaxStreams      = 8
	maxRequestBytes = 16 << 10
	maxHeaderBytes  = 16 << 10
	Window          = 64 << 10
	// requestTimeout bounds one request that is no stream, and how long a connection may take to begin.
	requestTimeout = 10 * time.Second
	// dirMode is the mode of the socket's directory. kubelet: 0750.
	dirMode = 0o750
)

// Server serves APIs on one socket.
type Server struct {
	// Limit bounds requests, to maxPerSecond and maxBurst.
	Limit *rate.Limiter

	grpc  *grpc.Server
	conns *conns
	count func(method string, err error)
}

// New returns a server of the APIs that register registers. It serves nothing until Run. It calls count for each
// request that the limit of the rate has let through, at the request's end, with the method as gRPC names it, such as
// /v1.PodResourcesLister/List.
func New(count func(method string, err error), register func(grpc.ServiceRegistrar)) *Server {
	s := &Server{Limit: rate.NewLimiter(maxPerSecond, maxBurst), conns: newConns(), count: count}
	s.grpc = grpc.NewServer(grpc.Creds(known{insecure.NewCredentials()}),
		grpc.MaxRecvMsgSize(maxRequestBytes), grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(MaxStreams), grpc.ConnectionTimeout(requestTimeout),
		grpc.StaticStreamWindowSize(Window), grpc.StaticConnWindowSize(Window),
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(encodingproto.Name), &s.conns.unread}),
		grpc.UnaryInterceptor(s.answer), grpc.StreamInterceptor(s.stream))
	register(s.grpc)
	return s
}

// Run creates the socket at path, with its directory, and serves it until ctx ends. It is called once.
func (s *Server) Run(ctx context.Context, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return err
	}
	// One more than are served, so that a new one can take the place of one without a request.
	l, err := plugins.Listen(path, MaxConnections+1)
	if err != nil {
		return err
	}
	ended := context.AfterFunc(ctx, s.grpc.Stop)
	defer ended()
	if err := s.grpc.Serve(listener{l, s.conns}); err != nil && ctx.Err() == nil {
		return err
	}
	return ctx.Err()
}

// answer serves a request within its bounds, and counts it.
func (s *Server) answer(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if !s.Limit.Allow() {
		return nil, tooMany()
	}
	c := ConnOf(ctx)
	defer s.conns.use(c)()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	out, err := next(ctx, req)
	s.count(info.FullMethod, err)
	if err != nil {
		return nil, err
	}
	return &answer{out.(proto.Message), c}, nil //nolint:forcetypeassert // answers of gRPC's APIs are messages
}

// stream serves a stream within its bounds, and counts it at its end.
func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if !s.Limit.Allow() {
		return tooMany()
	}
	c := ConnOf(stream.Context())
	defer s.conns.use(c)()
	err := next(srv, sending{stream, c})
	s.count(info.FullMethod, err)
	return err
}

func tooMany() error { return status.Error(codes.ResourceExhausted, "rejected by rate limit") }
