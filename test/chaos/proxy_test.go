//go:build chaos

package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/journalet/journalet/test/node"
)

// proxy stands between an agent and the runtime and understands calls, but not what is in them: a call that mentions one
// of the hung names is held before the runtime sees it, for as long as its caller waits.
type proxy struct {
	up *grpc.ClientConn

	mu    sync.Mutex
	names []string
	free  chan struct{} // closed when calls are held no longer
	held  map[string]int
}

// behindProxy puts a proxy between an agent that is not started yet and the runtime.
func (a *agent) behindProxy() *proxy {
	a.T.Helper()
	up, err := grpc.NewClient(setup.Runtime.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(opaque{}), grpc.MaxCallRecvMsgSize(node.MaxMessageBytes)))
	if err != nil {
		a.T.Fatal(err)
	}
	path := filepath.Join(a.Dir, "cri.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		a.T.Fatal(err)
	}
	p := &proxy{up: up, held: map[string]int{}}
	server := grpc.NewServer(grpc.ForceServerCodec(opaque{}), grpc.UnknownServiceHandler(p.forward), grpc.MaxRecvMsgSize(node.MaxMessageBytes))
	go func() { _ = server.Serve(l) }() // ends with Stop
	// At the very end: until then the agent's pods go through here.
	a.AtTheEnd(func() {
		p.release()
		server.Stop()
		_ = up.Close()
	})
	a.Endpoint = "unix://" + path
	return p
}

// hang holds every call that mentions one of these names, from now on.
func (p *proxy) hang(names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names, p.free = names, make(chan struct{})
}

// release lets what is still waited for pass, and tells how many calls were held.
func (p *proxy) release() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free != nil {
		close(p.free)
	}
	p.names, p.free = nil, nil
	n := 0
	for _, k := range p.held {
		n += k
	}
	return n
}

// holdsBoth tells whether the start of a sandbox and that of a container have been held.
func (p *proxy) holdsBoth() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	sandbox, other := 0, 0
	for method, n := range p.held {
		if strings.HasSuffix(method, "/RunPodSandbox") {
			sandbox += n
		} else {
			other += n
		}
	}
	if sandbox == 0 || other == 0 {
		return fmt.Errorf("held so far: %v", p.held)
	}
	return nil
}

// holds returns what a call must wait for, or nil.
func (p *proxy) holds(method string, request []byte) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.names {
		if bytes.Contains(request, []byte(n)) {
			p.held[method]++
			return p.free
		}
	}
	return nil
}

// forward passes one call: every call of CRI has one request and one answer, or a stream of them.
func (p *proxy) forward(_ any, down grpc.ServerStream) error {
	ctx := down.Context()
	method, ok := grpc.MethodFromServerStream(down)
	if !ok {
		return status.Error(codes.Internal, "a call without a method")
	}
	var request []byte
	if err := down.RecvMsg(&request); err != nil {
		return err
	}
	if free := p.holds(method, request); free != nil {
		select {
		case <-free:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	md, _ := metadata.FromIncomingContext(ctx)
	up, err := p.up.NewStream(metadata.NewOutgoingContext(ctx, md), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	if err := errors.Join(up.SendMsg(&request), up.CloseSend()); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for {
		var answer []byte
		if err := up.RecvMsg(&answer); err != nil {
			down.SetTrailer(up.Trailer())
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := down.SendMsg(&answer); err != nil {
			return err
		}
	}
}

// opaque passes messages as bytes.
type opaque struct{}

func (opaque) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (opaque) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(b)
	return nil
}

func (opaque) Name() string { return "proto" }
