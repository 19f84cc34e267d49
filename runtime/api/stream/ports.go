package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/journalet/journalet/runtime/bounded"
)

// refusalTimeout bounds the wait for why a port is refused.
const refusalTimeout = 5 * time.Second

// Ports is a connection to the ports of a pod. Several goroutines may use it.
type Ports struct {
	conn httpstream.Connection
	next atomic.Uint64 // number of the next request
	end  context.CancelCauseFunc
}

// Ports connects to the ports of a pod, on a path of PodPath without a container. The connection ends with ctx.
//
// client-go's forwarder is not used: a port that the pod refuses would end it for all ports.
func (c *Client) Ports(ctx context.Context, pathname string) (*Ports, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	to := target(pathname, nil)
	upgrade, err := c.spdy(ctx)
	if err == nil {
		var tunnel httpstream.Dialer
		if tunnel, err = portforward.NewSPDYOverWebsocketDialerForStreaming(to, c.config(ctx)); err == nil {
			old := spdy.NewDialerForStreaming(spdy.NewUpgraderForStreaming(upgrade),
				&http.Client{Transport: upgrade, CheckRedirect: stay}, http.MethodPost, to)
			both := portforward.NewFallbackDialerForStreaming(tunnel, old, otherProtocol)
			var conn httpstream.Connection
			var protocol string
			conn, protocol, err = both.Dial(portforward.PortForwardProtocolV1Name)
			switch {
			case err == nil && protocol == portforward.PortForwardProtocolV1Name:
				return &Ports{conn: conn, end: cancel}, nil
			case err == nil:
				conn.Close()
				err = fmt.Errorf("the agent chose protocol %.100q, want %s", protocol, portforward.PortForwardProtocolV1Name)
			}
		}
	}
	err = explained(ctx, err)
	cancel(nil)
	return nil, err
}

// Done returns a channel that is closed when the connection has ended.
func (p *Ports) Done() <-chan bool { return p.conn.CloseChan() }

// Close ends the connection and all that is forwarded over it.
func (p *Ports) Close() {
	p.conn.Close()
	p.end(nil)
}

// Forward copies between a connection and a port of the pod until one of them ends, and closes the connection. The
// error is what the pod refused, such as a port that nothing listens on.
func (p *Ports) Forward(local net.Conn, port uint16) error {
	defer local.Close()
	header := http.Header{}
	header.Set(corev1.StreamType, corev1.StreamTypeError)
	header.Set(corev1.PortHeader, strconv.Itoa(int(port)))
	header.Set(corev1.PortForwardRequestIDHeader, strconv.FormatUint(p.next.Add(1)-1, 10))
	failure, err := p.conn.CreateStream(header)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	defer p.conn.RemoveStreams(failure)
	failure.Close() // nothing is written to it
	said := make(chan error, 1)
	go func() { said <- refusal(failure) }()

	header.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := p.conn.CreateStream(header)
	if err != nil {
		// A port that is refused at once has its stream reset before it is there.
		select {
		case refused := <-said:
			if refused != nil {
				return refused
			}
		case <-p.conn.CloseChan():
		case <-time.After(refusalTimeout):
		}
		_ = failure.Reset() // fails on a lost connection, as the request did
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	defer p.conn.RemoveStreams(data)
	fromPod, toPod := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(fromPod)
		_, _ = io.Copy(local, data) // either end closes the connection
	}()
	go func() {
		_, err := io.Copy(data, local)
		data.Close() // the pod reads the end of the data, and may still send
		toPod <- err
	}()
	for open := true; open; {
		select {
		case <-fromPod:
			open = false
		case err := <-toPod:
			open, toPod = err == nil, nil
		}
	}
	_ = data.Reset() // what is not sent yet must not hold up the other streams; fails on a lost connection
	return <-said
}

// refusal returns what the agent writes about a request that failed, nil about any other.
func refusal(r io.Reader) error {
	text, err := bounded.ReadAll(r, maxErrorBytes)
	if len(text) > 0 {
		return errors.New(strings.TrimSpace(string(text)))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return nil
}
