package load

import (
	"context"
	"net"
	"path"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// front stands before the runtime: it passes calls on and adds events of its own to the stream.
type front struct {
	cri.UnimplementedRuntimeServiceServer
	cri.UnimplementedImageServiceServer
	to *grpc.ClientConn
	// looks counts lists of one pod.
	looks atomic.Int64

	mu     sync.Mutex // one Send at a time
	stream cri.RuntimeService_GetContainerEventsServer
}

func serveFront(tb testing.TB, to *grpc.ClientConn, socket string) *front {
	tb.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		tb.Fatal(err)
	}
	f := &front{to: to}
	s := grpc.NewServer(grpc.UnaryInterceptor(f.pass), grpc.MaxRecvMsgSize(16<<20))
	cri.RegisterRuntimeServiceServer(s, f)
	cri.RegisterImageServiceServer(s, f)
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(l) })
	tb.Cleanup(func() {
		s.Stop()
		wg.Wait()
	})
	return f
}

// pass makes the same call on the runtime.
func (f *front) pass(ctx context.Context, req any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	if l, ok := req.(*cri.ListPodSandboxRequest); ok && len(l.GetFilter().GetLabelSelector()) > 0 {
		f.looks.Add(1)
	}
	out, err := answerOf(info.FullMethod)
	if err != nil {
		return nil, err
	}
	if err := f.to.Invoke(ctx, info.FullMethod, req, out, grpc.MaxCallRecvMsgSize(16<<20)); err != nil {
		return nil, err
	}
	return out, nil
}

// answerOf makes an empty answer of a method, such as /runtime.v1.RuntimeService/Version.
func answerOf(method string) (proto.Message, error) {
	service, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(path.Dir(method)[1:]))
	if err != nil {
		return nil, status.Error(codes.Unimplemented, err.Error())
	}
	m := service.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(path.Base(method)))
	t, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
	if err != nil {
		return nil, status.Error(codes.Unimplemented, err.Error())
	}
	return t.New().Interface(), nil
}

// GetContainerEvents passes the runtime's events on.
func (f *front) GetContainerEvents(req *cri.GetEventsRequest, out cri.RuntimeService_GetContainerEventsServer) error {
	in, err := cri.NewRuntimeServiceClient(f.to).GetContainerEvents(out.Context(), req)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.stream = out
	f.mu.Unlock()
	for {
		e, err := in.Recv()
		if err != nil {
			return err
		}
		if err := f.send(e); err != nil {
			return err
		}
	}
}

// send tells the agent of one event. It blocks while the agent does not read.
func (f *front) send(e *cri.ContainerEventResponse) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stream == nil {
		return status.Error(codes.Unavailable, "nobody listens")
	}
	return f.stream.Send(e)
}
