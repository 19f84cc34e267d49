package node

import (
	"bytes"
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

	"github.com/nats-io/nats.go" //nolint:depguard // a client that outlives its agent needs options of the connection
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/api/query"
)

var agents atomic.Int32

// Agent is one root directory with the manifests and logs that belong to it, and the process that serves it, if any. The
// exported fields may be changed until it runs.
type Agent struct {
	T                      *testing.T
	Dir, Root, Manifests   string
	PodLogs, ContainerLogs string
	Node, Endpoint         string
	Program                string
	Flags                  []string
	CgroupRoot             string              // the name of a cgroup of its own; empty: the flags say
	User                   *syscall.Credential // nil: this process's
	Process                *Process            // nil before the first start
	Client                 *query.Client       // nil before the first answer; it outlives restarts
	Log                    *Log                // of all runs

	runtime *Runtime
	closers []func()
}

// NewAgent prepares an agent with more flags for a test; Start runs it. settle bounds the end of all its pods: at the end
// of a test that went well they must go through it and leave nothing. tell, if not nil, shows more after a failure.
func (s *Setup) NewAgent(t *testing.T, settle time.Duration, tell func(), flags ...string) *Agent {
	t.Helper()
	// Not t.TempDir: with a test's name in it the path is too long for a socket.
	dir, err := os.MkdirTemp("", "jl-")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(dir, "agent.log"))
	a := &Agent{
		T: t, Dir: dir, Root: filepath.Join(dir, "root"), Manifests: filepath.Join(dir, "pods"),
		PodLogs: filepath.Join(dir, "logs"), ContainerLogs: filepath.Join(dir, "links"),
		Node: fmt.Sprintf("jl%d-%d", os.Getpid(), agents.Add(1)), Endpoint: s.Runtime.Endpoint,
		Program: s.Program, Flags: flags, Log: &Log{file: file}, runtime: s.Runtime,
	}
	//nolint:gosec // a user of its own may have to read the folder of manifests
	if err := errors.Join(err, os.Mkdir(a.Manifests, 0o755)); err != nil {
		t.Fatal(err)
	}
	a.CgroupRoot = a.Node
	a.makeCgroupRoot()
	t.Cleanup(func() { a.cleanUp(settle, tell) })
	return a
}

// AtTheEnd calls f once the agent has ended and before its folder goes.
func (a *Agent) AtTheEnd(f func()) { a.closers = append(a.closers, f) }

// Args are the command line of `journalet run`.
func (a *Agent) Args() []string {
	flags := a.Flags
	if a.CgroupRoot != "" {
		flags = append([]string{"--cgroups-per-qos", "--cgroup-root", "/" + a.CgroupRoot}, flags...)
	}
	return append([]string{
		"run", "--root-dir", a.Root, "--static-pod-path", a.Manifests, "--container-runtime-endpoint", a.Endpoint,
		"--hostname-override", a.Node, "--pod-log-dir", a.PodLogs, "--container-log-dir", a.ContainerLogs,
		"--healthz-port", "0", "-v", "2",
	}, flags...)
}

// Spawn runs the agent, in its own folder, and waits for nothing.
func (a *Agent) Spawn() {
	a.T.Helper()
	a.Process = Run(a.T, a.Dir, a.User, a.Log, a.Program, a.Args()...)
}

// Start runs the agent and waits until it answers.
func (a *Agent) Start() {
	a.T.Helper()
	a.Spawn()
	a.Process.Expect(a.T, "journalet has started")
	a.Connect()
}

// Connect waits for an answer. The connection is kept over restarts, and comes back by itself.
func (a *Agent) Connect() {
	a.T.Helper()
	Eventually(a.T, Soon, "an answer of the agent", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), Soon)
		defer cancel()
		if a.Client != nil {
			_, err := a.Client.Info(ctx)
			return err
		}
		nc, err := bus.Dial(ctx, a.bus(), forever()...)
		if err != nil {
			return err
		}
		c, err := query.NewLocalClient(ctx, nc, func(ctx context.Context) (*nats.Conn, error) {
			return bus.Listen(ctx, a.bus(), forever()...)
		})
		if err != nil {
			nc.Close()
			return err
		}
		a.Client = c
		return nil
	})
}

func (a *Agent) bus() string { return filepath.Join(a.Root, "bus") }

// forever keeps a connection over restarts of the agent. A cut connection is what a kill looks like: no word of it.
func forever() []nats.Option {
	return []nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
}

// Disconnect forgets the connection, for an agent whose bus will be another one.
func (a *Agent) Disconnect() {
	if a.Client != nil {
		a.Client.Conn().Close()
		a.Client = nil
	}
}

// Stop ends the agent as systemd does; it must end well.
func (a *Agent) Stop() {
	a.T.Helper()
	if code := a.Process.End(a.T, syscall.SIGTERM); code != 0 {
		a.T.Errorf("the agent ended with status %d after SIGTERM:\n%s", code, a.Process.Tail())
	}
}

