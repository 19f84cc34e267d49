//go:build integration

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/nats-io/nats.go"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/query"
)

const (
	// soon bounds what takes an agent alone: a start, a stop, an answer.
	soon = 20 * time.Second
	// settle bounds what takes a few sandboxes on a machine that other tests use as well.
	settle = 60 * time.Second
	// again is the pause between looks at what tells of no change.
	again = 50 * time.Millisecond
)

var agents atomic.Int32

// agent is one root directory with the manifests and logs that belong to it, and the process that serves it, if any.
type agent struct {
	t                      *testing.T
	dir, root, manifests   string
	podLogs, containerLogs string
	node, endpoint         string
	flags                  []string
	process                *process
	client                 *query.Client
	journal                *journal
	watching               context.CancelFunc
	user                   *syscall.Credential // nil: this process's
	closers                []func()            // called at the very end
}

// newAgent prepares an agent of its own for a test; start runs it. At the end of the test its pods are gone.
func newAgent(t *testing.T, flags ...string) *agent {
	t.Helper()
	// Not t.TempDir: with a test's name in it the path is too long for a socket.
	dir, err := os.MkdirTemp("", "jl-")
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{
		t: t, dir: dir, root: filepath.Join(dir, "root"), manifests: filepath.Join(dir, "pods"),
		podLogs: filepath.Join(dir, "logs"), containerLogs: filepath.Join(dir, "links"),
		node: fmt.Sprintf("it%d-%d", os.Getpid(), agents.Add(1)), endpoint: endpoint, flags: flags,
	}
	if err := os.Mkdir(a.manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.cleanUp)
	return a
}

// started is a running agent with these manifests, by file name.
func started(t *testing.T, manifests map[string]string, flags ...string) *agent {
	t.Helper()
	a := newAgent(t, flags...)
	for name, text := range manifests {
		a.put(name, text)
	}
	a.start()
	return a
}

// args are the command line of `journalet run`.
func (a *agent) args() []string {
	return append([]string{
		"run", "--root-dir", a.root, "--static-pod-path", a.manifests, "--container-runtime-endpoint", a.endpoint,
		"--hostname-override", a.node, "--pod-log-dir", a.podLogs, "--container-log-dir", a.containerLogs,
		"--healthz-port", "0", "-v", "2",
	}, a.flags...)
}

// start runs the agent and waits until it answers.
func (a *agent) start() {
	a.t.Helper()
	a.spawn()
	a.process.expect(a.t, "journalet has started")
	if a.client == nil {
		a.watch()
		return
	}
	// The connection comes back by itself; what is asked next must not meet the pause before it does.
	eventually(a.t, soon, "an answer after the restart", func() error {
		_, err := a.client.Info(a.t.Context())
		return err
	})
}

// spawn runs the agent and waits for nothing.
func (a *agent) spawn() {
	a.t.Helper()
	a.process = runAs(a.t, a.user, a.args()...)
}

// watch follows the agent's journal from now on.
func (a *agent) watch() {
	a.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	a.watching = cancel
	eventually(a.t, soon, "a connection to the agent", func() error {
		nc, err := bus.Dial(ctx, filepath.Join(a.root, "bus"), forever()...)
		if err != nil {
			return err
		}
		c, err := query.NewLocalClient(ctx, nc, func(ctx context.Context) (*nats.Conn, error) {
			return bus.Listen(ctx, filepath.Join(a.root, "bus"), forever()...)
		})
		if err != nil {
			nc.Close()
			return err
		}
		a.client = c
		return nil
	})
	a.journal = follow(ctx, a.client)
}

// stop ends the agent as systemd does; it must end well.
func (a *agent) stop() {
	a.t.Helper()
	if code := a.process.end(a.t, syscall.SIGTERM); code != 0 {
		a.t.Errorf("the agent ended with status %d after SIGTERM:\n%s", code, a.process.tail())
	}
}

