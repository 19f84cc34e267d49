package stream

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/test/fakekubelet"
	"github.com/journalet/journalet/test/must"
)

func web() corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Command: []string{"cat"}}}},
	}
}

// sessionOf runs a session in the container of a fake kubelet, or of whatever listens on a socket.
func sessionOf(t *testing.T, socket, verb string, s Streams, command ...string) error {
	t.Helper()
	c := New(socket)
	t.Cleanup(c.Close)
	p := web()
	path, err := PodPath(verb, &p, "app")
	must.OK(t, err)
	return c.Session(t.Context(), path, command, s)
}

func TestCommandHasStreamsAndExitCode(t *testing.T) {
	k := fakekubelet.Serve(t, web())
	var out, errs bytes.Buffer
	err := sessionOf(t, k.Socket, "exec", Streams{In: strings.NewReader("hello"), Out: &out, Err: &errs},
		"sh", "-c", "cat; echo wrong >&2; exit 42")
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 42 || out.String() != "hello" || errs.String() != "wrong\n" {
		t.Errorf("%v, out %q, err %q", err, &out, &errs)
	}
	if err := sessionOf(t, k.Socket, "exec", Streams{Out: io.Discard}, "true"); err != nil {
		t.Error(err)
	}
	err = sessionOf(t, k.Socket, "exec", Streams{Out: io.Discard}, "/no/such/program")
	if err == nil || errors.As(err, &exit) || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("a program that does not exist: %v", err)
	}
}

func TestInputIsNotChanged(t *testing.T) {
	k := fakekubelet.Serve(t, web())
	data := make([]byte, 10<<20)
	_, _ = rand.Read(data)
	for _, verb := range []string{"exec", "attach"} {
		var out bytes.Buffer
		err := sessionOf(t, k.Socket, verb, Streams{In: bytes.NewReader(data), Out: &out}, "cat")
		if err != nil || !bytes.Equal(out.Bytes(), data) {
			t.Errorf("%s: %v, %d bytes of %d", verb, err, out.Len(), len(data))
		}
	}
}

func TestCommandsArePassedAsTheyAre(t *testing.T) {
	k := fakekubelet.Serve(t, web())
	args := []string{"", " ", "a b", "--", "-x", "&command=x", "%2F", "日本", "'\"$(id)", "a\nb"}
	var out bytes.Buffer
	must.OK(t, sessionOf(t, k.Socket, "exec", Streams{Out: &out}, append([]string{"printf", "<%s>"}, args...)...))
	if want := "<" + strings.Join(args, "><") + ">"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}

func TestNamesCannotLeadToAnotherPod(t *testing.T) {
	for _, bad := range []string{"", "..", ".", "a/b", "../x", "//", "/", "a/"} {
		p := web()
		p.Name = bad
		if path, err := PodPath("exec", &p, "app"); err == nil {
			t.Errorf("pod %q has path %s", bad, path)
		}
		p = web()
		if path, err := PodPath("exec", &p, bad); err == nil && bad != "" {
			t.Errorf("container %q has path %s", bad, path)
		}
	}
	p := web()
	p.Name = "a%2Fb?x#y"
	path, err := PodPath("exec", &p, "ä")
	must.OK(t, err)
	if u := target(path, nil); u.EscapedPath() != "/exec/default/a%252Fb%3Fx%23y/u1/%C3%A4" || u.RawQuery != "" {
		t.Errorf("path %s", u.EscapedPath())
	}
}

// listen serves each connection with f, and returns the socket.
func listen(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	must.OK(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c)
			}()
		}
	}()
	return socket
}

// request reads the header of a request.
func request(c net.Conn) {
	var head []byte
	b := make([]byte, 1)
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		if _, err := c.Read(b); err != nil {
			return
		}
		head = append(head, b...)
	}
}

func TestHostileAgentsEndASessionWithAnError(t *testing.T) {
	upgraded := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
	endless := func(c net.Conn, line string) {
		for {
			if _, err := io.WriteString(c, line); err != nil {
				return
			}
		}
	}
	for _, x := range []struct {
		name, want string
		serve      func(net.Conn)
	}{
		{"says nothing", "timeout", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }},
		{"vanishes", "connection to the agent was lost", request},
		{"sends garbage", "malformed", func(c net.Conn) {
			request(c)
			fmt.Fprint(c, strings.Repeat("\x1b]0;x\a", 1000), "\r\n\r\n")
		}},
		{"sends endless headers", errUpgradeTooLong.Error(), func(c net.Conn) {
			request(c)
			fmt.Fprint(c, upgraded)
			endless(c, "A: b\r\n")
		}},
		{"sends an endless header", errUpgradeTooLong.Error(), func(c net.Conn) {
			request(c)
			fmt.Fprint(c, upgraded, "A: ")
			endless(c, strings.Repeat("b", 1024))
		}},
		{"sends headers slowly", "timeout", func(c net.Conn) {
			request(c)
			fmt.Fprint(c, upgraded)
			_, _ = io.Copy(io.Discard, c)
		}},
		{"has the wrong key", "responded with 101", func(c net.Conn) {
			request(c)
			fmt.Fprint(c, upgraded, "Sec-WebSocket-Accept: x\r\n\r\n")
		}},
		{"refuses without end", strings.Repeat("no ", 300), func(c net.Conn) {
			request(c)
			fmt.Fprint(c, "HTTP/1.1 500 x\r\nContent-Length: 99999999999\r\n\r\n")
			endless(c, "no ")
		}},
		{"redirects", "responded with 302", func(c net.Conn) {
			request(c)
			fmt.Fprint(c, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n")
		}},
		{"refuses by a status", "no such thing", func(c net.Conn) {
			request(c)
			body := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no such thing","code":404}`
			fmt.Fprintf(c, "HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := New(listen(t, x.serve))
			c.upgradeTimeout = time.Minute
			if x.want == "timeout" {
				c.upgradeTimeout = time.Second
			}
			p := web()
			path, err := PodPath("exec", &p, "app")
			must.OK(t, err)
			err = c.Session(t.Context(), path, []string{"true"}, Streams{Out: io.Discard})
			if err == nil || !strings.Contains(err.Error(), x.want) || len(err.Error()) > 2*maxErrorBytes {
				t.Errorf("session: %v, want %q", err, x.want)
			}
			if _, err := c.Ports(t.Context(), path); err == nil || !strings.Contains(err.Error(), x.want) &&
				!strings.Contains(err.Error(), "EOF") {
				t.Errorf("ports: %v, want %q", err, x.want)
			}
		})
	}
}

func TestSessionEndsWithItsContext(t *testing.T) {
	cause := errors.New("enough")
	k := fakekubelet.Serve(t, web())
	silent := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	for name, socket := range map[string]string{"running": k.Socket, "not begun": silent} {
		ctx, cancel := context.WithCancelCause(t.Context())
		r, w := io.Pipe()
		c := New(socket)
		p := web()
		path, err := PodPath("exec", &p, "app")
		must.OK(t, err)
		done := make(chan error, 1)
		go func() {
			done <- c.Session(ctx, path, []string{"sh", "-c", "echo ready; sleep 1000"}, Streams{Out: w})
		}()
		if socket == k.Socket {
			_, err = io.ReadFull(r, make([]byte, 5))
			must.OK(t, err)
		}
		cancel(cause)
		if err := <-done; !errors.Is(err, cause) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		r.Close()
	}
}
