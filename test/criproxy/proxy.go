package criproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxMessage bounds one CRI message, in bytes. The kubelet's bound is 16 MiB; lists of many pods are longer.
const maxMessage = 64 << 20

// Call is one CRI call that has ended.
type Call struct {
	Method     string // without its service: RunPodSandbox
	Pod        string // name of its pod, for RunPodSandbox, CreateContainer and StartContainer; else empty
	Begin, End time.Time
	Failed     bool
}

// Proxy passes calls on from its own socket to a runtime.
type Proxy struct {
	server *grpc.Server
	conn   *grpc.ClientConn

	events sync.Mutex        // guards stream, and each send on it
	stream grpc.ServerStream // the newest of GetContainerEvents

	mu      sync.Mutex
	calls   []Call
	pods    map[string]string // id of a container to the name of its pod
	created *cri.CreateContainerRequest
	exec    func(pod string, at time.Time)
	hold    func(method string, request []byte) <-chan struct{}
}

// Listen begins to pass calls on from a unix socket to the runtime at target (unix:///...).
func Listen(socket, target string) (*Proxy, error) {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("criproxy: reach the runtime at %s: %w", target, err)
	}
	return Serve(socket, conn)
}

// Serve is Listen for a connection to the runtime, which Close closes.
func Serve(socket string, conn *grpc.ClientConn) (*Proxy, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("criproxy: listen: %w", err)
	}
	p := &Proxy{conn: conn, pods: map[string]string{}}
	p.server = grpc.NewServer(grpc.ForceServerCodecV2(raw{}), grpc.UnknownServiceHandler(p.pass),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage))
	go func() { _ = p.server.Serve(l) }() // it ends with Close; the agent reports a failure
	return p, nil
}

// Close removes the socket and ends all calls.
func (p *Proxy) Close() error {
	p.server.Stop()
	return p.conn.Close()
}

// Take returns the calls that have ended since the last Take, ordered by their begin. Open streams are not among them.
func (p *Proxy) Take() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.calls
	p.calls = nil
	slices.SortFunc(out, func(a, b Call) int { return a.Begin.Compare(b.Begin) })
	return out
}

// LastCreate returns the newest successful CreateContainer request, nil before the first. The caller must not change
// it.
func (p *Proxy) LastCreate() *cri.CreateContainerRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.created
}

// ServeExec makes the proxy respond to ExecSync itself, with exit code 0, for containers that were created through it.
// note gets the pod and the time, and must return at once. Such a call does not reach the runtime, and Take leaves it
// out.
func (p *Proxy) ServeExec(note func(pod string, at time.Time)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exec = note
}

// Hold calls until for each call before the runtime gets it, with its full method and its encoded request. The call is
// held until the returned channel is closed, or its caller gives up; with nil it passes at once. until must not block.
func (p *Proxy) Hold(until func(method string, request []byte) <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = until
}

