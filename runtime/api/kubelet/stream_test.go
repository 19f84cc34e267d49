package kubelet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	httpspdy "k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/local"
	"github.com/journalet/journalet/test/must"
)

// protocols are the two that clients speak.
var protocols = []string{"SPDY", "WebSocket"}

// dial connects to a door.
type dial func(ctx context.Context, network, addr string) (net.Conn, error)

// executor returns a client's executor for a path: SPDY through the socket, WebSocket through the port.
func (n *node) executor(protocol, path string, query url.Values) remotecommand.Executor {
	n.t.Helper()
	return n.executorBy(protocol, path, query, n.client.DialContext)
}

func (n *node) executorBy(protocol, path string, query url.Values, d dial) remotecommand.Executor {
	n.t.Helper()
	if protocol == "WebSocket" {
		e, err := remotecommand.NewWebSocketExecutor(&rest.Config{Host: n.tcp.URL}, http.MethodGet,
			n.tcp.URL+path+"?"+query.Encode())
		must.OK(n.t, err)
		return e
	}
	u, err := url.Parse(local.BaseURL + path + "?" + query.Encode())
	must.OK(n.t, err)
	rt := n.spdy(d)
	e, err := remotecommand.NewSPDYExecutorForTransports(rt, spdy.NewUpgraderForStreaming(rt), http.MethodPost, u)
	must.OK(n.t, err)
	return e
}

// through returns an executor whose client vanishes on demand.
func (n *node) through(r *relayed, protocol string, query url.Values) remotecommand.Executor {
	n.t.Helper()
	const path = "/exec/default/web/main"
	if protocol == "SPDY" {
		return n.executorBy(protocol, path, query, r.dial)
	}
	e, err := remotecommand.NewWebSocketExecutor(&rest.Config{Host: r.url}, http.MethodGet, r.url+path+"?"+query.Encode())
	must.OK(n.t, err)
	return e
}

func (n *node) spdy(d dial) *httpspdy.SpdyRoundTripper {
	n.t.Helper()
	rt, err := httpspdy.NewRoundTripperWithConfig(httpspdy.RoundTripperConfig{
		UpgradeTransport: &http.Transport{DialContext: d}, PingPeriod: time.Second,
	})
	must.OK(n.t, err)
	return rt
}

func streamsOf(in io.Reader, cmd ...string) (url.Values, remotecommand.StreamOptions, *bytes.Buffer) {
	out := &bytes.Buffer{}
	q := url.Values{"command": cmd, "output": {"1"}, "error": {"1"}}
	o := remotecommand.StreamOptions{Stdout: out, Stderr: io.Discard}
	if in != nil {
		q.Set("input", "1")
		o.Stdin = in
	}
	return q, o, out
}

func TestExecRunsInTheContainerThatThePathNames(t *testing.T) {
	n := newNode(t, nil)
	for _, protocol := range protocols {
		for _, path := range []string{"/exec/default/web/main", "/exec/default/web/" + podUID + "/main"} {
			q, o, out := streamsOf(strings.NewReader("typed"), "cat")
			must.OK(t, n.executor(protocol, path, q).StreamWithContext(t.Context(), o))
			if out.String() != "typed" {
				t.Errorf("%s %s: got %q", protocol, path, out)
			}
		}
		// The container of another agent has the same labels and is newer.
		q, o, out := streamsOf(nil, "id")
		must.OK(t, n.executor(protocol, "/exec/default/web/main", q).StreamWithContext(t.Context(), o))
		if out.String() != "agent/main tty=false" {
			t.Errorf("%s: ran in %q", protocol, out)
		}
	}
}

