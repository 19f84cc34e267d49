//go:build cluster

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/journalet/journalet/runtime/plugins"
	"github.com/journalet/journalet/runtime/takeover/preview"
	"github.com/journalet/journalet/test/fakedra"
	"github.com/journalet/journalet/test/must"
)

// beside runs beside workload on the node that is taken over: a sidecar with hooks and all three probes, and a crash
// loop.
const beside = `
apiVersion: v1
kind: Pod
metadata: {name: probed, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: data, emptyDir: {}}, {name: memory, emptyDir: {medium: Memory}}]
  initContainers:
  - {name: init, image: "docker.io/library/busybox:1.36", command: [sh, -c, "echo begun >> /data/init"],
     volumeMounts: [{name: data, mountPath: /data}]}
  - {name: sidecar, image: "docker.io/library/busybox:1.36", command: [sleep, "100000"], restartPolicy: Always}
  containers:
  - name: web
    image: docker.io/library/busybox:1.36
    command: [sleep, "100000"]
    lifecycle: {postStart: {exec: {command: [sh, -c, "echo begun >> /data/hook"]}}}
    startupProbe: {exec: {command: ['true']}, periodSeconds: 1}
    livenessProbe: {exec: {command: ['true']}, periodSeconds: 1}
    readinessProbe: {exec: {command: ['true']}, periodSeconds: 5}
    resources: {requests: {memory: 16Mi}, limits: {memory: 64Mi}}
    volumeMounts: [{name: data, mountPath: /data}, {name: memory, mountPath: /memory}]
---
apiVersion: v1
kind: Pod
metadata: {name: crashes}
spec:
  containers: [{name: c, image: "docker.io/library/busybox:1.36", command: [sh, -c, "exit 3"]}]
`

const static = `
apiVersion: v1
kind: Pod
metadata: {name: static, labels: {app: web}}
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  terminationGracePeriodSeconds: 1
  volumes: [{name: data, emptyDir: {}}]
  containers:
  - name: c
    image: docker.io/library/busybox:1.36
    command: [sleep, "100000"]
    readinessProbe: {exec: {command: ['true']}, periodSeconds: 5}
    volumeMounts: [{name: data, mountPath: /data}]
`

// manager has the kubelet give containers whole CPUs, all but the first one.
const manager = "cpuManagerPolicy: static\nreservedSystemCPUs: '0'"

// holding are a pod that has a CPU for itself, one that requests most of the node's memory, and one that is resized.
const holding = `
apiVersion: v1
kind: Pod
metadata: {name: pinned, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: docker.io/library/busybox:1.36
    command: [sleep, "100000"]
    resources: {limits: {cpu: 1, memory: 16Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: holds, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: docker.io/library/busybox:1.36
    command: [sleep, "100000"]
    resources: {requests: {memory: MOST}}
---
apiVersion: v1
kind: Pod
metadata: {name: grows, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: docker.io/library/busybox:1.36
    command: [sleep, "100000"]
    resources: {requests: {memory: 16Mi}}
`

// taken is a node that a kubelet had.
type taken struct {
	*ours
	flags     []string
	kubelet   string // the program
	manifests string // the directory of static pods
	driver    *fakedra.Driver
}

// newTaken starts pods by a kubelet.
func newTaken(t *testing.T) *taken {
	t.Helper()
	n := &taken{ours: newOurs(t, Options{}), manifests: t.TempDir()}
	must.OK(t, os.WriteFile(filepath.Join(n.manifests, "static.yaml"), []byte(static), 0o600))
	// A kubelet ignores a field that does not exist; the agent refuses the manifest, and leaves alone what runs of it.
	misspelt := strings.NewReplacer("{name: static,", "{name: misspelt,", "  hostN", "  hostNetwrok: true\n  hostN")
	must.OK(t, os.WriteFile(filepath.Join(n.manifests, "misspelt.yaml"), []byte(misspelt.Replace(static)), 0o600))
	n.node.Config = fmt.Sprintf("staticPodPath: %q\n%s", n.manifests, manager)
	programs, err := Provide(t.Context(), Kubelet)
	must.OK(t, err)
	n.kubelet = filepath.Join(programs, string(Kubelet))
	n.flags, err = n.KubeletFlags(n.node)
	must.OK(t, err)
	must.OK(t, n.StartNode(t.Context(), n.node.Name, n.kubelet, n.flags...))
	n.kubectl(t, workload+"---"+beside, "apply", "-f", "-")
	n.kubectl(t, "", "rollout", "status", "deployment/web", "--timeout=60s")
	n.kubectl(t, "", "wait", "--for=condition=Ready", "pod/probed", "pod/static-ours", "pod/misspelt-ours",
		"--timeout=60s")
	n.hold(t)
	n.claim(t)
	return n
}

