package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	gorilla "github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	protocol "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// pingPeriod is the time between two pings of SPDY, as client-go has it.
const pingPeriod = 5 * time.Second

// maxStatusBytes bounds the report on how a command ended, in bytes.
const maxStatusBytes = 64 << 10

// guarded connects to the socket for a session.
func (c *Client) guarded(ctx context.Context) (*conn, error) {
	raw, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	return guard(ctx, raw, c.upgradeTimeout)
}

// config returns the configuration of client-go for sessions that end with ctx. client-go connects a WebSocket by TCP,
// whatever the configuration has as its dialer. It offers only to wrap the round tripper that holds the connection, so
// the wrapper replaces it with a round tripper that connects to the socket.
func (c *Client) config(ctx context.Context) *rest.Config {
	return &rest.Config{
		Host: "http://" + host,
		WrapTransport: func(rt http.RoundTripper) http.RoundTripper {
			if holder, ok := rt.(*websocket.RoundTripper); ok {
				return &upgrader{client: c, ctx: ctx, holder: holder}
			}
			return rt
		},
	}
}

// upgrader opens WebSocket connections over the socket.
type upgrader struct {
	client *Client
	ctx    context.Context
	holder *websocket.RoundTripper
}

func (u *upgrader) RoundTrip(req *http.Request) (*http.Response, error) {
	header := req.Header.Clone()
	protocols := header[wsstream.WebSocketProtocolHeader]
	delete(header, wsstream.WebSocketProtocolHeader)
	var under *conn
	d := gorilla.Dialer{
		NetDialContext: func(context.Context, string, string) (net.Conn, error) {
			var err error
			under, err = u.client.guarded(u.ctx)
			return under, err
		},
		Subprotocols:   protocols,
		ReadBufferSize: u.holder.DataBufferSize() + 1<<10, WriteBufferSize: u.holder.DataBufferSize() + 1<<10,
	}
	to := *req.URL
	to.Scheme = "ws"
	ws, resp, err := d.DialContext(u.ctx, to.String(), header)
	if errors.Is(err, gorilla.ErrBadHandshake) && resp != nil {
		return nil, &httpstream.UpgradeFailureError{Cause: refused(resp)}
	}
	if err != nil {
		return nil, under.why(err)
	}
	known := len(protocols) == 0
	for _, p := range protocols {
		known = known || p == ws.Subprotocol()
	}
	if !known {
		ws.Close()
		return nil, &httpstream.UpgradeFailureError{Cause: fmt.Errorf("the agent chose protocol %.100q of %q",
			ws.Subprotocol(), protocols)}
	}
	if err := under.establish(); err != nil {
		ws.Close()
		return nil, err
	}
	u.holder.Conn = ws
	return resp, nil
}

// spdyUpgrade opens SPDY connections over the socket.
type spdyUpgrade struct {
	*spdy.SpdyRoundTripper
	under       *conn
	wantsStatus bool
	status      atomic.Int64 // bytes read of the report on how the command ended
}

// spdy returns what opens SPDY connections for a session that ends with ctx.
func (c *Client) spdy(ctx context.Context) (*spdyUpgrade, error) {
	u := &spdyUpgrade{}
	rt, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{
		PingPeriod: pingPeriod,
		UpgradeTransport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			under, err := c.guarded(ctx)
			if err != nil {
				return nil, err
			}
			u.under = under
			return under, nil
		}},
	})
	u.SpdyRoundTripper = rt
	return u, err
}

// RoundTrip sends the request.
func (u *spdyUpgrade) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := u.SpdyRoundTripper.RoundTrip(req)
	return resp, u.under.why(err)
}

// NewConnection begins the session once the agent has agreed to it.
func (u *spdyUpgrade) NewConnection(resp *http.Response) (httpstream.Connection, error) {
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return nil, refused(resp)
	}
	if err := u.under.establish(); err != nil {
		return nil, err
	}
	conn, err := u.SpdyRoundTripper.NewConnection(resp)
	if err != nil {
		return nil, err
	}
	switch resp.Header.Get(httpstream.HeaderProtocolVersion) {
	case protocol.StreamProtocolV4Name, protocol.StreamProtocolV5Name:
		u.wantsStatus = true
	}
	return &statusConnection{conn, u}, nil
}

// statusConnection watches the stream that reports how a command ended. The agent reports every end, but client-go
// takes a stream without a report, as of a broken connection, for success. Nor does client-go bound what it reads of a
// report.
type statusConnection struct {
	httpstream.Connection
	u *spdyUpgrade
}

func (c *statusConnection) CreateStream(header http.Header) (httpstream.Stream, error) {
	s, err := c.Connection.CreateStream(header)
	if err != nil || header.Get(corev1.StreamType) != corev1.StreamTypeError || !c.u.wantsStatus {
		return s, err
	}
	return &statusStream{s, c.u}, nil
}

type statusStream struct {
	httpstream.Stream
	u *spdyUpgrade
}

func (s *statusStream) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	if s.u.status.Add(int64(n)) > maxStatusBytes {
		return 0, errUpgradeTooLong
	}
	return n, err
}

// lost returns the error of a session that ended without a report.
func (u *spdyUpgrade) lost(err error) error {
	if err == nil && u.wantsStatus && u.status.Load() == 0 {
		return ErrLost
	}
	return err
}

// otherProtocol reports whether the agent may know SPDY where it refused a WebSocket. A request that it refuses for
// another reason is not sent again.
func otherProtocol(err error) bool {
	var upgrade *httpstream.UpgradeFailureError
	if !errors.As(err, &upgrade) {
		return false
	}
	var status *StatusError
	if !errors.As(upgrade.Cause, &status) {
		return true
	}
	switch status.Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented,
		http.StatusUpgradeRequired, http.StatusOK:
		return true
	}
	return false
}

// explained returns an error of the libraries as one for people: the agent's words, or what became of the connection.
func explained(ctx context.Context, err error) error {
	var status *StatusError
	var upgrade *httpstream.UpgradeFailureError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &endedError{ctx.Err(), context.Cause(ctx)}
	case errors.As(err, &status):
		return status
	case errors.Is(err, errUpgradeTooLong):
		return errUpgradeTooLong
	case errors.As(err, &upgrade):
		return upgrade.Cause
	}
	var e *url.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	return &shortError{err}
}

// endedError is the error of a session that its context ended.
type endedError struct{ err, cause error }

func (e *endedError) Error() string   { return e.cause.Error() }
func (e *endedError) Unwrap() []error { return []error{e.err, e.cause} }

// shortError bounds the text of an error: it may hold what the peer sent.
type shortError struct{ error }

func (e *shortError) Error() string {
	text := e.error.Error()
	if len(text) > maxErrorBytes {
		text = text[:maxErrorBytes] + "..."
	}
	return text
}

func (e *shortError) Unwrap() error { return e.error }
