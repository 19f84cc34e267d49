package load

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/sim"
	"github.com/journalet/journalet/test/criproxy"
	testnode "github.com/journalet/journalet/test/node"
)

const (
	// waitTimeout bounds every wait. It is no claim about performance.
	waitTimeout = 5 * time.Minute
	// pollEvery is the time between two polls of a condition without events.
	pollEvery = 10 * time.Millisecond
	// maxPods is the agent's --max-pods, above what any test needs.
	maxPods = 5000
)

// node is a simulated runtime, a manifest directory, and an agent that is started and killed.
type node struct {
	tb        testing.TB
	dir, pods string
	proxy     *criproxy.Proxy
	rt        *sim.Runtime
	cri       *grpc.ClientConn
	port      int
	cmd       *exec.Cmd

	inspections atomic.Int64 // lists of one pod's sandboxes

	mu sync.Mutex
	// running is the newest started generation of each pod, by the env variable GEN.
	running map[string]int
	since   map[string]time.Time
	changed chan struct{} // closed and replaced at each start
}

// newNode returns a node without an agent.
func newNode(tb testing.TB) *node {
	tb.Helper()
	// Not TempDir: its paths are too long for a socket.
	dir, err := os.MkdirTemp("", "load")
	if err != nil {
		tb.Fatal(err)
	}
	n := &node{
		tb: tb, dir: dir, pods: filepath.Join(dir, "pods"),
		running: map[string]int{}, since: map[string]time.Time{}, changed: make(chan struct{}),
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Mkdir(n.pods, 0o755); err != nil {
		tb.Fatal(err)
	}
	var refs []string
	for i := range images {
		refs = append(refs, imageOf(i))
	}
	n.rt = sim.New(sim.Options{Images: refs, Behaviour: n.started})
	tb.Cleanup(n.rt.Close)
	if n.cri, err = n.rt.Dial(); err != nil {
		tb.Fatal(err)
	}
	if n.proxy, err = criproxy.Serve(n.socket(), n.cri); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = n.proxy.Close() })
	n.proxy.Hold(n.count)
	n.port = testnode.Port(tb)
	tb.Cleanup(n.kill)
	return n
}

func (n *node) logPath() string { return filepath.Join(n.dir, "agent.log") }