// hold starts the pods of holding, and resizes one to what the node does not have.
func (n *taken) hold(t *testing.T) {
	t.Helper()
	node, err := n.MustClient(t).CoreV1().Nodes().Get(t.Context(), n.node.Name, meta.GetOptions{})
	must.OK(t, err)
	most := fmt.Sprint(node.Status.Allocatable.Memory().Value() / 10 * 6)
	n.kubectl(t, strings.Replace(holding, "MOST", most, 1), "apply", "-f", "-")
	n.kubectl(t, "", "wait", "--for=condition=Ready", "pod/pinned", "pod/holds", "pod/grows", "--timeout=60s")
	n.kubectl(t, "", "patch", "pod", "grows", "--subresource=resize", "-p",
		`{"spec": {"containers": [{"name": "c", "resources": {"requests": {"memory": "`+most+`"}}}]}}`)
	n.held(t)
}

// held checks that the pods of holding have what the kubelet gave to them.
func (n *taken) held(t *testing.T) {
	t.Helper()
	n.kubectl(t, "", "wait", `--for=jsonpath={.status.conditions[?(@.type=="PodResizePending")].reason}=Deferred`,
		"pod/grows", "--timeout=60s")
	for what, want := range map[string]string{"allocatedResources": "16Mi", "resources.requests": "16Mi"} {
		path := "jsonpath={.status.containerStatuses[0]." + what + ".memory}"
		if out := n.kubectl(t, "", "get", "pod", "grows", "-o", path); out != want {
			t.Errorf("%s of the pod whose resize is deferred: %s, want %s", what, out, want)
		}
	}
	for pod, container := range map[string]string{"pinned": "c", "probed": "web"} {
		out := n.kubectl(t, "", "exec", pod, "-c", container, "--", "grep", "Cpus_allowed_list", "/proc/self/status")
		if first := strings.HasPrefix(strings.Fields(out)[1], "0"); first != (pod == "probed") {
			t.Errorf("pod %s: %s", pod, out)
		}
	}
}

// TestKubeletsNodeIsTakenOverAndHandedBack starts pods by a kubelet, ends it, starts the agent by its command line,
// goes the way back, and comes once more. No container may notice.
func TestKubeletsNodeIsTakenOverAndHandedBack(t *testing.T) {
	n := newTaken(t)
	shown := n.shows(t, "adopt")
	if p := shown["misspelt-ours"]; p.Outcome != preview.LeftAlone {
		t.Errorf("a static pod whose manifest is refused: %+v", p)
	}
	delete(shown, "misspelt-ours")
	n.all(t, shown, preview.TakenOver, 11)
	link := filepath.Join(t.TempDir(), "kubelet")
	must.OK(t, os.Symlink(n.program, link))
	t.Run("the agent takes over", func(t *testing.T) {
		n.keepsReady(t, n.changes(t, link, nil, 1, 5, 7, 9, 11, 13))
	})
	n.kubectl(t, "", "delete", "pod", "claimed", "--timeout=60s")
	n.startsClaimed(t) // a kubelet has to learn of a claim that the agent has had prepared
	n.returns(t)
	t.Run("the kubelet takes over", func(t *testing.T) {
		// A kubelet that starts shows each pod with a probe as not ready, and gives mirror pods another start time.
		t.Logf("not ready meanwhile: %d times", len(n.changes(t, n.kubelet, n.handsBack)))
		n.kubectl(t, "", "delete", "pod", "claimed", "--timeout=60s")
		n.removes(t, "later")
		n.holdsClaims(t, 1)
	})
	t.Run("the agent takes over again", func(t *testing.T) {
		n.keepsReady(t, n.changes(t, link, nil, 3))
		n.removes(t, "static")
		n.removes(t, "misspelt")
	})
	n.deletes(t)
	n.holdsClaims(t, 0)
}

