package kubelet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/journalet/journalet/test/must"
)

// The runtime ends a connection before the streams of a session are there.
func TestAConnectionThatHasEndedKeepsNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer func() { must.OK(t, listener.Close()) }()
	near, err := net.Dial("tcp", listener.Addr().String())
	must.OK(t, err)
	far, err := listener.Accept()
	must.OK(t, err)
	defer func() { must.OK(t, far.Close()) }()
	c, err := spdy.NewClientConnection(near)
	must.OK(t, err)

	must.OK(t, far.(*net.TCPConn).CloseWrite()) // what is written to it still arrives
	<-c.CloseChan()
	waitFor(t, "end of its streams", func() bool {
		var stacks strings.Builder
		must.OK(t, pprof.Lookup("goroutine").WriteTo(&stacks, 1))
		return !strings.Contains(stacks.String(), "spdystream.(*Connection).Serve")
	})
	if _, err := (runtimeConnection{c}).CreateStream(http.Header{}); !errors.Is(err, io.EOF) {
		t.Errorf("a stream of a connection that has ended: %v", err)
	}

	_ = c.Close() // it may say io.EOF, and closes it all the same
	must.OK(t, far.SetReadDeadline(time.Now().Add(3*time.Minute)))
	if _, err := io.Copy(io.Discard, far); err != nil {
		t.Errorf("the connection waits for its streams and is not closed: %v", err)
	}
}

// SPDY's orderly end is written while the session's own end closes the connection: whichever is first.
func TestNothingIsSentBehindTheEndOfASession(t *testing.T) {
	near, far := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	b := &backend{Conn: near, session: &session{ctx: ctx}, stop: func() bool { return false }}
	read := make(chan string)
	go func() {
		all, err := io.ReadAll(far)
		if err != nil {
			t.Error(err)
		}
		read <- string(all)
	}()
	_, err := io.WriteString(b, "input")
	must.OK(t, err)
	cancel()
	if _, err := io.WriteString(b, "end"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("written behind the end: %v", err)
	}
	must.OK(t, b.Close())
	if got := <-read; got != "input" {
		t.Errorf("the runtime reads %q, want %q", got, "input")
	}
}