// log returns the agent's log so far.
func (n *node) log() string {
	b, err := os.ReadFile(n.logPath())
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (n *node) socket() string { return filepath.Join(n.dir, "cri.sock") }

// count counts inspections. It holds no call.
func (n *node) count(method string, request []byte) <-chan struct{} {
	if method == cri.RuntimeService_ListPodSandbox_FullMethodName && len(request) > 0 {
		n.inspections.Add(1)
	}
	return nil
}

// started records the start of a container. Its process runs until it is stopped.
func (n *node) started(c *cri.ContainerConfig) (sim.Behaviour, bool) {
	name, gen := "", 0
	for _, e := range c.GetEnvs() {
		switch e.GetKey() {
		case "POD":
			name = string(e.GetValue())
		case "GEN":
			gen, _ = strconv.Atoi(string(e.GetValue()))
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running[name], n.since[name] = gen, time.Now()
	close(n.changed)
	n.changed = make(chan struct{})
	return sim.Behaviour{RunFor: sim.Forever}, true
}

// await blocks until ok is true for the newest started generations.
func (n *node) await(what string, ok func(running map[string]int) bool) {
	n.tb.Helper()
	late := time.After(waitTimeout)
	for {
		n.mu.Lock()
		done, changed := ok(n.running), n.changed
		n.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-late:
			n.mu.Lock()
			running := fmt.Sprint(n.running)
			n.mu.Unlock()
			n.tb.Fatalf("not within %s: %s; running are %s; the agent's log:\n%s", waitTimeout, what, running, tail(n.log()))
		}
	}
}

// at returns when a pod was started last.
func (n *node) at(name string) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.since[name]
}

// put writes a manifest atomically. The next generation updates a pod with a UID in its manifest, and replaces one
// without.
func (n *node) put(name, uid string, gen int) { n.putWith(name, uid, gen, corev1.RestartPolicyAlways) }

// putWith writes a manifest whose containers are restarted by another rule.
func (n *node) putWith(name, uid string, gen int, restart corev1.RestartPolicy) {
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"uid":%q},"spec":{`+
		`"terminationGracePeriodSeconds":1,"restartPolicy":%q,"containers":[{"name":"main","image":%q,"env":[`+
		`{"name":"POD","value":%q},{"name":"GEN","value":"%d"}]}]}}`, name, uid, restart, imageOf(gen), name, gen)
	draft, path := filepath.Join(n.pods, "."+name), filepath.Join(n.pods, name+".yaml")
	if err := os.WriteFile(draft, []byte(text), 0o600); err != nil {
		n.tb.Fatal(err)
	}
	if err := os.Rename(draft, path); err != nil {
		n.tb.Fatal(err)
	}
}

// imageOf returns a generation's image. Each differs from the one before: of all updates only that replaces a
// container.
func imageOf(gen int) string { return fmt.Sprintf("registry.example/app:%d", gen%images) }

// images counts the runtime's images. The tests pull none.
const images = 100

// run writes the manifests of so many pods, starts the agent and waits until all of them run.
func (n *node) run(pods int) {
	n.tb.Helper()
	for i := range pods {
		n.put(podName(i), "", 0)
	}
	n.start()
	n.awaitAll(pods)
}

// awaitAll waits until so many pods run, and the agent is at rest.
func (n *node) awaitAll(pods int) {
	n.tb.Helper()
	n.await(fmt.Sprintf("%d pods running", pods), func(r map[string]int) bool { return len(r) == pods })
	n.settle(pods)
}

func podName(i int) string { return fmt.Sprintf("p%04d", i) }

// start starts the agent, with profiles on; it does not wait.
func (n *node) start() { n.startWith("--profiling") }

func (n *node) startWith(more ...string) {
	n.tb.Helper()
	log, err := os.Create(n.logPath())
	if err != nil {
		n.tb.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	n.cmd = exec.Command(program, append([]string{
		"run", "--root-dir", filepath.Join(n.dir, "root"), "--static-pod-path", n.pods, "--hostname-override", "load",
		"--container-runtime-endpoint", "unix://" + n.socket(),
		"--healthz-port", strconv.Itoa(n.port), "--max-pods", strconv.Itoa(maxPods),
		"--pod-log-dir", filepath.Join(n.dir, "logs"), "--container-log-dir", filepath.Join(n.dir, "links"),
		"--resolv-conf", "", "--eviction-hard", "memory.available<0%", "--allow-beside-kubelet", "--cgroups-per-qos=false",
	}, more...)...)
	n.cmd.Stderr, n.cmd.Stdout = log, log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		n.tb.Fatal(err)
	}
}

// kill ends the agent with SIGKILL, as a crash does.
func (n *node) kill() {
	if n.cmd != nil {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
		n.cmd = nil
	}
}

// until polls a condition.
func (n *node) until(what string, ok func() (bool, string)) {
	n.tb.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	late := time.After(waitTimeout)
	for {
		done, got := ok()
		if done {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			n.tb.Fatalf("not within %s: %s; it is %s; the agent's log:\n%s", waitTimeout, what, got, tail(n.log()))
		}
	}
}

// settle waits until the runtime has exactly one ready sandbox and one running container for each pod, and the journal
// does not grow.
func (n *node) settle(pods int) {
	n.tb.Helper()
	rt := cri.NewRuntimeServiceClient(n.cri)
	n.until(fmt.Sprintf("exactly %d pods on the runtime", pods), func() (bool, string) {
		s, err := rt.ListPodSandbox(n.tb.Context(), &cri.ListPodSandboxRequest{})
		if err != nil {
			n.tb.Fatal(err)
		}
		c, err := rt.ListContainers(n.tb.Context(), &cri.ListContainersRequest{})
		if err != nil {
			n.tb.Fatal(err)
		}
		ready, up := 0, 0
		for _, x := range s.GetItems() {
			if x.GetState() == cri.PodSandboxState_SANDBOX_READY {
				ready++
			}
		}
		for _, x := range c.GetContainers() {
			if x.GetState() == cri.ContainerState_CONTAINER_RUNNING {
				up++
			}
		}
		return ready == pods && up == pods && len(s.GetItems()) == pods,
			fmt.Sprintf("%d of %d sandboxes ready, %d containers running", ready, len(s.GetItems()), up)
	})
	last, same := -1, 0
	n.until("a journal that does not grow", func() (bool, string) {
		now := n.metric("journalet_journal_records_total")
		if now != last {
			last, same = now, 0
		}
		same++
		return same > restPolls, fmt.Sprintf("at %d records", now)
	})
	if lag, stopped := n.metric("journalet_mailbox_lagging"), n.metric("journalet_actors_quarantined"); lag+stopped > 0 {
		n.tb.Errorf("%d actors lag and %d are quarantined", lag, stopped)
	}
}

// restPolls counts the polls in a row that must find the journal's length unchanged. A hop takes less than 1 ms.
const restPolls = 30

// page reads one page of the agent's HTTP server, "" while the server does not respond.
func (n *node) page(path string) string {
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", n.port, path))
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return string(b)
}

func (n *node) metric(name string) int { return number(n.page("/metrics"), `(?m)^`+name+` (\S+)$`) }

// number returns the first group of an expression's first match, -1 without one.
func number(text, expr string) int {
	m := regexp.MustCompile(expr).FindStringSubmatch(text)
	if m == nil {
		return -1
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return -1
	}
	return int(f)
}

// footprint holds the agent's live heap after a collection, in bytes, its goroutines, and its resident memory, in
// bytes.
type footprint struct{ heap, goroutines, rss int }

func (n *node) footprint() footprint {
	n.tb.Helper()
	// Collect twice: a sync.Pool survives one collection.
	n.page("/debug/pprof/heap?gc=1")
	f := footprint{
		heap:       number(n.page("/debug/pprof/heap?gc=1&debug=1"), `(?m)^# HeapAlloc = (\d+)$`),
		goroutines: number(n.page("/debug/pprof/goroutine?debug=1"), `total (\d+)`),
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	if err != nil {
		n.tb.Fatal(err)
	}
	f.rss = number(string(b), `(?m)^VmRSS:\s+(\d+) kB$`) << 10
	if f.heap < 0 || f.goroutines < 0 || f.rss < 0 {
		n.tb.Fatalf("the agent does not report its footprint: %+v", f)
	}
	return f
}

func (f footprint) String() string {
	const mib = 1 << 20
	return fmt.Sprintf("heap %.1f MiB, %d goroutines, RSS %.0f MiB", float64(f.heap)/mib, f.goroutines, float64(f.rss)/mib)
}

func tail(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