// kill ends the agent as a crash does.
func (a *agent) kill() {
	a.t.Helper()
	a.process.end(a.t, syscall.SIGKILL)
}

// put writes a manifest as one should: aside, then renamed.
func (a *agent) put(name, text string) {
	a.t.Helper()
	part := filepath.Join(a.dir, "part-"+name)
	if err := errors.Join(os.WriteFile(part, []byte(text), 0o644), os.Rename(part, filepath.Join(a.manifests, name))); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) remove(name string) {
	a.t.Helper()
	if err := os.Remove(filepath.Join(a.manifests, name)); err != nil {
		a.t.Fatal(err)
	}
}

// cleanUp takes the pods away through the agent, and fails the test if any stays.
func (a *agent) cleanUp() {
	defer a.clearAway()
	if a.t.Failed() || a.client == nil || a.process == nil || !a.process.running() {
		return
	}
	if err := empty(a.manifests); err != nil {
		a.t.Error(err)
	}
	a.gone()
	a.stop()
}

// clearAway ends what a failed test left, and tells of it.
func (a *agent) clearAway() {
	t := a.t
	if t.Failed() {
		a.tell()
	}
	if a.process != nil && a.process.running() {
		a.process.end(t, syscall.SIGKILL)
	}
	if a.watching != nil {
		a.client.Conn().Close()
		a.watching()
	}
	for _, f := range a.closers {
		f()
	}
	left := sandboxesOf(t, a.node)
	if len(left) > 0 && !t.Failed() {
		t.Errorf("%d sandboxes are left at the end", len(left))
	}
	for _, s := range left {
		removeSandbox(s.GetId())
	}
	unmountBelow(a.dir)
	if err := os.RemoveAll(a.dir); err != nil {
		t.Error(err)
	}
}

// gone waits until nothing of the agent's pods is on the runtime.
func (a *agent) gone() {
	a.t.Helper()
	a.pods("every pod to be gone", func(pods map[string]*corev1.Pod) bool { return len(pods) == 0 })
	if left := sandboxesOf(a.t, a.node); len(left) > 0 {
		a.t.Errorf("the agent knows of no pod, and %d sandboxes are on the runtime", len(left))
	}
	if left := containersOf(a.t, a.node); len(left) > 0 {
		a.t.Errorf("the agent knows of no pod, and %d containers are on the runtime", len(left))
	}
}

// tell shows what there is to know after a failure.
func (a *agent) tell() {
	if a.process != nil {
		a.t.Logf("the agent's log ends with:\n%s", a.process.tail())
	}
	if a.journal != nil {
		a.t.Logf("the journal ends with:\n%s", a.journal.tail(60))
	}
}

// pods waits until the agent's pods, by name as in the manifest, are as wanted.
func (a *agent) pods(what string, wanted func(map[string]*corev1.Pod) bool) map[string]*corev1.Pod {
	a.t.Helper()
	return a.podsWithin(settle, what, wanted)
}

func (a *agent) podsWithin(within time.Duration, what string, wanted func(map[string]*corev1.Pod) bool) map[string]*corev1.Pod {
	a.t.Helper()
	deadline := time.After(within)
	for {
		_, changed := a.journal.seen()
		pods, err := a.list()
		if err == nil && wanted(pods) {
			return pods
		}
		select {
		case <-changed:
		case <-time.After(again): // an event is told to observers and to its actor at once: the actor may come second
		case <-deadline:
			a.t.Fatalf("not within %s: %s; the pods are (%v):\n%s", within, what, err, describe(pods))
		}
	}
}

// pod waits until one pod is as wanted.
func (a *agent) pod(name, what string, wanted func(*corev1.Pod) bool) *corev1.Pod {
	a.t.Helper()
	return a.pods(name+" "+what, func(pods map[string]*corev1.Pod) bool { return pods[name] != nil && wanted(pods[name]) })[name]
}

