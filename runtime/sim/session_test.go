package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/journalet/journalet/test/must"
)

// shop is a runtime on the real clock with a running container.
func shop(t *testing.T, argv ...string) (*rig, string) {
	t.Helper()
	r := New(Options{Images: []string{"busybox"}})
	t.Cleanup(r.Close)
	conn, err := r.Dial()
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	g := &rig{r, nil, conn, cri.NewRuntimeServiceClient(conn), cri.NewImageServiceClient(conn), ctx}
	return g, g.running(t, "shop", argv...)
}

// session runs a session at a URL of the runtime, and returns its output and its exit code.
func session(t *testing.T, at string, in io.Reader, tty bool) (out, errs string, code int) {
	t.Helper()
	to, err := url.Parse(at)
	must.OK(t, err)
	x, err := remotecommand.NewSPDYExecutor(&rest.Config{}, http.MethodPost, to)
	must.OK(t, err)
	var o, e bytes.Buffer
	streams := remotecommand.StreamOptions{Stdin: in, Stdout: &o, Stderr: &e, Tty: tty}
	if tty {
		streams.Stderr = nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	err = x.StreamWithContext(ctx, streams)
	var exit exec.CodeExitError
	if errors.As(err, &exit) {
		return o.String(), e.String(), exit.Code
	}
	must.OK(t, err)
	return o.String(), e.String(), 0
}

func (g *rig) exec(t *testing.T, id string, in io.Reader, tty bool, argv ...string) (out, errs string, code int) {
	t.Helper()
	resp, err := g.cri.Exec(g.ctx, &cri.ExecRequest{
		ContainerId: id, Cmd: argv, Stdin: in != nil, Stdout: true, Stderr: !tty, Tty: tty,
	})
	must.OK(t, err)
	return session(t, resp.GetUrl(), in, tty)
}

func TestSessionRunsACommand(t *testing.T) {
	g, id := shop(t, "sleep", "1000")
	for _, c := range []struct {
		argv      []string
		in        string
		out, errs string
		code      int
	}{
		{argv: []string{"echo", "a", "b"}, out: "a b\n"},
		{argv: []string{"sh", "-c", "echo wrong >&2; sleep 0.01; exit 7"}, errs: "wrong\n", code: 7},
		{argv: []string{"hostname"}, out: "shop\n"},
		{argv: []string{"cat"}, in: "as it is\x00\n", out: "as it is\x00\n"},
		{argv: []string{"sh"}, in: "x=1\necho $x\nfalse\necho $?\nps\nexit 3\necho no\n", out: "1\n1\n",
			errs: "sh: this is not simulated\n", code: 3},
		{argv: []string{"sh"}, in: "false\nexit\n", code: 1},
		{argv: []string{"ps"}, errs: "ps: this is not simulated\n", code: 127},
		{argv: []string{"sh", "-c", "echo kept >/tmp/x"}},
		{argv: []string{"cat", "/tmp/x"}, out: "kept\n"},
	} {
		var in io.Reader
		if c.in != "" {
			in = strings.NewReader(c.in)
		}
		out, errs, code := g.exec(t, id, in, false, c.argv...)
		if out != c.out || errs != c.errs || code != c.code {
			t.Errorf("%q: %q, %q, exit code %d; want %q, %q, %d", c.argv, out, errs, code, c.out, c.errs, c.code)
		}
	}
}

func TestSessionOnATerminal(t *testing.T) {
	g, id := shop(t, "sleep", "1000")
	out, _, code := g.exec(t, id, strings.NewReader("echo hi\rexit 5\r"), true, "sh")
	if want := "/ # echo hi\r\nhi\r\n/ # exit 5\r\n"; out != want || code != 5 {
		t.Errorf("%q, exit code %d; want %q, 5", out, code, want)
	}
}

func TestSessionEndsWithItsContainer(t *testing.T) {
	for _, argv := range [][]string{{"sleep", "infinity"}, {"sleep", "1000"}, {"sh"}, {"cat"}} {
		g, id := shop(t, "sleep", "1000")
		in, _ := io.Pipe()
		resp, err := g.cri.Exec(g.ctx, &cri.ExecRequest{ContainerId: id, Cmd: argv, Stdin: true, Stdout: true})
		must.OK(t, err)
		time.AfterFunc(10*time.Millisecond, func() { _ = g.Kill(id, 0) }) // before or after it begins: it ends
		if code := silent(t, resp.GetUrl(), in); code != exitCodeKILL && code != -1 {
			t.Errorf("%q ended with %d, want %d", argv, code, exitCodeKILL)
		}
	}
}

// silent is session for a request that may be refused: its exit code is -1 then.
func silent(t *testing.T, at string, in io.Reader) int {
	t.Helper()
	to, err := url.Parse(at)
	must.OK(t, err)
	x, err := remotecommand.NewSPDYExecutor(&rest.Config{}, http.MethodPost, to)
	must.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	err = x.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: io.Discard})
	var exit exec.CodeExitError
	switch {
	case errors.As(err, &exit):
		return exit.Code
	case ctx.Err() != nil:
		t.Error("the session does not end")
	case err == nil:
		return 0
	}
	return -1
}