func TestExitCodeArrivesAndIsRecorded(t *testing.T) {
	n := newNode(t, nil)
	for i, protocol := range protocols {
		q, o, _ := streamsOf(nil, "exit", "7")
		err := n.executor(protocol, "/exec/default/web/main", q).StreamWithContext(t.Context(), o)
		var code exec.CodeExitError
		if !errors.As(err, &code) || code.Code != 7 {
			t.Errorf("%s: got %v, want exit code 7", protocol, err)
		}
		start, end := n.record.last(t, i)
		if start.GetCommand() != "exit" || start.GetArguments() != 1 || start.GetContainer() != "main" ||
			start.GetKind() != journaletv1.SessionKind_SESSION_KIND_EXEC || start.GetUid() != podUID ||
			protocol == "SPDY" && !strings.Contains(start.GetClient(), "process") {
			t.Errorf("%s: recorded %v", protocol, start)
		}
		if end.GetExitCode() != 7 {
			t.Errorf("%s: recorded %v, want exit code 7", protocol, end)
		}
	}
	q, o, out := streamsOf(strings.NewReader(`{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[`+
		`{"reason":"ExitCode","message":"9"}]}}`+strings.Repeat("x", 1<<20)), "cat")
	for i, protocol := range protocols {
		must.OK(t, n.executor(protocol, "/exec/default/web/main", q).StreamWithContext(t.Context(), o))
		if _, end := n.record.last(t, len(protocols)+i); end.ExitCode == nil || end.GetExitCode() != 0 {
			t.Errorf("%s: recorded %v, want exit code 0: what a command prints is no status", protocol, end)
		}
	}
	if out.Len() < 1<<20 {
		t.Errorf("%d bytes", out.Len())
	}
}

// Frames are found whatever pieces they arrive in. Bytes that are not a frame only end the search.
func TestFramesAreFoundInPieces(t *testing.T) {
	wire := []byte{0x80, 3, 0, 6, 0, 0, 0, 4, 1, 2, 3, 4, 0, 0, 0, 5, 1, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 5, 1, 0, 0, 0}
	for size := 1; size <= len(wire); size++ {
		var got string
		f := frames{
			control: func(frame []byte) bool { got += fmt.Sprintf("%d", frame); return true },
			data:    func(stream uint32, p []byte) { got += fmt.Sprintf("%d%s", stream, p) },
		}
		for p := wire; len(p) > 0; p = p[min(size, len(p)):] {
			if !f.take(p[:min(size, len(p))]) {
				t.Fatal("it is no SPDY")
			}
		}
		if got = strings.ReplaceAll(got, "5", ""); !strings.HasSuffix(got, "[128 3 0 6 0 0 0 4 1 2 3 4] abc") &&
			strings.ReplaceAll(got, " ", "") != "[12830600041234]abc" {
			t.Errorf("pieces of %d: %q", size, got)
		}
	}
	f := frames{control: func([]byte) bool { return true }}
	if f.take([]byte{0x80, 3, 0, 6, 0, 0xff, 0xff, 0xff}) {
		t.Error("a control frame of 64 KiB is read")
	}
}

type oneSize chan remotecommand.TerminalSize

func (s oneSize) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

func TestTerminalSizeReachesTheCommand(t *testing.T) {
	n := newNode(t, nil)
	for _, protocol := range protocols {
		sizes := make(oneSize, 1)
		sizes <- remotecommand.TerminalSize{Width: 132, Height: 43}
		close(sizes)
		out := &bytes.Buffer{}
		q := url.Values{"command": {"size"}, "output": {"1"}, "input": {"1"}, "tty": {"1"}}
		in, typing := io.Pipe()
		must.OK(t, n.executor(protocol, "/exec/default/web/main", q).StreamWithContext(t.Context(),
			remotecommand.StreamOptions{Stdin: in, Stdout: out, Tty: true, TerminalSizeQueue: sizes}))
		typing.Close()
		if out.String() != "132x43" {
			t.Errorf("%s: the command sees %q", protocol, out)
		}
	}
}

func TestAttachHasATerminalIfItsContainerDoes(t *testing.T) {
	n := newNode(t, nil)
	for name, want := range map[string]string{"main": "agent/main tty=false", "shell": "agent/shell tty=true"} {
		q, o, out := streamsOf(nil)
		must.OK(t, n.executor("SPDY", "/attach/default/web/"+name, q).StreamWithContext(t.Context(), o))
		if out.String() != want {
			t.Errorf("attached to %q, want %q", out, want)
		}
	}
}