// held blocks while a call is held.
func (p *Proxy) held(ctx context.Context, method string, req frame) error {
	p.mu.Lock()
	hold := p.hold
	p.mu.Unlock()
	if hold == nil {
		return nil
	}
	if free := hold(method, req); free != nil {
		select {
		case <-free:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	return nil
}

// execResponse returns the proxy's own response to an ExecSync; not ok: the call is for the runtime.
func (p *Proxy) execResponse(c Call, req frame) (resp frame, ok bool, err error) {
	p.mu.Lock()
	note := p.exec
	p.mu.Unlock()
	if c.Method != "ExecSync" || note == nil {
		return nil, false, nil
	}
	var m cri.ExecSyncRequest
	if err := proto.Unmarshal(req, &m); err != nil {
		return nil, false, status.Errorf(codes.InvalidArgument, "criproxy: ExecSync: %v", err)
	}
	p.mu.Lock()
	pod := p.pods[m.GetContainerId()]
	p.mu.Unlock()
	if pod == "" {
		return nil, false, nil
	}
	note(pod, c.Begin)
	resp, err = proto.Marshal(&cri.ExecSyncResponse{})
	return resp, true, err
}

// pass serves one call or stream: one message from the client, any number back, as in all of CRI.
func (p *Proxy) pass(_ any, in grpc.ServerStream) error {
	full, ok := grpc.MethodFromServerStream(in)
	if !ok {
		return status.Error(codes.Internal, "criproxy: a stream without a method")
	}
	var req frame
	if err := in.RecvMsg(&req); err != nil {
		return err
	}
	call := Call{Method: path.Base(full), Begin: time.Now()}
	if resp, ok, err := p.execResponse(call, req); ok || err != nil {
		if err == nil {
			err = in.SendMsg(&resp)
		}
		return err
	}
	ctx, cancel := context.WithCancel(in.Context())
	defer cancel()
	if err := p.held(ctx, full, req); err != nil {
		return err
	}
	md, _ := metadata.FromIncomingContext(ctx)
	ctx = metadata.NewOutgoingContext(ctx, md)
	out, err := p.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, full,
		grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage))
	if err == nil {
		err = errors.Join(out.SendMsg(&req), out.CloseSend())
	}
	send := in.SendMsg
	if call.Method == "GetContainerEvents" {
		send = p.adopt(in)
	}
	var last frame
	for err == nil {
		if err = out.RecvMsg(&last); err == nil {
			err = send(&last)
		}
	}
	if out != nil {
		in.SetTrailer(out.Trailer())
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	call.End, call.Failed = time.Now(), err != nil
	p.note(call, req, last)
	return err
}

// adopt makes s the stream of Send, and returns a function for other sends on it: a stream allows one at a time.
func (p *Proxy) adopt(s grpc.ServerStream) (send func(any) error) {
	p.events.Lock()
	defer p.events.Unlock()
	p.stream = s
	return func(m any) error {
		p.events.Lock()
		defer p.events.Unlock()
		return s.SendMsg(m)
	}
}

// Send sends an event on the newest GetContainerEvents stream. It blocks while the agent does not read.
func (p *Proxy) Send(e *cri.ContainerEventResponse) error {
	m, err := proto.Marshal(e)
	if err != nil {
		return err
	}
	p.events.Lock()
	defer p.events.Unlock()
	if p.stream == nil {
		return status.Error(codes.Unavailable, "criproxy: no stream of events is open")
	}
	f := frame(m)
	return p.stream.SendMsg(&f)
}

// note records a call that has ended, with the name of its pod.
func (p *Proxy) note(c Call, req, resp frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch c.Method {
	case "RunPodSandbox":
		var m cri.RunPodSandboxRequest
		if proto.Unmarshal(req, &m) == nil {
			c.Pod = m.GetConfig().GetMetadata().GetName()
		}
	case "CreateContainer":
		var m cri.CreateContainerRequest
		var r cri.CreateContainerResponse
		if proto.Unmarshal(req, &m) == nil && proto.Unmarshal(resp, &r) == nil {
			c.Pod, p.created = m.GetSandboxConfig().GetMetadata().GetName(), &m
			p.pods[r.GetContainerId()] = c.Pod
		}
	case "StartContainer":
		var m cri.StartContainerRequest
		if proto.Unmarshal(req, &m) == nil {
			c.Pod = p.pods[m.GetContainerId()]
		}
	}
	p.calls = append(p.calls, c)
}

// frame is an encoded message.
type frame []byte

// raw is a codec that neither encodes nor decodes.
type raw struct{}

// Marshal implements encoding.CodecV2.
func (raw) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("criproxy: cannot send a %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*f)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("criproxy: cannot receive a %T", v)
	}
	*f = data.Materialize()
	return nil
}

// Name implements encoding.CodecV2. It is empty so that the content type is application/grpc, as that of an agent's
// calls: CRI-O cuts the connection of a call with application/grpc+proto.
func (raw) Name() string { return "" }