// Kill ends the agent as a crash does.
func (a *Agent) Kill() {
	a.T.Helper()
	a.Process.End(a.T, syscall.SIGKILL)
}

// Put writes a manifest as one should: aside, then renamed.
func (a *Agent) Put(name, text string) {
	a.T.Helper()
	part := filepath.Join(a.Dir, "part-"+name)
	//nolint:gosec // a user of its own may have to read it
	if err := errors.Join(os.WriteFile(part, []byte(text), 0o644), os.Rename(part, filepath.Join(a.Manifests, name))); err != nil {
		a.T.Fatal(err)
	}
}

// Remove takes a manifest away.
func (a *Agent) Remove(name string) {
	a.T.Helper()
	if err := os.Remove(filepath.Join(a.Manifests, name)); err != nil {
		a.T.Fatal(err)
	}
}

// Pods are the pods as the agent reports them, those that end too.
func (a *Agent) Pods() ([]corev1.Pod, error) {
	// Not the test's context: it has ended when its clean-up asks.
	ctx, cancel := context.WithTimeout(context.Background(), Soon)
	defer cancel()
	list, err := a.Client.Pods(ctx, "")
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// ShortName is the name in the manifest of what the agent calls full.
func (a *Agent) ShortName(full string) string { return strings.TrimSuffix(full, "-"+a.Node) }

// CLI runs another command of the program on this agent's root directory.
func (a *Agent) CLI(args ...string) (stdout, stderr string, code int) {
	a.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cliTimeout)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, a.Program, append(args, "--root-dir", a.Root)...) //nolint:gosec // the program under test
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		a.T.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// cliTimeout bounds a command; `journal verify` reads all there is.
const cliTimeout = 3 * time.Minute

// Verified has the agent check its journal.
func (a *Agent) Verified() {
	a.T.Helper()
	if out, errs, code := a.CLI("journal", "verify"); code != 0 || !strings.Contains(out, "whole and unchanged") {
		a.T.Errorf("`journalet journal verify` ended with %d: %s%s", code, out, errs)
	}
}

// Gone tells what is left of the agent's pods: to itself, and on the runtime.
func (a *Agent) Gone() error {
	pods, err := a.Pods()
	if err != nil {
		return err
	}
	if len(pods) > 0 {
		return fmt.Errorf("the agent knows of %d pods, %s first", len(pods), pods[0].Name)
	}
	// A pod is forgotten once nothing of it is left, so there is nothing to wait for here.
	sandboxes, containers, err := a.OnRuntime()
	if err == nil && len(sandboxes)+len(containers) > 0 {
		a.T.Errorf("the agent knows of no pod, and %d sandboxes and %d containers are on the runtime", len(sandboxes), len(containers))
	}
	return err
}

// cleanUp takes the pods away through the agent, and fails the test if anything stays.
func (a *Agent) cleanUp(settle time.Duration, tell func()) {
	defer a.clearAway(tell)
	if a.T.Failed() || a.Client == nil || !a.Process.Running() {
		return
	}
	names, err := os.ReadDir(a.Manifests)
	for _, n := range names {
		err = errors.Join(err, os.RemoveAll(filepath.Join(a.Manifests, n.Name())))
	}
	if err != nil {
		a.T.Error(err)
	}
	Eventually(a.T, settle, "every pod to be gone", a.Gone)
	a.Stop()
}

// clearAway ends what a failed test left, and keeps what can tell of it.
func (a *Agent) clearAway(tell func()) {
	if a.T.Failed() {
		if a.Process != nil {
			a.T.Logf("the agent's log ends with:\n%s", a.Process.Tail())
		}
		if a.Process.Running() {
			out, errs, _ := a.CLI("pods")
			a.T.Logf("the agent's pods:\n%s%s", out, errs)
		}
		if tell != nil {
			tell()
		}
	}
	if a.Process.Running() {
		a.Process.End(a.T, syscall.SIGKILL)
	}
	a.Disconnect()
	for _, f := range a.closers {
		f()
	}
	left, _, err := a.OnRuntime()
	if err != nil || len(left) > 0 && !a.T.Failed() {
		a.T.Errorf("%d sandboxes are left at the end (%v)", len(left), err)
	}
	for _, s := range left {
		a.runtime.RemoveSandbox(s.GetId())
	}
	if a.CgroupRoot != "" {
		a.removeCgroups()
	}
	unmountBelow(a.Dir)
	_ = a.Log.file.Close()
	if a.T.Failed() {
		a.T.Logf("the agent's log and root directory are kept in %s", a.Dir)
		return
	}
	if err := os.RemoveAll(a.Dir); err != nil {
		a.T.Error(err)
	}
}

// unmountBelow takes down the volumes that a failed test's pods left.
func unmountBelow(dir string) {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			_ = unix.Unmount(f[1], unix.MNT_DETACH)
		}
	}
}