func TestSessionEndsWithTheRuntime(t *testing.T) {
	g, id := shop(t, "sleep", "1000")
	for _, end := range []func(){g.Crash, g.Close} {
		g.Restart()
		run := &cri.ExecRequest{ContainerId: id, Cmd: []string{"cat"}, Stdin: true, Stdout: true}
		resp, err := g.cri.Exec(g.ctx, run, grpc.WaitForReady(true))
		for status.Code(err) == codes.Unavailable { // the client does not know yet that the runtime before is gone
			resp, err = g.cri.Exec(g.ctx, run, grpc.WaitForReady(true))
		}
		must.OK(t, err)
		in, w := io.Pipe()
		ended := make(chan int)
		go func() { ended <- silent(t, resp.GetUrl(), in) }()
		_, err = io.WriteString(w, "read") // taken when the session is up
		must.OK(t, err)
		end()
		if code := <-ended; code > 0 { // client-go takes a lost connection for a success
			t.Errorf("it ended with %d", code)
		}
	}
}

func TestAttachShowsWhatAProcessPrints(t *testing.T) {
	g, id := shop(t, "sh", "-c", "sleep 0.2; echo one; echo two >&2; sleep 0.1; echo three")
	resp, err := g.cri.Attach(g.ctx, &cri.AttachRequest{ContainerId: id, Stdin: true, Stdout: true, Stderr: true})
	must.OK(t, err)
	in, w := io.Pipe()
	go func() { _, _ = io.WriteString(w, "dropped") }()
	out, errs, _ := session(t, resp.GetUrl(), in, false)
	if out != "one\nthree\n" || errs != "two\n" {
		t.Errorf("%q, %q", out, errs)
	}
	_, err = g.cri.Attach(g.ctx, &cri.AttachRequest{ContainerId: id, Stdout: true})
	wantCode(t, err, codes.Unknown)
}

// forward sends a text to a port of a sandbox, and returns the response and the error.
func forward(t *testing.T, at string, port int, text string) (string, string) {
	t.Helper()
	to, err := url.Parse(at)
	must.OK(t, err)
	transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{})
	must.OK(t, err)
	conn, _, err := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, to).
		Dial(portforward.PortForwardProtocolV1Name)
	must.OK(t, err)
	defer conn.Close()
	stream := func(kind string) (httpstream.Stream, error) {
		h := http.Header{}
		h.Set(corev1.StreamType, kind)
		h.Set(corev1.PortHeader, strconv.Itoa(port))
		h.Set(corev1.PortForwardRequestIDHeader, "0")
		return conn.CreateStream(h)
	}
	failure, err := stream(corev1.StreamTypeError)
	must.OK(t, err)
	var got []byte
	if data, err := stream(corev1.StreamTypeData); err == nil { // a refused one is reset at any time
		_, _ = io.WriteString(data, text)
		_ = data.Close()
		got, _ = io.ReadAll(data)
	}
	refused, err := io.ReadAll(failure)
	must.OK(t, err)
	return string(got), string(refused)
}

func TestPortsAnswer(t *testing.T) {
	g, id := shop(t, "sh", "-c", "httpd -p 8080 -h /www")
	sandbox := g.containersOf(g.findContainer(id).sandboxID)[0].sandboxID
	at := func() string {
		resp, err := g.cri.PortForward(g.ctx, &cri.PortForwardRequest{PodSandboxId: sandbox})
		must.OK(t, err)
		return resp.GetUrl()
	}
	if got, _ := forward(t, at(), 8080, "GET / HTTP/1.1\r\n\r\n"); !strings.HasSuffix(got,
		"\r\n\r\nport 8080 of pod default/shop, simulated\n") {
		t.Errorf("HTTP is answered with %q", got)
	}
	if got, _ := forward(t, at(), 8080, "hi"); got != "hi" {
		t.Errorf("other bytes are answered with %q", got)
	}
	if got, refused := forward(t, at(), 80, "hi"); got != "" || !strings.Contains(refused, "refused") {
		t.Errorf("a port that nothing listens on: %q, %q", got, refused)
	}
	url := at()
	forward(t, url, 80, "")
	if resp, err := http.Post(url, "", nil); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("a URL works twice: %v", err)
	} else {
		resp.Body.Close()
	}
}

func TestNoSessionWithWhatDoesNotRun(t *testing.T) {
	g, id := shop(t, "true")
	_, err := g.cri.Exec(g.ctx, &cri.ExecRequest{ContainerId: id, Cmd: []string{"true"}, Stdout: true})
	wantCode(t, err, codes.Unknown)
	_, err = g.cri.Exec(g.ctx, &cri.ExecRequest{ContainerId: "none", Cmd: []string{"true"}, Stdout: true})
	wantCode(t, err, codes.NotFound)
	_, err = g.cri.PortForward(g.ctx, &cri.PortForwardRequest{PodSandboxId: "none"})
	wantCode(t, err, codes.NotFound)
	if g.streams != nil {
		t.Error("a port was opened for nothing")
	}
}

func TestPullTakesItsTime(t *testing.T) {
	g := newRig(t, Options{AnyImage: true, PullTime: time.Second})
	pulled := make(chan error)
	go func() {
		_, err := g.img.PullImage(g.ctx, &cri.PullImageRequest{Image: &cri.ImageSpec{Image: "nginx"}})
		pulled <- err
	}()
	must.OK(t, g.clock.WaitPending(g.ctx, 1))
	g.clock.Advance(time.Second)
	must.OK(t, <-pulled)
}