// claim starts a DRA driver, and the pods of claimed.
func (n *taken) claim(t *testing.T) {
	t.Helper()
	n.offers(t)
	n.driver = &fakedra.Driver{Name: "gpu.example.com", Prepared: func(r *dra.NodePrepareResourcesResponse) {
		for _, c := range r.GetClaims() {
			c.Devices[0].CdiDeviceIds = nil // the machine has no such device
		}
	}}
	fakedra.Start(t, n.driver, filepath.Join(n.NodeDir(n.node.Name), "root", plugins.RegistryDir))
	// A kubelet that does not know the driver yet looks again at such a pod after a minute and more.
	eventually(t, func() error {
		if n.driver.Registered() == 0 {
			return errors.New("the kubelet has not registered the DRA driver")
		}
		return nil
	})
	n.startsClaimed(t)
}

// startsClaimed has the program that runs start the pods of claimed, unless they run.
func (n *taken) startsClaimed(t *testing.T) {
	t.Helper()
	both := claimed
	for _, name := range []string{"claimed", "extended"} {
		both = strings.Replace(both, "{name: "+name+"}", "{name: "+name+", labels: {app: web}}", 1)
	}
	n.kubectl(t, both, "apply", "-f", "-")
	n.kubectl(t, "", "wait", "--for=condition=Ready", "pod/claimed", "pod/extended", "--timeout=60s")
	n.holdsClaims(t, 2)
}

// holdsClaims waits until so many claims are prepared.
func (n *taken) holdsClaims(t *testing.T, want int) {
	t.Helper()
	eventually(t, func() error {
		if held := n.driver.Held(); len(held) != want {
			return fmt.Errorf("the claims %v are prepared, want %d", held, want)
		}
		return nil
	})
}

// keepsReady checks that no pod was not ready while the agent took over, but for the static pods: that they were ready
// the agent does not know.
func (n *taken) keepsReady(t *testing.T, unready []string) {
	t.Helper()
	for _, what := range unready {
		if !strings.Contains(what, "static-ours") {
			t.Error(what)
		}
	}
}

// removes removes a manifest, and waits until the program that runs has ended its pod.
func (n *taken) removes(t *testing.T, name string) {
	t.Helper()
	must.OK(t, os.Remove(filepath.Join(n.manifests, name+".yaml")))
	n.kubectl(t, "", "wait", "--for=delete", "pod/"+name+"-ours", "--timeout=60s")
}

// handsBack writes the kubelet's state files, as the stopped agent left its journal.
func (n *taken) handsBack(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), n.program, append([]string{"handback"}, n.flags...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("journalet handback: %s", out)
}

// shows returns what `journalet adopt` or `journalet handback` shows of the pods that run. Others are left by earlier
// runs of the lab, and nothing names them.
func (n *taken) shows(t *testing.T, command string) map[string]preview.Pod {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), n.program, append([]string{command, "--check", "-o", "json"}, n.flags...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var report preview.Report
	must.OK(t, json.Unmarshal(out, &report))
	if report.Safe() != (err == nil) || len(report.Problems) != 1 || !strings.Contains(report.Problems[0], "hostNetwrok") {
		t.Errorf("%v: %s", err, out)
	}
	pods := map[string]preview.Pod{}
	for _, p := range report.Pods {
		if p.Outcome != preview.Removed {
			pods[p.Name] = p
		}
	}
	return pods
}

// all checks that all pods that run have an outcome.
func (n *taken) all(t *testing.T, pods map[string]preview.Pod, want preview.Outcome, running int) {
	t.Helper()
	if len(pods) < running {
		t.Errorf("%d pods are shown, %d run", len(pods), running)
	}
	for name, p := range pods {
		if p.Outcome != want {
			t.Errorf("pod %s: %s %q", name, p.Outcome, p.Details)
		}
	}
}

// returns checks what is shown of the way back, and follows it for a static pod that the agent has started.
func (n *taken) returns(t *testing.T) {
	later := strings.Replace(static, "{name: static,", "{name: later,", 1)
	file := filepath.Join(n.manifests, "later.yaml")
	must.OK(t, os.WriteFile(file, []byte(later), 0o600))
	n.kubectl(t, "", "wait", "--for=create", "pod/later-ours", "--timeout=60s")
	n.kubectl(t, "", "wait", "--for=condition=Ready", "pod/later-ours", "--timeout=60s")
	shown := n.shows(t, "handback")
	p := shown["later-ours"]
	if p.Outcome != preview.Restarts || !strings.Contains(strings.Join(p.Details, ""), p.UID) {
		t.Errorf("a static pod of the agent: %+v", p)
	}
	delete(shown, "later-ours")
	n.all(t, shown, preview.Kept, 10)
	given := strings.Replace(later, "{name: later,", "{name: later, uid: "+p.UID+",", 1)
	must.OK(t, os.WriteFile(file, []byte(given), 0o600))
	n.all(t, n.shows(t, "handback"), preview.Kept, 11)
}