// forward forwards one port and returns its address.
func (n *node) forward(dialer func() portforwardDialer, port string) (string, func()) {
	n.t.Helper()
	stop, ready := make(chan struct{}), make(chan struct{})
	done := make(chan struct{})
	f, err := portforward.NewForStreaming(dialer(), []string{"0:" + port}, stop, ready, io.Discard, io.Discard)
	must.OK(n.t, err)
	go func() { defer close(done); _ = f.ForwardPorts() }()
	select {
	case <-ready:
	case <-done:
		n.t.Fatal("the port is not forwarded")
	}
	ports, err := f.GetPorts()
	must.OK(n.t, err)
	return net.JoinHostPort("127.0.0.1", itoa(ports[0].Local)), func() { close(stop); <-done }
}

func TestPortsAreForwarded(t *testing.T) {
	n := newNode(t, nil)
	for _, protocol := range protocols {
		addr, stop := n.forward(func() portforwardDialer { return n.portDialer(protocol) }, "80")
		c, err := net.Dial("tcp", addr)
		must.OK(t, err)
		_, err = c.Write([]byte("ping"))
		must.OK(t, err)
		must.OK(t, c.(*net.TCPConn).CloseWrite())
		got, err := io.ReadAll(c)
		must.OK(t, err)
		if string(got) != "ping" {
			t.Errorf("%s: got %q through the port", protocol, got)
		}
		c.Close()
		stop()
	}
	n.rt.idle(t)
}

func (n *node) portDialer(protocol string) portforwardDialer {
	n.t.Helper()
	if protocol == "WebSocket" {
		u, err := url.Parse(n.tcp.URL + "/portForward/default/web")
		must.OK(n.t, err)
		d, err := portforward.NewSPDYOverWebsocketDialerForStreaming(u, &rest.Config{Host: n.tcp.URL})
		must.OK(n.t, err)
		return d
	}
	u, err := url.Parse(local.BaseURL + "/portForward/default/web")
	must.OK(n.t, err)
	rt := n.spdy(n.client.DialContext)
	return spdy.NewDialerForStreaming(spdy.NewUpgraderForStreaming(rt), &http.Client{Transport: rt}, http.MethodPost, u)
}

func TestRefusalsAreTheKubelets(t *testing.T) {
	n := newNode(t, nil)
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/exec/default/web/main?command=id":                       {400, "you must specify at least 1 of stdin"},
		"/exec/default/none/main?command=id&output=1":             {404, "pod does not exist"},
		"/exec/other/web/main?command=id&output=1":                {404, "pod does not exist"},
		"/exec/default/web/none?command=id&output=1":              {500, `container not found ("none")`},
		"/exec/default/web/uid-2/main?command=id&output=1":        {500, `container not found ("main")`},
		"/attach/default/web/none?output=1":                       {500, "container none not found in pod web_default"},
		"/portForward/default/none":                               {404, "pod does not exist"},
		"/portForward/default/web/uid-2":                          {404, "pod not found"},
		"/exec/default/web/main?command=id&output=1&input=":       {500, "Upgrade request required"},
		"/exec/default%2f..%2fx/web/main?command=id&output=1":     {404, "pod does not exist"},
		"/exec/default/web/main/more/and/more?command=id&output=": {404, "404 page not found"},
	} {
		code, text := n.do(http.MethodPost, path)
		if code != want.code || !strings.Contains(text, want.text) {
			t.Errorf("%s: %d %q, want %d %q", path, code, text, want.code, want.text)
		}
	}
}

