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

	"github.com/journalet/journalet/runtime/api/query"
)

// keepIn names the variable with the directory for what failed tests leave. Without it, that stays where it is.
const keepIn = "JOURNALET_TEST_KEEP"

var agents atomic.Int32

// Agent is one root directory with the manifests and logs that belong to it, and the process that serves it, if any.
// The exported fields may be changed until it runs.
type Agent struct {
	T                      *testing.T
	Dir, Root, Manifests   string
	PodLogs, ContainerLogs string
	Node, Endpoint         string
	Program                string
	Flags                  []string
	// ImageGC has the agent remove images, as its flags say. Otherwise it removes none: other tests share the runtime.
	ImageGC    bool
	CgroupRoot string              // a cgroup of its own; empty: the cgroup that the flags give
	User       *syscall.Credential // nil: this process's
	Process    *Process            // nil before the first start
	Client     *query.Client       // nil before the first Connect; it outlives restarts
	Log        *Log                // of all runs

	runtime *Runtime
	closers []func()
}

// NewAgent prepares an agent with more flags for a test; Start runs it. At the end of a test that passed, the agent
// removes its pods within settle, and they must leave nothing. A test that failed calls report, if it is not nil.
func (s *Setup) NewAgent(t *testing.T, settle time.Duration, report func(), flags ...string) *Agent {
	t.Helper()
	// Not t.TempDir: with the test's name in it, the path is too long for a socket.
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
	//nolint:gosec // an agent of another user may have to read the directory
	if err := errors.Join(err, os.Mkdir(a.Manifests, 0o755)); err != nil {
		t.Fatal(err)
	}
	a.CgroupRoot = a.Node
	a.createCgroupRoot()
	t.Cleanup(func() { a.cleanUp(settle, report) })
	return a
}

// AtTheEnd calls f after the end of the agent, before its directory is removed.
func (a *Agent) AtTheEnd(f func()) { a.closers = append(a.closers, f) }

// Args returns the command line of `journalet run`.
func (a *Agent) Args() []string {
	flags := a.Flags
	if a.CgroupRoot != "" {
		flags = append([]string{"--cgroups-per-qos", "--cgroup-root", "/" + a.CgroupRoot}, flags...)
	}
	if !a.ImageGC {
		flags = append([]string{"--image-gc-high-threshold", "100"}, flags...)
	}
	// The machine's disks and memory are others' matter. A test that wants thresholds gives its own.
	flags = append([]string{"--eviction-hard", "memory.available<0%"}, flags...)
	return append([]string{
		"run", "--root-dir", a.Root, "--static-pod-path", a.Manifests, "--container-runtime-endpoint", a.Endpoint,
		"--hostname-override", a.Node, "--pod-log-dir", a.PodLogs, "--container-log-dir", a.ContainerLogs,
		"--healthz-port", "0", "-v", "2",
	}, flags...)
}

// Spawn runs the agent in its own directory, and waits for nothing.
func (a *Agent) Spawn() {
	a.T.Helper()
	a.Process = Run(a.T, a.Dir, a.User, a.Log, a.Program, a.Args()...)
}

// Start runs the agent and waits until it serves requests.
func (a *Agent) Start() {
	a.T.Helper()
	a.Spawn()
	a.Process.Expect(a.T, "journalet started")
	a.Connect()
}

// Connect waits until the agent serves requests. The connection survives restarts: the client reconnects.
func (a *Agent) Connect() {
	a.T.Helper()
	Eventually(a.T, Soon, "the agent to serve requests", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), Attempt)
		defer cancel()
		if a.Client != nil {
			_, err := a.Client.Info(ctx)
			return err
		}
		c, err := query.Dial(ctx, a.bus(), forever()...)
		if err == nil {
			a.Client = c
		}
		return err
	})
}

func (a *Agent) bus() string { return filepath.Join(a.Root, "bus") }

// forever keeps a connection over restarts of the agent. Each kill cuts it, so that errors are not worth a log line.
func forever() []nats.Option {
	return []nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
}

// Disconnect drops the connection, for an agent whose bus will be another one.
func (a *Agent) Disconnect() {
	if a.Client != nil {
		a.Client.Conn().Close()
		a.Client = nil
	}
}

// Stop ends the agent as systemd does. It must exit with 0.
func (a *Agent) Stop() {
	a.T.Helper()
	if code := a.Process.End(a.T, syscall.SIGTERM); code != 0 {
		a.T.Errorf("the agent ended with status %d after SIGTERM:\n%s", code, a.Process.Tail())
	}
}

