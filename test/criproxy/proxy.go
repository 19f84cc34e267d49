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

// maxMessage bounds one CRI message, in bytes: the kubelet's bound is 16 MiB; lists of many pods are long.
const maxMessage = 64 << 20

// Call is one CRI call that has ended.
type Call struct {
	Method     string // without its service: RunPodSandbox
	Pod        string // name of the pod that it makes something for; empty for the others
	Begin, End time.Time
	Failed     bool
}

// Proxy passes calls on from a socket of its own to a runtime.
type Proxy struct {
	server *grpc.Server
	conn   *grpc.ClientConn

	events sync.Mutex        // guards stream, and each send on it
	stream grpc.ServerStream // the newest of GetContainerEvents

	mu    sync.Mutex
	calls []Call
	pods  map[string]string // id of a container to the name of its pod
	asked *cri.CreateContainerRequest
	exec  func(pod string, at time.Time)
	hold  func(method string, request []byte) <-chan struct{}
}

// Listen begins to pass calls on from the unix socket at path to the runtime at target (unix:///...).
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
	p.server = grpc.NewServer(grpc.ForceServerCodecV2(raw{}), grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.UnknownServiceHandler(p.pass))
	go func() { _ = p.server.Serve(l) }() // it ends with Close; one that fails shows in the agent
	return p, nil
}

// Close ends all calls under way.
func (p *Proxy) Close() error {
	p.server.Stop()
	return p.conn.Close()
}

// Take gives the calls that have ended since the last Take, by their begin. Streams that last are not among them.
func (p *Proxy) Take() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.calls
	p.calls = nil
	slices.SortFunc(out, func(a, b Call) int { return a.Begin.Compare(b.Begin) })
	return out
}

// Asked is the last request for a container that was answered; nil before the first. It is not to be changed.
func (p *Proxy) Asked() *cri.CreateContainerRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// AnswerExec has the proxy answer ExecSync by itself, with exit code 0, for containers that were made through it; note hears
// whose and when it came, and must return at once. Such a call never reaches the runtime and is not among those of Take.
func (p *Proxy) AnswerExec(note func(pod string, at time.Time)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exec = note
}

// Hold has until called with each call before the runtime sees it, by its full method and its request as encoded. The call is held until
// the channel is closed, or for as long as its caller waits; nil: it passes at once. until must not block.
func (p *Proxy) Hold(until func(method string, request []byte) <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = until
}

// held waits for as long as a call is to be held.
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

// standIn is the answer of a command in a container of ours; not ok: the runtime is to be asked.
func (p *Proxy) standIn(c Call, req frame) (answer frame, ok bool, err error) {
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
	answer, err = proto.Marshal(&cri.ExecSyncResponse{})
	return answer, true, err
}

// pass is one call or stream: one message from the client, any number back, as all of CRI's are.
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
	if answer, ok, err := p.standIn(call, req); ok || err != nil {
		if err == nil {
			err = in.SendMsg(&answer)
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

// adopt makes a stream the one that Send sends on, and returns how to send on it beside Send.
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

// Send sends an event on the newest stream of events, as if it came from the runtime. It blocks while the agent does not read.
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

// note keeps a call that has ended, with the name of the pod that it was about.
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
			c.Pod, p.asked = m.GetSandboxConfig().GetMetadata().GetName(), &m
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

// frame is a message as it came over the wire.
type frame []byte

// raw is a codec that leaves messages as they are.
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

// Name implements encoding.CodecV2: both ends speak protobuf.
func (raw) Name() string { return "proto" }
