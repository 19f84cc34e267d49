//go:build integration

package integration

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/api/local"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// buildKubectl builds kubectl from its module, once for a checkout.
var buildKubectl = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs("../../.lab/bin/kubectl")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", path, ".")
	build.Dir = "../kubectl"
	out, err := build.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build kubectl: %w\n%s", err, out)
	}
	return path, err
})

// kubectl is kubectl with a front of the agent's socket.
type kubectl struct {
	t       *testing.T
	program string
	env     []string
}

func newKubectl(t *testing.T, a *agent) *kubectl {
	t.Helper()
	program, err := buildKubectl()
	must.OK(t, err)
	server := newFront(t, local.Dial(filepath.Join(a.Root, local.SocketFile)))
	home := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	must.OK(t, os.WriteFile(filepath.Join(home, "ca.crt"), ca, 0o600))
	must.OK(t, os.WriteFile(filepath.Join(home, "config"), fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config",
"clusters":[{"name":"node","cluster":{"server":%q,"certificate-authority":"ca.crt"}}],
"contexts":[{"name":"node","context":{"cluster":"node","user":"me"}}],"current-context":"node",
"users":[{"name":"me","user":{"token":"x"}}]}`, server.URL), 0o600))
	return &kubectl{t, program, append(os.Environ(), "HOME="+home, "KUBECONFIG="+filepath.Join(home, "config"))}
}

func (k *kubectl) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), settle)
	k.t.Cleanup(cancel)
	c := exec.CommandContext(ctx, k.program, args...)
	c.Env = k.env
	return c
}

// run runs kubectl and returns what it prints, and its exit code.
func (k *kubectl) run(in string, args ...string) (string, int) {
	k.t.Helper()
	c := k.command(args...)
	c.Stdin = strings.NewReader(in)
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		k.t.Fatalf("kubectl %v: %v", args, err)
	}
	return string(out), c.ProcessState.ExitCode()
}

// expect runs kubectl and compares what it prints.
func (k *kubectl) expect(code int, want, in string, args ...string) {
	k.t.Helper()
	if out, got := k.run(in, args...); got != code || !strings.Contains(out, want) {
		k.t.Errorf("kubectl %s: exit code %d, want %d:\n%s\nwant a part %q", strings.Join(args, " "), got, code, out, want)
	}
}

// TestKubectlWorksInPods runs kubectl against the agent's paths, through a front that does what an API server does.
func TestKubectlWorksInPods(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	a.put(node.Pod("web", testImage(), `
		mkdir -p /www && echo page >/www/index.html && httpd -p 8080 -h /www
		i=0; while [ $i -lt 5 ]; do echo line $i; i=$((i+1)); done; trap 'exit 0' TERM; cat; sleep 1000 & wait`,
		func(p *corev1.Pod) { p.Spec.Containers[0].Stdin = true }))
	a.start()
	p := a.pod("web", "ready", node.Ready)
	a.logged(p, "main", "line 4")
	pod := p.Name
	k := newKubectl(t, a)

	t.Run("logs", func(t *testing.T) {
		k := &kubectl{t, k.program, k.env}
		k.expect(0, "line 0\nline 1\nline 2\nline 3\nline 4\n", "", "logs", pod)
		k.expect(0, "line 4\n", "", "logs", pod, "--tail", "1")
		k.expect(1, "not found", "", "logs", "none")
		k.expect(1, "container none is not valid for pod", "", "logs", pod, "-c", "none")
	})
	t.Run("exec", func(t *testing.T) {
		k := &kubectl{t, k.program, k.env}
		k.expect(0, "typed", "typed", "exec", "-i", pod, "--", "cat")
		k.expect(7, "command terminated with exit code 7", "", "exec", pod, "--", "sh", "-c", "exit 7")
		k.expect(1, "no-such-program", "", "exec", pod, "--", "no-such-program")
		for _, websocket := range []string{"true", "false"} { // false: SPDY from end to end
			k.env = append(k.env, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS="+websocket)
			k.expect(3, "both\n", "", "exec", pod, "--", "sh", "-c", "echo both; exit 3")
		}
	})
	t.Run("exec in a terminal", func(t *testing.T) {
		k := &kubectl{t, k.program, k.env}
		// The size comes after the command has begun. Until then stty prints none, and succeeds.
		c := k.command("exec", "-it", pod, "--", "sh", "-c",
			`tty; until s="$(stty size 2>/dev/null)"; [ -n "$s" ]; do sleep 0.1; done; echo $s; read x; echo got:$x; exit 5`)
		shown := onTerminal(t, c, "typed\n", &unix.Winsize{Row: 44, Col: 133})
		if code := c.ProcessState.ExitCode(); code != 5 || !strings.Contains(shown, "/dev/pts/") ||
			!strings.Contains(shown, "44 133") || !strings.Contains(shown, "got:typed") {
			t.Errorf("exit code %d, the terminal shows\n%s", code, shown)
		}
	})
	t.Run("attach", func(t *testing.T) {
		k := &kubectl{t, k.program, k.env}
		c := k.command("attach", "-i", pod)
		in, err := c.StdinPipe()
		must.OK(t, err)
		out := &lockedBuffer{}
		c.Stdout, c.Stderr = out, out
		must.OK(t, c.Start())
		_, err = io.WriteString(in, "to the main process\n")
		must.OK(t, err)
		node.Eventually(t, settle, "the main process to answer", func() error {
			if text := out.String(); !strings.Contains(text, "to the main process") {
				return fmt.Errorf("shown: %s", text)
			}
			return nil
		})
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	t.Run("port-forward", func(t *testing.T) { (&kubectl{t, k.program, k.env}).forward(pod) })
	t.Run("cp", func(t *testing.T) {
		k := &kubectl{t, k.program, k.env}
		dir := t.TempDir()
		must.OK(t, os.WriteFile(filepath.Join(dir, "up"), bytes.Repeat([]byte("0123456789abcdef"), 1<<16), 0o600))
		k.expect(0, "", "", "cp", filepath.Join(dir, "up"), pod+":/tmp/there")
		k.expect(0, "", "", "cp", pod+":/tmp/there", filepath.Join(dir, "down"))
		up, err := os.ReadFile(filepath.Join(dir, "up"))
		must.OK(t, err)
		down, err := os.ReadFile(filepath.Join(dir, "down"))
		must.OK(t, err)
		if !bytes.Equal(up, down) {
			t.Errorf("%d bytes came back of %d", len(down), len(up))
		}
	})
	t.Run("record", func(t *testing.T) { recorded(t, a) })
}

// onTerminal runs a command in a terminal of a size, types a line, and returns what the terminal shows.
func onTerminal(t *testing.T, c *exec.Cmd, typed string, size *unix.Winsize) string {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must.OK(t, err)
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must.OK(t, errors.Join(err, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must.OK(t, errors.Join(err, unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, size)))
	c.Stdin, c.Stdout, c.Stderr = slave, slave, slave
	must.OK(t, errors.Join(c.Start(), slave.Close()))
	_, err = io.WriteString(master, typed)
	must.OK(t, err)
	var out bytes.Buffer
	_, _ = io.Copy(&out, master) // ends with an error when the last descriptor of the terminal is closed
	_ = c.Wait()                 // the exit code is in its state
	return out.String()
}

// forward opens the pod's page through a forwarded port.
func (k *kubectl) forward(pod string) {
	k.t.Helper()
	for _, websocket := range []string{"true", "false"} {
		c := k.command("port-forward", pod, ":8080")
		c.Env = append(k.env, "KUBECTL_PORT_FORWARD_WEBSOCKETS="+websocket)
		out := &lockedBuffer{}
		c.Stdout, c.Stderr = out, out
		must.OK(k.t, c.Start())
		port := ""
		node.Eventually(k.t, settle, "a forwarded port", func() error {
			_, rest, ok := strings.Cut(out.String(), "Forwarding from 127.0.0.1:")
			if port, _, _ = strings.Cut(rest, " "); !ok || port == "" {
				return fmt.Errorf("shown: %s", out.String())
			}
			return nil
		})
		resp, err := http.Get("http://" + net.JoinHostPort("127.0.0.1", port) + "/index.html")
		must.OK(k.t, err)
		page, err := io.ReadAll(resp.Body)
		must.OK(k.t, err)
		resp.Body.Close()
		if string(page) != "page\n" {
			k.t.Errorf("got %q through the port", page)
		}
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

// What sessions are in the journal's events.
var (
	sessionStarted = regexp.MustCompile(`"event": ?"session_started"|"session_?[sS]tarted": ?{`)
	sessionEnded   = regexp.MustCompile(`"event": ?"session_ended"|"session_?[eE]nded": ?{`)
	exitSeven      = regexp.MustCompile(`"exit_?[cC]ode": ?7`)
)

// recorded checks that each session is in the journal, without what was typed.
func recorded(t *testing.T, a *agent) {
	t.Helper()
	node.Eventually(t, settle, "the sessions to end", func() error {
		out, _, _ := a.CLI("observe", "--no-follow", "-o", "json")
		started, ended := len(sessionStarted.FindAllString(out, -1)), len(sessionEnded.FindAllString(out, -1))
		if started < 10 || started != ended {
			return fmt.Errorf("%d sessions started and %d ended", started, ended)
		}
		if strings.Contains(out, "to the main process") || !exitSeven.MatchString(out) {
			return errors.New("the records hold what was typed, or no exit code")
		}
		return nil
	})
}

// lockedBuffer is what a running command has printed.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
