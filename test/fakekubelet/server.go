package fakekubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/journalet/journalet/test/must"
)

// idle bounds a session without traffic.
const idle = time.Minute

// Server is a kubelet without containers.
type Server struct {
	Socket string
	pods   []corev1.Pod
	http   *http.Server

	mu       sync.Mutex
	requests []string
	conns    []net.Conn
}

// listener remembers its connections: http.Server forgets the connections of sessions.
type listener struct {
	net.Listener
	s *Server
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.s.mu.Lock()
		l.s.conns = append(l.s.conns, c)
		l.s.mu.Unlock()
	}
	return c, err
}

// Vanish ends everything at once, as the death of the process would.
func (s *Server) Vanish() {
	_ = s.http.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
}

// Serve serves pods until the test ends. Attach runs the command of the container in the pod's specification.
func Serve(t testing.TB, pods ...corev1.Pod) *Server {
	t.Helper()
	s := &Server{Socket: filepath.Join(t.TempDir(), "s"), pods: pods}
	l, err := net.Listen("unix", s.Socket)
	must.OK(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/pods", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(corev1.PodList{Items: s.pods})
	})
	mux.HandleFunc("/exec/{namespace}/{pod}/{uid}/{container}", s.exec)
	mux.HandleFunc("/attach/{namespace}/{pod}/{uid}/{container}", s.attach)
	mux.HandleFunc("/portForward/{namespace}/{pod}/{uid}", s.portForward)
	s.http = &http.Server{ReadHeaderTimeout: idle, Handler: http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		mux.ServeHTTP(w, r)
	})}
	go func() { _ = s.http.Serve(listener{l, s}) }()
	t.Cleanup(s.Vanish)
	return s
}

// Requests returns the requests so far, as "METHOD /path".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	opts, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, process{}, r.PathValue("pod"), r.PathValue("uid"), r.PathValue("container"),
		r.URL.Query()["command"], opts, idle, idle, remotecommand.SupportedStreamingProtocols)
}

func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	opts, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for i := range s.pods {
		for j := range s.pods[i].Spec.Containers {
			c := &s.pods[i].Spec.Containers[j]
			if s.pods[i].Name == r.PathValue("pod") && c.Name == r.PathValue("container") {
				remotecommand.ServeAttach(w, r, process{c.Command}, r.PathValue("pod"), r.PathValue("uid"), c.Name, opts, idle,
					idle, remotecommand.SupportedStreamingProtocols)
				return
			}
		}
	}
	http.Error(w, "container not found", http.StatusNotFound)
}

func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	opts, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, process{}, r.PathValue("pod"), r.PathValue("uid"), opts, idle, idle,
		portforward.SupportedProtocols)
}

// process runs commands as processes of this machine.
type process struct{ attached []string }

// exitError is the error of a command as the streaming server wants it.
type exitError struct{ code int }

func (e exitError) Error() string   { return e.String() }
func (e exitError) String() string  { return fmt.Sprintf("exit code %d", e.code) }
func (e exitError) Exited() bool    { return true }
func (e exitError) ExitStatus() int { return e.code }

func (process) ExecInContainer(ctx context.Context, _, _, _ string, argv []string, in io.Reader,
	out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // a command that a test names
	err := run(cmd, in, out, errs, tty, resize)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code := exit.ExitCode()
		if code < 0 {
			code = 137
		}
		return exitError{code}
	}
	return err
}

func (p process) AttachContainer(ctx context.Context, name, uid, container string, in io.Reader,
	out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	err := p.ExecInContainer(ctx, name, uid, container, p.attached, in, out, errs, tty, resize, 0)
	if errors.As(err, new(exitError)) {
		return nil // attach has no exit code
	}
	return err
}

// run runs a command, on a terminal of its own with tty.
func run(cmd *exec.Cmd, in io.Reader, out, errs io.WriteCloser, tty bool,
	resize <-chan remotecommand.TerminalSize) error {
	if !tty {
		if in != nil {
			pipe, err := cmd.StdinPipe() // Wait does not wait for it
			if err != nil {
				return err
			}
			go func() {
				_, _ = io.Copy(pipe, in)
				_ = pipe.Close()
			}()
		}
		if out != nil {
			cmd.Stdout = out
		}
		if errs != nil {
			cmd.Stderr = errs
		}
		return cmd.Run()
	}
	terminal, err := pty.Start(cmd)
	if err != nil {
		return err
	}
	defer terminal.Close()
	go func() {
		for s := range resize {
			setSize(terminal, s)
		}
	}()
	if in != nil {
		go func() {
			_, _ = io.Copy(terminal, in)
			_ = cmd.Process.Signal(os.Interrupt) // the client has left
		}()
	}
	if out != nil {
		_, _ = io.Copy(out, terminal) // ends with EIO
	}
	return cmd.Wait()
}

// setSize sets the size of a terminal, which may be closed meanwhile.
func setSize(terminal *os.File, s remotecommand.TerminalSize) {
	raw, err := terminal.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: s.Width, Row: s.Height})
	})
}

func (process) PortForward(ctx context.Context, _, _ string, port int32, data io.ReadWriteCloser) error {
	defer data.Close()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return fmt.Errorf("failed to connect to localhost:%d: %w", port, err)
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, data)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(data, conn)
	return err
}