func TestHundredSessionsAtOnce(t *testing.T) {
	n := newNode(t, nil)
	var all sync.WaitGroup
	errs := make(chan error, 200)
	for i := range 100 {
		all.Go(func() {
			q, o, out := streamsOf(strings.NewReader("typed"), "cat")
			if err := n.executor(protocols[i%2], "/exec/default/web/main", q).StreamWithContext(t.Context(), o); err != nil {
				errs <- err
			} else if out.String() != "typed" {
				errs <- errors.New("got " + out.String())
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

func TestSessionsBeyondTheLimitsAreRefused(t *testing.T) {
	n := newNode(t, func(o *Options) { o.Limits = Limits{PerPod: 1, Rate: 1e-9, Burst: 2} })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	q, o, _ := streamsOf(nil, "hang")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = n.executor("SPDY", "/exec/default/web/main", q).StreamWithContext(ctx, o) // ends by cancel
	}()
	waitFor(t, "a session", func() bool { return n.rt.connections() == 1 })
	path := "/exec/default/web/main?command=id&output=1"
	if code, text := n.do(http.MethodPost, path); code != 429 || !strings.Contains(text, "at once") {
		t.Errorf("a second session: %d %s", code, text)
	}
	cancel()
	<-done
	n.record.last(t, 0)
	n.do(http.MethodPost, path)
	if code, text := n.do(http.MethodPost, path); code != 429 || !strings.Contains(text, "a second") {
		t.Errorf("a third session within the second: %d %s", code, text)
	}
}

// TestVanishedClientLeavesNothing covers clients that leave without a word: while the command is silent, while it reads
// nothing of what they send, and while they read nothing of what it writes.
func TestVanishedClientLeavesNothing(t *testing.T) {
	n := newNode(t, func(o *Options) { o.Limits.Hangup = time.Millisecond })
	for _, protocol := range protocols {
		for _, c := range []struct {
			name, cmd string
			in        io.Reader
		}{{"silent", "hang", nil}, {"unread input", "hang", endless{}}, {"unread output", "flood", nil}} {
			t.Run(protocol+"/"+c.name, func(t *testing.T) {
				q, o, _ := streamsOf(c.in, c.cmd)
				stalled, begun := make(stall), n.rt.begun.Load()
				o.Stdout = stalled
				between := relay(t, n, protocol)
				e := n.through(between, protocol, q)
				done := make(chan struct{})
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					defer close(done)
					_ = e.StreamWithContext(ctx, o) // its connection vanishes
				}()
				waitFor(t, "a command", func() bool { return n.rt.begun.Load() > begun })
				between.vanish()
				close(stalled)
				n.rt.idle(t)
				cancel() // of the client's own end
				<-done
			})
		}
	}
}

func TestIdleSessionEnds(t *testing.T) {
	n := newNode(t, func(o *Options) { o.Limits.Idle = 50 * time.Millisecond })
	for i, protocol := range protocols {
		q, o, _ := streamsOf(nil, "hang")
		_ = n.executor(protocol, "/exec/default/web/main", q).StreamWithContext(t.Context(), o) // reports nothing
		if _, end := n.record.last(t, i); end.GetMessage() != failedIdle {
			t.Errorf("%s: recorded %v", protocol, end)
		}
	}
	n.rt.idle(t)
}

// A runtime that accepts a connection and says nothing holds no session of a client that has left.
func TestSilentRuntimeHoldsNoSession(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	n := newNode(t, func(o *Options) { o.Runtime = silent{o.Runtime.(*fakeRuntime), "http://" + l.Addr().String()} })
	for _, protocol := range protocols {
		between := relay(t, n, protocol)
		q, o, _ := streamsOf(nil, "hang")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = n.through(between, protocol, q).StreamWithContext(context.Background(), o) // its connection vanishes
		}()
		c, err := l.Accept()
		must.OK(t, err)
		between.vanish()
		must.OK(t, c.SetReadDeadline(time.Now().Add(3*time.Minute)))
		if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: the connection to the runtime stays: %v", protocol, err)
		}
		c.Close()
		<-done
	}
}

func TestProgramNameHoldsNoArguments(t *testing.T) {
	for arg, want := range map[string]string{
		"/bin/sh": "sh", "curl -u me:secret http://x": "curl", "": ".", "TOKEN=secret cmd": "?",
	} {
		if got := programName(arg); got != want {
			t.Errorf("%q: recorded %q, want %q", arg, got, want)
		}
	}
}
