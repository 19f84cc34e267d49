//go:build clients

package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

const (
	nodeName = "node-1.example"
	token    = "node-1_example"
	// soon bounds the wait for a client to see what it has to see.
	soon = 90 * time.Second
	// rounds are the changes and cuts before that; in one of them the clients miss severalPages of events.
	rounds       = 10
	podsPerRound = 4
	severalPages = 1200
)

// programs are the clients. Each gets the address of the port, the node and the key's file.
var programs = map[string]func(tools string) (env, command []string){
	"go": func(tools string) (_, _ []string) { return nil, []string{filepath.Join(tools, "observe-go")} },
	"python": func(tools string) (_, _ []string) {
		libraries, _ := filepath.Glob(tools + "/clients/python/usr/lib/*-linux-gnu")
		return []string{"PYTHONPATH=" + tools + "/clients/python/usr/lib/python3/dist-packages",
			"LD_LIBRARY_PATH=" + strings.Join(libraries, ":")}, []string{"/usr/bin/python3", "python/observe.py"}
	},
	"javascript": func(tools string) (_, _ []string) {
		return nil, []string{"node", filepath.Join(tools, "clients/javascript/observe.js")}
	},
	"nats-cli": func(tools string) (_, _ []string) {
		return nil, []string{"bash", "nats-cli/observe.sh"}
	},
}

// tools returns the directory with what `make clients` has installed.
func tools(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../.tools")
	must.OK(t, err)
	_, err = exec.LookPath("nats")
	must.OK(t, err)
	for _, file := range []string{"clients/python", "clients/javascript/node_modules"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Fatalf("%v: run `make clients`, which installs it", err)
		}
	}
	// A module is found beside the script.
	script, err := os.ReadFile("javascript/observe.js")
	must.OK(t, err)
	must.OK(t, os.WriteFile(filepath.Join(dir, "clients/javascript/observe.js"), script, 0o600))
	return dir
}

func build(t *testing.T, program, pkg string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, pkg).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
}

// agent is an agent on the simulated runtime.
type agent struct {
	t                   *testing.T
	program, root, pods string
	address             string
	cmd                 *exec.Cmd
}

func newAgent(t *testing.T) *agent {
	t.Helper()
	dir := t.TempDir()
	a := &agent{t: t, program: filepath.Join(dir, "journalet"), root: filepath.Join(dir, "root"),
		pods: filepath.Join(dir, "pods"), address: fmt.Sprintf("127.0.0.1:%d", node.Port(t))}
	build(t, a.program, "../../cmd/journalet")
	must.OK(t, os.MkdirAll(a.pods, 0o700))
	a.start()
	t.Cleanup(a.kill)
	return a
}

func (a *agent) start() {
	a.t.Helper()
	a.cmd = exec.Command(a.program, "run", "--container-runtime-endpoint", "sim://", "--static-pod-path", a.pods,
		"--root-dir", a.root, "--pod-log-dir", filepath.Join(a.root, "logs"), "--container-log-dir",
		filepath.Join(a.root, "links"), "--healthz-port", "0", "--bus-listen", a.address,
		"--hostname-override", nodeName)
	a.cmd.Stderr = a.t.Output()
	must.OK(a.t, a.cmd.Start())
	a.until("the agent to listen", func() error {
		c, err := net.Dial("tcp", a.address)
		if err == nil {
			err = c.Close()
		}
		return err
	})
}

func (a *agent) kill() {
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait() // killed
}

// until polls a condition that the world offers no event for.
func (a *agent) until(what string, f func() error) {
	a.t.Helper()
	node.Eventually(a.t, soon, what, f)
}

// put writes the manifest of a pod, remove removes it.
func (a *agent) put(name string) {
	a.t.Helper()
	manifest := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  containers:\n"+
		"  - {name: a, image: busybox, command: [sleep, infinity]}\n"+
		"  - {name: b, image: busybox, command: [sleep, infinity]}\n", name)
	must.OK(a.t, os.WriteFile(filepath.Join(a.pods, name+".yaml"), []byte(manifest), 0o600))
}

func (a *agent) remove(name string) {
	a.t.Helper()
	must.OK(a.t, os.Remove(filepath.Join(a.pods, name+".yaml")))
}

// journal returns all events, as the agent's files hold them.
func (a *agent) journal() []string {
	a.t.Helper()
	out, err := exec.Command(a.program, "observe", "--journal", a.root, "-o", "json").Output()
	must.OK(a.t, err)
	var all []string
	for line := range strings.Lines(string(out)) {
		all = append(all, identity(line))
	}
	return all
}

// identity returns what an event is known by.
func identity(line string) string {
	var f messages.Flat
	if err := json.Unmarshal([]byte(line), &f); err != nil || f.Seq == 0 {
		return "not an event: " + line
	}
	return fmt.Sprintf("%s %s %s", f.Position(), f.Author, f.Event)
}

// wire leads a client to the agent, and can be cut.
type wire struct {
	l    net.Listener
	to   string
	mu   sync.Mutex
	live []net.Conn
	cuts int
	shut bool
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	w := &wire{l: l, to: to}
	t.Cleanup(func() { l.Close(); w.cut() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.lead(c)
		}
	}()
	return w
}

