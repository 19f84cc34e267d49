package cri

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec of requests
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// maxResponseBytes bounds one response of the runtime (kubelet: maxMsgSize, 16 MiB).
	maxResponseBytes = 16 << 20
	// MaxExecOutputBytes is how much of each output of a command is kept (kubelet: 10 KiB of both for a probe).
	MaxExecOutputBytes = 10 << 10
	// maxExecTransfers bounds how many outputs of commands are received at once. Each may have maxResponseBytes, so
	// together 64 MiB.
	maxExecTransfers = 4
	// execTransferTimeout bounds the time for one output: 16 MiB over a local socket take milliseconds.
	execTransferTimeout = 10 * time.Second
	// streamWindowBytes is how much the runtime may send on one call before it is read; the least that gRPC allows. Its
	// default grows to 16 MiB.
	streamWindowBytes = 64 << 10
	// connWindowBytes is the same for the connection. gRPC renews it as bytes arrive, so unread calls hold up no others.
	connWindowBytes = 1 << 20
)

// DialOptions returns what a connection to a runtime needs so that no response, and no number of them, takes more
// memory than the bounds of this package.
//
// The output of a command is up to the author of the image: containerd keeps 16 MiB of it, and hundreds of probes and
// hooks may end at once. The kubelet's bound of a message alone would allow gigabytes, and a lower one would lose the
// exit code, so that a probe with a long output would have no result. So the exit code and the first
// MaxExecOutputBytes of each output are taken from any answer of up to 16 MiB, and a few answers are received at a
// time. A command that still runs takes no part of that bound.
func DialOptions() []grpc.DialOption {
	transfers := make(chan struct{}, maxExecTransfers)
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponseBytes)),
		grpc.WithStaticStreamWindowSize(streamWindowBytes), grpc.WithStaticConnWindowSize(connWindowBytes),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
			invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if method != runtimeapi.RuntimeService_ExecSync_FullMethodName {
				return invoke(ctx, method, req, reply, cc, opts...)
			}
			return execSync(ctx, cc, req, reply, transfers, opts)
		}),
	}
}

// execSync calls ExecSync as a stream: its header arrives when the command has ended, before the output is received.
func execSync(
	ctx context.Context, cc *grpc.ClientConn, req, reply any, transfers chan struct{}, opts []grpc.CallOption,
) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	opts = append(opts[:len(opts):len(opts)], grpc.ForceCodecV2(execCodec{encoding.GetCodecV2("proto")}))
	call, err := cc.NewStream(within, &grpc.StreamDesc{}, runtimeapi.RuntimeService_ExecSync_FullMethodName, opts...)
	if err != nil {
		return err
	}
	// After io.EOF, RecvMsg returns why the call has ended.
	if err := call.SendMsg(req); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if _, err := call.Header(); err != nil {
		return err
	}
	select {
	case transfers <- struct{}{}:
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	defer func() { <-transfers }()
	late := time.AfterFunc(execTransferTimeout, cancel)
	defer late.Stop()
	err = call.RecvMsg(reply)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return status.Errorf(codes.Aborted, "the output of a command was not received within %s", execTransferTimeout)
	}
	return err
}

// execCodec decodes responses of ExecSync, of each output only the beginning.
type execCodec struct{ encoding.CodecV2 }

// Unmarshal decodes without a copy of the message.
func (execCodec) Unmarshal(data mem.BufferSlice, v any) error {
	resp, ok := v.(*runtimeapi.ExecSyncResponse)
	if !ok {
		return fmt.Errorf("%T is not the response of a command", v)
	}
	r := data.Reader()
	defer r.Close()
	for r.Remaining() > 0 {
		tag, err := binary.ReadUvarint(r)
		if err != nil {
			return err
		}
		field, kind := protowire.DecodeTag(tag)
		n, text, err := readField(r, kind)
		if err != nil {
			return fmt.Errorf("decode field %d of a command's response: %w", field, err)
		}
		switch {
		case field == 1 && kind == protowire.BytesType:
			resp.Stdout = text
		case field == 2 && kind == protowire.BytesType:
			resp.Stderr = text
		case field == 3 && kind == protowire.VarintType:
			resp.ExitCode = int32(n)
		}
	}
	return nil
}

// readField reads one field: a number, or the first MaxExecOutputBytes of a text.
func readField(r *mem.Reader, kind protowire.Type) (n uint64, text []byte, err error) {
	skip := 0
	switch kind {
	case protowire.VarintType:
		n, err = binary.ReadUvarint(r)
	case protowire.Fixed32Type:
		skip = 4
	case protowire.Fixed64Type:
		skip = 8
	case protowire.BytesType:
		if n, err = binary.ReadUvarint(r); err == nil && n > uint64(r.Remaining()) {
			err = io.ErrUnexpectedEOF
		}
		if err == nil {
			text = make([]byte, min(n, MaxExecOutputBytes))
			_, err = io.ReadFull(r, text)
			skip = int(n) - len(text)
		}
	default:
		err = errors.New("unknown wire type")
	}
	if err == nil && skip > 0 {
		_, err = r.Discard(skip)
	}
	return n, text, err
}
