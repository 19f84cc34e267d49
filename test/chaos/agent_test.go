//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/query"
)

const (
	// soon bounds what takes an agent alone: a start, a stop, an answer.
	soon = 30 * time.Second
	// settle bounds the way back of all pods on a machine that others use as well.
	settle = 3 * time.Minute
	// again is the pause between looks at what tells of no change.
	again = 100 * time.Millisecond
	// configuration keeps pods that were made to crash often from waiting for minutes.
	configuration = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
		"crashLoopBackOff: {maxContainerRestartPeriod: 2s}\n"
)

var agents atomic.Int32

// agent is one root directory with its manifests and logs, and the process that serves it, if any.
type agent struct {
	t                    *testing.T
	dir, root, manifests string
	node, endpoint       string
	log                  *os.File
	cmd                  *exec.Cmd
	done                 chan struct{}
	client               *query.Client
	after                func() // called at the very end
}

// newAgent prepares an agent with more lines of configuration; spawn runs it. At the end of a test that went well its pods
// must go through it.
func newAgent(t *testing.T, settings ...string) *agent {
	t.Helper()
	dir, err := os.MkdirTemp("", "jl-") // short enough for a socket, unlike t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{
		t: t, dir: dir, root: filepath.Join(dir, "root"), manifests: filepath.Join(dir, "pods"),
		node: fmt.Sprintf("ch%d-%d", os.Getpid(), agents.Add(1)), endpoint: endpoint,
	}
	a.log, err = os.Create(filepath.Join(dir, "agent.log"))
	err = errors.Join(err, os.Mkdir(a.manifests, 0o755), os.Mkdir(a.root, 0o700),
		os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(configuration+strings.Join(settings, "\n")), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.cleanUp)
	return a
}

// spawn runs the agent and waits for nothing.
func (a *agent) spawn() {
	a.t.Helper()
	a.cmd = exec.Command(binary,
		"run", "--root-dir", a.root, "--static-pod-path", a.manifests, "--container-runtime-endpoint", a.endpoint,
		"--hostname-override", a.node, "--pod-log-dir", filepath.Join(a.dir, "logs"),
		"--container-log-dir", filepath.Join(a.dir, "links"), "--config", filepath.Join(a.dir, "config.yaml"),
		"--healthz-port", "0", "-v", "2")
	a.cmd.Stdout, a.cmd.Stderr = a.log, a.log
	if err := a.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	done, cmd := make(chan struct{}), a.cmd
	a.done = done
	go func() {
		_ = cmd.Wait() // the state tells
		close(done)
	}()
}

// start runs the agent and waits until it answers.
func (a *agent) start() {
	a.t.Helper()
	a.spawn()
	a.connect()
}

// connect makes sure of a connection that outlives restarts of the agent.
func (a *agent) connect() {
	a.t.Helper()
	eventually(a.t, soon, "an answer of the agent", func() error {
		if a.client != nil {
			_, err := a.list()
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		nc, err := bus.Dial(ctx, filepath.Join(a.root, "bus"), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // a cut connection is what a kill looks like
		if err != nil {
			return err
		}
		a.client, err = query.NewLocalClient(ctx, nc, nobodyListens)
		if err != nil {
			nc.Close()
		}
		return err
	})
}

// nobodyListens stands where an observer would connect: these tests ask, and follow no events.
func nobodyListens(context.Context) (*nats.Conn, error) {
	return nil, errors.New("the chaos tests follow no events")
}

func (a *agent) running() bool {
	if a.done == nil {
		return false
	}
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// end sends the agent a signal and waits for its end. An agent that had ended by itself is a failure.
func (a *agent) end(s syscall.Signal) {
	a.t.Helper()
	if !a.running() {
		a.t.Fatalf("the agent had ended by itself: %s", a.cmd.ProcessState)
	}
	if err := a.cmd.Process.Signal(s); err != nil {
		a.t.Fatal(err)
	}
	select {
	case <-a.done:
	case <-time.After(soon):
		_ = a.cmd.Process.Kill() // it did not end when it was told
		a.t.Fatalf("the agent did not end within %s of %s", soon, s)
	}
}

// put writes a manifest as one should: aside, then renamed.
func (a *agent) put(name, text string) {
	a.t.Helper()
	part := filepath.Join(a.dir, "part-"+name)
	if err := errors.Join(os.WriteFile(part, []byte(text), 0o600), os.Rename(part, filepath.Join(a.manifests, name))); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) remove(name string) {
	a.t.Helper()
	if err := os.Remove(filepath.Join(a.manifests, name)); err != nil {
		a.t.Fatal(err)
	}
}

// list are the pods as the agent reports them, those that end too.
func (a *agent) list() ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	list, err := a.client.Pods(ctx, "")
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// cli runs another command of the program on this agent's root directory.
func (a *agent) cli(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), settle)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, append(args, "--root-dir", a.root)...).CombinedOutput()
	return string(out), err
}

// logged is the agent's log so far, over all its runs.
func (a *agent) logged() string {
	b, _ := os.ReadFile(a.log.Name())
	return string(b)
}

// cleanUp has the agent take its pods away, and fails the test if anything stays.
func (a *agent) cleanUp() {
	defer a.clearAway()
	if a.t.Failed() || a.client == nil || !a.running() {
		return
	}
	names, err := os.ReadDir(a.manifests)
	if err != nil {
		a.t.Error(err)
	}
	for _, n := range names {
		a.remove(n.Name())
	}
	eventually(a.t, settle, "every pod to be gone", func() error { return a.holds(nil) })
	a.end(syscall.SIGTERM)
}

// clearAway ends what a failed test left, and keeps what can tell of it.
func (a *agent) clearAway() {
	if a.running() {
		if a.t.Failed() {
			out, _ := a.cli("pods")
			a.t.Logf("the agent's pods:\n%s", out)
		}
		a.end(syscall.SIGKILL)
	}
	if a.client != nil {
		a.client.Conn().Close()
	}
	if a.after != nil {
		a.after()
	}
	_ = a.log.Close()
	left, _, err := a.onRuntime()
	if err != nil {
		a.t.Error(err)
	}
	for _, s := range left {
		removeSandbox(s.GetId())
	}
	if a.t.Failed() {
		a.t.Logf("the agent's log and root directory are kept in %s", a.dir)
		return
	}
	unmountBelow(a.dir)
	if err := os.RemoveAll(a.dir); err != nil {
		a.t.Error(err)
	}
}

// unmountBelow takes down the volumes that a test's pods left.
func unmountBelow(dir string) {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			_ = unix.Unmount(f[1], unix.MNT_DETACH)
		}
	}
}

// eventually asks again until there is no error: for what tells nobody when it changes.
func eventually(t *testing.T, within time.Duration, what string, try func() error) {
	t.Helper()
	deadline := time.After(within)
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-time.After(again):
		case <-deadline:
			t.Fatalf("not within %s: %s: %v", within, what, err)
		}
	}
}