func (w *wire) lead(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer s.Close()
	w.mu.Lock()
	if w.shut {
		w.mu.Unlock()
		return
	}
	w.live = append(w.live, c, s)
	w.mu.Unlock()
	arrived := make(chan struct{}, 1)
	go func() {
		holdRequests(s, c, arrived)
		s.Close()
	}()
	_, _ = io.Copy(io.MultiWriter(c, arrival(arrived)), s)
}

// held bounds how long a request for the past waits for live events to come before it.
const held = 300 * time.Millisecond

// holdRequests copies what a client sends. A request for the past waits until something live has arrived, so that the
// client gets it twice: live, and from the past.
func holdRequests(to io.Writer, from io.Reader, arrived <-chan struct{}) {
	for b := make([]byte, 64<<10); ; {
		n, err := from.Read(b)
		before, request := b[:n], []byte(nil)
		if i := bytes.Index(before, []byte("PUB journalet.")); i >= 0 {
			before, request = b[:i], b[i:n]
		}
		_, werr := to.Write(before)
		if request != nil {
			select {
			case <-arrived:
			case <-time.After(held):
			}
			_, werr = to.Write(request)
		}
		if err != nil || werr != nil {
			return
		}
	}
}

// arrival reports messages of a server.
type arrival chan<- struct{}

func (a arrival) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("MSG event.")) {
		select {
		case a <- struct{}{}:
		default:
		}
	}
	return len(b), nil
}

// block cuts the wire, and lets no connection through until it is called with false.
func (w *wire) block(shut bool) {
	w.mu.Lock()
	w.shut = shut
	w.mu.Unlock()
	if shut {
		w.cut()
	}
}

// cut ends all connections, wherever in a message they are.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.live {
		c.Close()
	}
	w.cuts += len(w.live) / 2
	w.live = nil
}

// client is a client that runs.
type client struct {
	name string
	wire *wire
	mu   sync.Mutex
	seen []string
}

func (a *agent) follow(name, tools string) *client {
	a.t.Helper()
	c := &client{name: name, wire: newWire(a.t, a.address)}
	env, command := programs[name](tools)
	server := c.wire.l.Addr().String()
	if name == "go" || name == "nats-cli" {
		server = "nats://" + server
	}
	key := filepath.Join(a.root, "bus/credentials/observer.nk")
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], server, token, key)...)
	group(cmd)
	cmd.Env = append(os.Environ(), env...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	must.OK(a.t, err)
	must.OK(a.t, cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			c.mu.Lock()
			c.seen = append(c.seen, identity(lines.Text()))
			c.mu.Unlock()
		}
	}()
	a.t.Cleanup(func() {
		cancel()
		<-read
		_ = cmd.Wait() // killed
		if a.t.Failed() {
			a.t.Logf("%s: %s", name, tail(errs.String()))
		}
	})
	return c
}

func tail(s string) string { return s[max(len(s)-2000, 0):] }

func (c *client) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

// has returns an error unless the client has seen an event.
func (c *client) has(event string) error {
	all := c.all()
	if !slices.Contains(all, event) {
		return fmt.Errorf("%s has seen %d events, and not %s", c.name, len(all), event)
	}
	return nil
}

// compare reports how what a client has seen differs from the journal.
func (c *client) compare(t *testing.T, want []string) {
	t.Helper()
	got := c.all()
	for i, event := range want {
		if i == len(got) || got[i] != event {
			t.Errorf("%s: event %d of %d is %q, want %q", c.name, i+1, len(got), got[i:min(i+1, len(got))], event)
			return
		}
	}
	t.Logf("%s: %d events over %d cuts", c.name, len(got), c.wire.cuts)
}

func TestClientsSeeEveryEventOnceOverCutsAndRestarts(t *testing.T) {
	dir := tools(t)
	build(t, filepath.Join(dir, "observe-go"), "./go")
	a := newAgent(t)
	a.put("first")
	var clients []*client
	for name := range programs {
		clients = append(clients, a.follow(name, dir))
	}
	for _, c := range clients {
		a.until("the first event", func() error { return c.has("1.1.0 agent/0 agent_started") })
	}
	random := rand.New(rand.NewPCG(1, 1))
	for i := range rounds {
		before := len(a.journal())
		for n := range podsPerRound {
			a.put(fmt.Sprintf("pod-%d-%d", i, n))
			if i > 0 {
				a.remove(fmt.Sprintf("pod-%d-%d", i-1, n))
			}
		}
		// Somewhere in the middle of the pods' starts.
		least := random.IntN(60)
		if i == rounds/2 {
			least = severalPages
		}
		for _, c := range clients {
			c.wire.block(least == severalPages)
		}
		a.until("events", func() error {
			if n := len(a.journal()) - before; n < least {
				a.put(fmt.Sprintf("more-%d", n))
				return fmt.Errorf("%d new events of %d", n, least)
			}
			return nil
		})
		if i%5 == 4 {
			a.kill()
			a.start()
		}
		for _, c := range clients {
			c.wire.block(false)
			if random.IntN(2) == 0 {
				c.wire.cut()
			}
		}
	}
	a.put("last")
	a.until("the last pod to run", func() error {
		out, err := exec.Command(a.program, "pod", "last", "-o", "json", "--root-dir", a.root).Output()
		if err == nil && !strings.Contains(string(out), `"phase": "Running"`) {
			err = fmt.Errorf("it does not: %s", out)
		}
		return err
	})
	want := a.journal()
	for _, c := range clients {
		a.until("the last event", func() error { return c.has(want[len(want)-1]) })
		c.compare(t, want)
	}
}
