package kubelet

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/proxy"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/reap"
)

const (
	// dialTimeout bounds the connection to the runtime, answerTimeout its first answer: it upgrades the connection before
	// it starts anything.
	dialTimeout   = 10 * time.Second
	answerTimeout = 30 * time.Second
	// callTimeout bounds a call that returns a URL.
	callTimeout = 30 * time.Second
)

func (s *Server) streamRoutes() {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, to := range []string{"/{namespace}/{pod}/{container}", "/{namespace}/{pod}/{uid}/{container}"} {
			s.handle(method, "/exec"+to, http.HandlerFunc(s.exec))
			s.handle(method, "/attach"+to, http.HandlerFunc(s.attach))
		}
		for _, to := range []string{"/{namespace}/{pod}", "/{namespace}/{pod}/{uid}"} {
			s.handle(method, "/portForward"+to, http.HandlerFunc(s.portForward))
		}
	}
}

// exec runs a command in a container.
func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	opts, err := remotecommand.NewOptions(r)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	p := s.pod(w, r)
	if p == nil {
		return
	}
	name, cmd := r.PathValue("container"), r.URL.Query()["command"]
	if !s.has(p, r.PathValue("uid"), name) {
		_ = streaming.WriteError(fmt.Errorf("container not found (%q)", name), w) // fails if the client has left
		return
	}
	x := s.begin(w, r, p, what{
		kind: journaletv1.SessionKind_SESSION_KIND_EXEC, container: name, command: cmd, tty: opts.TTY,
	})
	if x == nil {
		return
	}
	defer x.end()
	ctx, cancel := context.WithTimeout(x.ctx, callTimeout)
	defer cancel()
	id, err := s.containerID(ctx, p, r.PathValue("uid"), name)
	if err == nil && id == "" {
		err = fmt.Errorf("container not found (%q)", name)
	}
	var resp *runtimeapi.ExecResponse
	if err == nil {
		resp, err = s.Runtime.Exec(ctx, &runtimeapi.ExecRequest{
			ContainerId: id, Cmd: cmd, Tty: opts.TTY, Stdin: opts.Stdin, Stdout: opts.Stdout, Stderr: opts.Stderr,
		})
	}
	if err == nil {
		// Nothing is refused: it is no probe's.
		x.processes, _ = s.Reaper.Begin(x.ctx, id, cmd, reap.Kind{Always: true})
	}
	x.stream(w, r, resp.GetUrl(), err, opts)
}

// attach attaches to the main process of a container, with a terminal if that process has one.
func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	opts, err := remotecommand.NewOptions(r)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	p := s.pod(w, r)
	if p == nil {
		return
	}
	name := r.PathValue("container")
	spec := containers.Find(p, name)
	notFound := fmt.Errorf("container %s not found in pod %s", name, fullName(p))
	if !s.has(p, r.PathValue("uid"), name) {
		_ = streaming.WriteError(notFound, w) // fails if the client has left
		return
	}
	x := s.begin(w, r, p, what{kind: journaletv1.SessionKind_SESSION_KIND_ATTACH, container: name, tty: opts.TTY})
	if x == nil {
		return
	}
	defer x.end()
	ctx, cancel := context.WithTimeout(x.ctx, callTimeout)
	defer cancel()
	id, err := s.containerID(ctx, p, r.PathValue("uid"), name)
	if err == nil && id == "" {
		err = notFound
	}
	var resp *runtimeapi.AttachResponse
	if err == nil {
		resp, err = s.Runtime.Attach(ctx, attachRequest(id, spec, opts))
	}
	x.stream(w, r, resp.GetUrl(), err, opts)
}

func attachRequest(id string, spec *corev1.Container, opts *remotecommand.Options) *runtimeapi.AttachRequest {
	return &runtimeapi.AttachRequest{
		ContainerId: id, Stdin: opts.Stdin, Stdout: opts.Stdout, Stderr: opts.Stderr && !spec.TTY, Tty: spec.TTY,
	}
}

