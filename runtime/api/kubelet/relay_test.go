package kubelet

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

// relayed is a client's connection to a door, whose end towards the door closes on demand: the client vanishes, and its
// own end does not know yet.
type relayed struct {
	l    net.Listener
	url  string
	door func() (net.Conn, error)
	up   chan net.Conn
}

func relay(t *testing.T, n *node, protocol string) *relayed {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	r := &relayed{l: l, url: "http://" + l.Addr().String(), up: make(chan net.Conn, 1)}
	r.door = func() (net.Conn, error) { return n.client.DialContext(context.Background(), "", "") }
	if protocol == "WebSocket" {
		r.door = func() (net.Conn, error) { return net.Dial("tcp", strings.TrimPrefix(n.tcp.URL, "http://")) }
	}
	go r.run()
	t.Cleanup(func() { l.Close() })
	return r
}

func (r *relayed) run() {
	down, err := r.l.Accept()
	if err != nil {
		return
	}
	defer down.Close()
	up, err := r.door()
	if err != nil {
		return
	}
	r.up <- up
	done := make(chan struct{})
	go func() { _, _ = io.Copy(up, down); close(done) }()
	_, _ = io.Copy(down, up)
	down.Close()
	<-done
}

func (r *relayed) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", r.l.Addr().String())
}

// vanish closes the connection to the door.
func (r *relayed) vanish() { (<-r.up).Close() }
