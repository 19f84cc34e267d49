package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	protocol "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/tools/remotecommand"
	clientspdy "k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	criremote "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// pingPeriod keeps the connection to the runtime alive.
	pingPeriod = 5 * time.Second
	// statusTimeout bounds the last message to the client.
	statusTimeout = 10 * time.Second
	// maxResizeBytes bounds one message with the size of a terminal.
	maxResizeBytes = 1 << 10
)

// translate serves a client of WebSocket version 5, which runtimes do not speak: its channels become the streams of a
// SPDY connection to the runtime. So the exit code passes through here, and is recorded.
func (x *session) translate(w http.ResponseWriter, r *http.Request, location *url.URL, opts *criremote.Options) {
	ws := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{
		protocol.StreamProtocolV5Name: {Binary: true, Channels: channels(opts)},
	})
	_, streams, err := ws.Open(w, r) // on an error it has answered
	if err != nil {
		x.fail(failedStream)
		return
	}
	defer ws.Close()
	// An empty message reports to the client that it is connected.
	if _, err := streams[firstWritten(opts)].Write(nil); err != nil {
		x.fail(failedClient)
		return
	}
	status := x.status(x.execute(location, x.streams(streams, opts)))
	if data, err := json.Marshal(status); err == nil && x.ctx.Err() == nil {
		ws.SetWriteDeadline(statusTimeout)
		_, _ = streams[protocol.StreamErr].Write(data) // the client has left
	}
}

// execute runs the streams of a session against the runtime.
func (x *session) execute(location *url.URL, o remotecommand.StreamOptions) error {
	dial, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{
		UpgradeTransport: x.transport(), PingPeriod: pingPeriod,
	})
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewSPDYExecutorRejectRedirects(dial,
		clientspdy.NewUpgraderForStreaming(runtimeDialer{dial}), http.MethodPost, location)
	if err != nil {
		return err
	}
	return executor.StreamWithContext(x.ctx, o)
}

// runtimeDialer opens SPDY connections to the runtime.
type runtimeDialer struct{ *spdy.SpdyRoundTripper }

// NewConnection returns the connection of a response to a request for one.
func (d runtimeDialer) NewConnection(resp *http.Response) (httpstream.Connection, error) {
	c, err := d.SpdyRoundTripper.NewConnection(resp)
	if err != nil {
		return nil, err
	}
	return runtimeConnection{c}, nil
}

// runtimeConnection creates no stream once it has ended: a client that leaves at once ends it before its streams are
// there. spdystream would keep such a stream, and two goroutines that wait for the end of that.
type runtimeConnection struct{ httpstream.Connection }

// CreateStream returns io.EOF after the end of the connection, as spdystream does.
func (c runtimeConnection) CreateStream(header http.Header) (httpstream.Stream, error) {
	select {
	case <-c.CloseChan():
		return nil, io.EOF
	default:
		return c.Connection.CreateStream(header)
	}
}

// status returns what the client is to know of the end, and keeps it for the record.
func (x *session) status(err error) metav1.Status {
	var refused *apierrors.StatusError
	var exited exec.CodeExitError
	switch {
	case err == nil:
		if x.start.GetCommand() != "" {
			x.exited(0)
		}
		return metav1.Status{Status: metav1.StatusSuccess}
	case errors.As(err, &exited):
		x.exited(int32(exited.ExitStatus()))
		return metav1.Status{
			Status: metav1.StatusFailure, Reason: protocol.NonZeroExitCodeReason,
			Message: fmt.Sprintf("command terminated with non-zero exit code: %v", exited),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
				{Type: protocol.ExitCodeCauseType, Message: strconv.Itoa(exited.ExitStatus())},
			}},
		}
	case x.ctx.Err() != nil:
		x.fail(failedClient)
	default:
		x.fail(failedStream)
	}
	if errors.As(err, &refused) {
		return refused.Status()
	}
	return apierrors.NewInternalError(err).Status()
}

// channels returns the five channels of a session; unused ones ignore what the client sends.
func channels(o *criremote.Options) []wsstream.ChannelType {
	all := make([]wsstream.ChannelType, protocol.StreamResize+1)
	use := func(on bool, i int, t wsstream.ChannelType) {
		if all[i] = wsstream.IgnoreChannel; on {
			all[i] = t
		}
	}
	use(o.Stdin, protocol.StreamStdIn, wsstream.ReadChannel)
	use(o.Stdout, protocol.StreamStdOut, wsstream.WriteChannel)
	use(o.Stderr, protocol.StreamStdErr, wsstream.WriteChannel)
	use(true, protocol.StreamErr, wsstream.WriteChannel)
	use(true, protocol.StreamResize, wsstream.ReadChannel)
	return all
}

func firstWritten(o *criremote.Options) int {
	switch {
	case o.Stdout:
		return protocol.StreamStdOut
	case o.Stderr:
		return protocol.StreamStdErr
	}
	return protocol.StreamErr
}

// streams connects the client's channels with the runtime's.
func (x *session) streams(from []io.ReadWriteCloser, o *criremote.Options) remotecommand.StreamOptions {
	var to remotecommand.StreamOptions
	if o.Stdin {
		to.Stdin = from[protocol.StreamStdIn]
	}
	if o.Stdout {
		to.Stdout = from[protocol.StreamStdOut]
	}
	if o.Stderr {
		to.Stderr = from[protocol.StreamStdErr]
	}
	resize := from[protocol.StreamResize]
	if !o.TTY {
		go func() { _, _ = io.Copy(io.Discard, resize) }() // else the client's next message waits for ever
		return to
	}
	sizes := make(chan remotecommand.TerminalSize)
	go readSizes(x.ctx, resize, sizes)
	to.Tty, to.TerminalSizeQueue = true, sizeQueue(sizes)
	return to
}

// sizeQueue passes sizes of the client's terminal on.
type sizeQueue chan remotecommand.TerminalSize

// Next returns the next size, nil after the last one.
func (q sizeQueue) Next() *remotecommand.TerminalSize {
	size, ok := <-q
	if !ok {
		return nil
	}
	return &size
}

// readSizes reads sizes, one a message, until the client or the session ends. It skips messages that are not sizes.
func readSizes(ctx context.Context, from io.Reader, to chan<- remotecommand.TerminalSize) {
	defer close(to)
	message := make([]byte, maxResizeBytes)
	for {
		n, err := from.Read(message)
		var size remotecommand.TerminalSize
		if n > 0 && bounded.JSON(message[:n], maxResizeBytes, &size) == nil {
			select {
			case to <- size:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}