// changes replaces the running program with another program, and returns which pods were not ready meanwhile. between,
// if there is one, is carried out while neither runs. Before the other program may keep running, it is killed when it
// has written so many lines of its log, once for each number.
func (n *taken) changes(t *testing.T, program string, between func(*testing.T), kills ...int) []string {
	t.Helper()
	before := n.whatRuns(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	unready := n.watchReadiness(ctx, t)
	must.OK(t, n.stop(processOf(n.node.Name)))
	if between != nil {
		between(t)
	}
	for _, lines := range kills {
		n.kill(t, program, lines)
	}
	must.OK(t, n.StartNode(t.Context(), n.node.Name, program, n.flags...))
	// A new pod shows that it works, and that all that it does at its start has been done.
	n.kubectl(t, "", "run", "new", "--image", busybox, "--restart=Never", "--", "true")
	n.kubectl(t, "", "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/new", "--timeout=60s")
	n.kubectl(t, "", "delete", "pod", "new", "--timeout=60s")
	cancel()
	after := n.whatRuns(t)
	for what, was := range before {
		if after[what] != was {
			t.Errorf("%s: %s, was %s", what, after[what], was)
		}
	}
	for _, file := range []string{"/data/init", "/data/hook"} {
		if out := n.kubectl(t, "", "exec", "probed", "-c", "web", "--", "cat", file); out != "begun\n" {
			t.Errorf("%s is %q", file, out)
		}
	}
	n.held(t)
	return <-unready
}

// kill starts a program and kills it when it has written so many lines of its log.
func (n *taken) kill(t *testing.T, program string, lines int) {
	t.Helper()
	name := processOf(n.node.Name)
	written := func() int {
		text, err := os.ReadFile(n.log(name))
		must.OK(t, err)
		return strings.Count(string(text), "\n")
	}
	before := written()
	must.OK(t, n.spawn(name, program, n.flags...))
	eventually(t, func() error {
		if got := written() - before; got < lines {
			return fmt.Errorf("it has written %d lines, and not yet %d", got, lines)
		}
		return nil
	})
	t.Logf("killed after %d lines of its log", written()-before)
	must.OK(t, n.KillNode(n.node.Name))
}

// whatRuns returns what must not change: of each pod its UID and address, and its containers' ids, starts and restarts.
func (n *taken) whatRuns(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range n.pods(t) {
		out[p.Name] = fmt.Sprintf("%s on %s", p.UID, p.Status.PodIP)
		for _, c := range append(p.Status.ContainerStatuses, p.Status.InitContainerStatuses...) {
			out[p.Name+"/"+c.Name] = fmt.Sprintf("%s, %d restarts, %v", c.ContainerID, c.RestartCount, c.State)
		}
	}
	if len(out) < 10 {
		t.Fatalf("too little runs: %v", out)
	}
	return out
}

// watchReadiness sends, when ctx ends, which pods were not ready meanwhile, or not running.
func (n *taken) watchReadiness(ctx context.Context, t *testing.T) <-chan []string {
	t.Helper()
	w, err := n.MustClient(t).CoreV1().Pods("default").Watch(t.Context(), meta.ListOptions{LabelSelector: "app=web"})
	must.OK(t, err)
	out := make(chan []string, 1)
	go func() {
		defer w.Stop()
		var all []string
		for {
			select {
			case <-ctx.Done():
				out <- all
				return
			case e, open := <-w.ResultChan():
				if !open {
					out <- append(all, "the watch has ended")
					return
				}
				if p, ok := e.Object.(*core.Pod); ok && (e.Type == watch.Deleted || !isReady(p)) {
					all = append(all, fmt.Sprintf("%s of pod %s: %s, %s", e.Type, p.Name, p.Status.Phase, conditionsOf(p)))
				}
			}
		}
	}()
	return out
}

func isReady(p *core.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == core.PodReady {
			return c.Status == core.ConditionTrue && p.Status.Phase == core.PodRunning
		}
	}
	return false
}

func conditionsOf(p *core.Pod) string {
	var all []string
	for _, c := range p.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	return strings.Join(all, " ")
}