// Kill ends the agent with SIGKILL, as a crash does.
func (a *Agent) Kill() {
	a.T.Helper()
	a.Process.End(a.T, syscall.SIGKILL)
}

// Put writes a manifest atomically: to a file aside, which is then renamed.
func (a *Agent) Put(name, text string) {
	a.T.Helper()
	part := filepath.Join(a.Dir, "part-"+name)
	err := os.WriteFile(part, []byte(text), 0o644) //nolint:gosec // an agent of another user may have to read it
	if err := errors.Join(err, os.Rename(part, filepath.Join(a.Manifests, name))); err != nil {
		a.T.Fatal(err)
	}
}

// Remove removes a manifest.
func (a *Agent) Remove(name string) {
	a.T.Helper()
	if err := os.Remove(filepath.Join(a.Manifests, name)); err != nil {
		a.T.Fatal(err)
	}
}

// Pods returns the pods as the agent reports them, terminating ones too.
func (a *Agent) Pods() ([]corev1.Pod, error) {
	// Not the test's context: it has ended during the test's clean-up.
	ctx, cancel := context.WithTimeout(context.Background(), Attempt)
	defer cancel()
	list, err := a.Client.Pods(ctx, "")
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// ShortName returns the manifest's name of a static pod: its full name without the node's name.
func (a *Agent) ShortName(full string) string { return strings.TrimSuffix(full, "-"+a.Node) }

// CLI runs another command of the program on this agent's root directory.
func (a *Agent) CLI(args ...string) (stdout, stderr string, code int) {
	a.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cliTimeout)
	defer cancel()
	var out, errs bytes.Buffer
	args = append(args, "--root-dir", a.Root)
	cmd := exec.CommandContext(ctx, a.Program, args...) //nolint:gosec // the program under test
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		a.T.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// cliTimeout bounds a command; `journal verify` reads the whole journal.
const cliTimeout = 3 * time.Minute

// Verified checks that the journal is intact.
func (a *Agent) Verified() {
	a.T.Helper()
	if out, errs, code := a.CLI("journal", "verify"); code != 0 || !strings.Contains(out, "complete and unchanged") {
		a.T.Errorf("`journalet journal verify` ended with %d: %s%s", code, out, errs)
	}
}

// Gone returns an error while the agent reports pods. Objects on the runtime without a reported pod fail the test.
func (a *Agent) Gone() error {
	pods, err := a.Pods()
	if err != nil {
		return err
	}
	if len(pods) > 0 {
		return fmt.Errorf("the agent still reports %d pods, %s first", len(pods), pods[0].Name)
	}
	// The agent drops a pod once nothing of it is left, so there is nothing to wait for here.
	sandboxes, containers, err := a.OnRuntime()
	if err == nil && len(sandboxes)+len(containers) > 0 {
		a.T.Errorf("the agent reports no pod, but %d sandboxes and %d containers are on the runtime",
			len(sandboxes), len(containers))
	}
	return err
}

// cleanUp removes the pods through the agent, and fails the test if anything stays.
func (a *Agent) cleanUp(settle time.Duration, report func()) {
	defer a.remove(report)
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

// remove ends the agent and removes everything that is left of it. The files of a failed test are kept.
func (a *Agent) remove(report func()) {
	if a.T.Failed() {
		if a.Process != nil {
			a.T.Logf("the agent's log ends with:\n%s", a.Process.Tail())
		}
		if a.Process.Running() {
			out, errs, _ := a.CLI("pods")
			a.T.Logf("the agent's pods:\n%s%s", out, errs)
		}
		if report != nil {
			report()
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
		a.T.Logf("the agent's log and root directory are kept in %s", a.keep())
		return
	}
	if err := os.RemoveAll(a.Dir); err != nil {
		a.T.Error(err)
	}
}

// keep moves the directory of a failed test to where the environment says, and returns where it is.
func (a *Agent) keep() string {
	in := os.Getenv(keepIn)
	if in == "" {
		return a.Dir
	}
	to := filepath.Join(in, strings.ReplaceAll(a.T.Name(), "/", "-")+"-"+filepath.Base(a.Dir))
	if err := os.Rename(a.Dir, to); err != nil { // such as: on another file system
		return a.Dir
	}
	return to
}

// unmountBelow unmounts the volumes that the pods of a failed test left.
func unmountBelow(dir string) {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			_ = unix.Unmount(f[1], unix.MNT_DETACH)
		}
	}
}