// list are the pods now. Two of one name can be there while one ends: the one that lives counts.
func (a *agent) list() (map[string]*corev1.Pod, error) {
	list, err := a.client.Pods(a.t.Context(), "")
	if err != nil && a.t.Context().Err() != nil {
		// During a test's clean-up its context has ended.
		list, err = a.client.Pods(context.Background(), "")
	}
	if err != nil {
		return nil, err
	}
	out := map[string]*corev1.Pod{}
	for i := range list.Items {
		p := &list.Items[i]
		name := strings.TrimSuffix(p.Name, "-"+a.node)
		if old := out[name]; old == nil || old.DeletionTimestamp != nil {
			out[name] = p
		}
	}
	return out, nil
}

func (a *agent) podNow(name string) *corev1.Pod {
	a.t.Helper()
	pods, err := a.list()
	if err != nil {
		a.t.Fatal(err)
	}
	if pods[name] == nil {
		a.t.Fatalf("there is no pod %s:\n%s", name, describe(pods))
	}
	return pods[name]
}

// cli runs another command of the program on this agent's root directory.
func (a *agent) cli(args ...string) (stdout, stderr string, code int) {
	a.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(a.t.Context(), binary, append(args, "--root-dir", a.root)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		a.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// process is a run of the program.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}

	mu      sync.Mutex
	log     bytes.Buffer
	written chan struct{}
}

func run(t *testing.T, args ...string) *process {
	t.Helper()
	return runAs(t, nil, args...)
}

func runAs(t *testing.T, user *syscall.Credential, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary, args...), done: make(chan struct{}), written: make(chan struct{})}
	p.cmd.Stderr, p.cmd.Stdout = p, p
	if user != nil {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the state tells
		close(p.done)
	}()
	return p
}

// Write takes the process's log.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log.Write(b)
	close(p.written)
	p.written = make(chan struct{})
	return len(b), nil
}

func (p *process) text() (string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String(), p.written
}

func (p *process) tail() string {
	text, _ := p.text()
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// expect waits for words in the process's log.
func (p *process) expect(t *testing.T, words string) {
	t.Helper()
	deadline := time.After(soon)
	for {
		text, written := p.text()
		if strings.Contains(text, words) {
			return
		}
		select {
		case <-written:
		case <-p.done:
			if text, _ := p.text(); !strings.Contains(text, words) {
				t.Fatalf("the agent ended (%s) before it said %q:\n%s", p.cmd.ProcessState, words, p.tail())
			}
		case <-deadline:
			t.Fatalf("the agent did not say %q within %s:\n%s", words, soon, p.tail())
		}
	}
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// end sends a signal and waits for the exit status; -1 for one that a signal ended.
func (p *process) end(t *testing.T, s syscall.Signal) int {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	return p.ended(t)
}

// ended waits for the exit status of a process that ends by itself.
func (p *process) ended(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(soon):
		_ = p.cmd.Process.Kill() // it did not end when it was told
		t.Fatalf("the agent did not end within %s:\n%s", soon, p.tail())
	}
	return p.cmd.ProcessState.ExitCode()
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

func empty(dir string) error {
	names, err := os.ReadDir(dir)
	for _, n := range names {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, n.Name())))
	}
	return err
}

// unmountBelow takes down mounts that a failed test left.
func unmountBelow(dir string) {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for _, line := range strings.Split(string(mounts), "\n") {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			_ = unix.Unmount(f[1], unix.MNT_DETACH)
		}
	}
}

func describe(pods map[string]*corev1.Pod) string {
	var b strings.Builder
	for name, p := range pods {
		fmt.Fprintf(&b, "  %s %s %s %q", name, p.UID, p.Status.Phase, p.Status.Reason)
		for _, c := range p.Status.ContainerStatuses {
			fmt.Fprintf(&b, " [%s ready=%t restarts=%d state=%s last=%s]", c.Name, c.Ready, c.RestartCount, c.State.String(), c.LastTerminationState.String())
		}
		b.WriteString("\n")
	}
	return b.String()
}