// portForward connects to ports of a pod.
func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	tunnel, opts := wsstream.IsWebSocketRequestWithTunnelingProtocol(r), &portforward.V4Options{}
	if !tunnel {
		var err error
		if opts, err = portforward.NewV4Options(r); err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	p := s.pod(w, r)
	if p == nil {
		return
	}
	if !s.names(p, r.PathValue("uid")) {
		fail(w, http.StatusNotFound, "pod not found")
		return
	}
	x := s.begin(w, r, p, what{kind: journaletv1.SessionKind_SESSION_KIND_PORT_FORWARD})
	if x == nil {
		return
	}
	defer x.end()
	ctx, cancel := context.WithTimeout(x.ctx, callTimeout)
	defer cancel()
	id, err := s.sandboxID(ctx, p)
	if err == nil && id == "" {
		err = fmt.Errorf("pod not found (%q)", fullName(p))
	}
	var resp *runtimeapi.PortForwardResponse
	if err == nil {
		resp, err = s.Runtime.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: id, Port: opts.Ports})
	}
	location, ok := x.location(w, resp.GetUrl(), err)
	switch {
	case !ok:
	case tunnel:
		x.tunnel(&writer{w, x}, r, location)
	default:
		x.proxy(&writer{w, x}, r, location)
	}
}

// stream serves exec and attach at the URL that the runtime has returned.
func (x *session) stream(w http.ResponseWriter, r *http.Request, url string, err error, opts *remotecommand.Options) {
	location, ok := x.location(w, url, err)
	switch {
	case !ok:
	case wsstream.IsWebSocketRequestWithStreamCloseProtocol(r):
		x.translate(&writer{w, x}, r, location, opts)
	default:
		x.proxy(&writer{w, x}, r, location)
	}
}

// location parses the runtime's URL. Otherwise it has answered.
func (x *session) location(w http.ResponseWriter, raw string, err error) (*url.URL, bool) {
	var location *url.URL
	if err == nil {
		location, err = url.Parse(raw)
	}
	if err != nil {
		x.fail(failedRefused)
		_ = streaming.WriteError(err, w) // the client has left
		return nil, false
	}
	return location, true
}

// proxy passes the client's upgrade on to the runtime, and bytes both ways.
func (x *session) proxy(w http.ResponseWriter, r *http.Request, location *url.URL) {
	x.upgrader(location).ServeHTTP(w, r.WithContext(x.ctx))
}

func (x *session) upgrader(location *url.URL) *proxy.UpgradeAwareHandler {
	return proxy.NewUpgradeAwareHandler(location, x.transport(), false, true, responder{x})
}

// transport connects to the runtime. Its connections end with the session.
func (x *session) transport() *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if err := c.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
			c.Close()
			return nil, err
		}
		b := &backend{Conn: c, session: x}
		b.stop = context.AfterFunc(x.ctx, func() { _ = b.disconnect() }) // fails only if it is closed
		return b, nil
	}}
}

// backend is a session's connection to the runtime.
type backend struct {
	net.Conn
	session  *session
	stop     func() bool
	answered bool
}

// Read reads what the runtime sends; only its first answer has a deadline.
func (b *backend) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if n > 0 && !b.answered {
		b.answered = true
		_ = b.SetReadDeadline(time.Time{}) // fails on a closed connection, as the next read does
	}
	return n, err
}

// Write sends to the runtime until the session ends. Behind that nothing is sent: after SPDY's orderly end containerd
// reads no further, does not see that its client has left, and the command runs on.
func (b *backend) Write(p []byte) (int, error) {
	if b.session.ctx.Err() != nil {
		return 0, net.ErrClosed
	}
	return b.Conn.Write(p)
}

// Close closes the connection. After a client that has left, nothing that is under way is delivered: a runtime whose
// command does not read its input would not see the end behind it.
func (b *backend) Close() error {
	b.stop()
	return b.disconnect()
}

func (b *backend) disconnect() error {
	if c, ok := b.Conn.(*net.TCPConn); ok && b.session.aborted.Load() {
		_ = c.SetLinger(0) // fails on a closed connection, as Close does
	}
	return b.Conn.Close()
}

// responder answers what the upgrade failed with.
type responder struct{ x *session }

// Error writes an error.
func (e responder) Error(w http.ResponseWriter, _ *http.Request, err error) {
	e.x.fail(failedStream)
	http.Error(w, err.Error(), http.StatusInternalServerError)
}
