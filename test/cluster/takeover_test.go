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

	"github.com/journalet/journalet/runtime/takeover/preview"
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
    resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
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

// taken is a node that a kubelet had.
type taken struct {
	*ours
	flags []string
}

// TestKubeletsNodeIsTakenOverAndHandedBack starts pods by a kubelet, ends it, starts the agent by its command line, and
// goes the way back. No container may notice.
func TestKubeletsNodeIsTakenOverAndHandedBack(t *testing.T) {
	n := &taken{ours: newOurs(t, Options{})}
	manifests := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(manifests, "static.yaml"), []byte(static), 0o600))
	n.node.Config = fmt.Sprintf("staticPodPath: %q", manifests)
	programs, err := Provide(t.Context(), Kubelet)
	must.OK(t, err)
	n.flags, err = n.KubeletFlags(n.node)
	must.OK(t, err)
	kubelet := filepath.Join(programs, string(Kubelet))
	must.OK(t, n.StartNode(t.Context(), n.node.Name, kubelet, n.flags...))
	n.kubectl(t, workload+"---"+beside, "apply", "-f", "-")
	n.kubectl(t, "", "rollout", "status", "deployment/web", "--timeout=60s")
	n.kubectl(t, "", "wait", "--for=condition=Ready", "pod/probed", "pod/static-ours", "--timeout=60s")

	n.all(t, n.shows(t, "adopt"), preview.TakenOver, 6)
	link := filepath.Join(t.TempDir(), "kubelet")
	must.OK(t, os.Symlink(n.program, link))
	t.Run("the agent takes over", func(t *testing.T) {
		for _, what := range n.changes(t, link, 1, 5, 7, 9, 11, 13) {
			if !strings.Contains(what, "static-ours") { // the agent does not know that it was ready
				t.Error(what)
			}
		}
	})
	n.returns(t, manifests)
	t.Run("the kubelet takes over", func(t *testing.T) {
		// A kubelet that starts shows each pod with a probe as not ready, and gives mirror pods another start time.
		t.Logf("not ready meanwhile: %d times", len(n.changes(t, kubelet)))
	})
	for _, name := range []string{"static.yaml", "later.yaml"} {
		must.OK(t, os.Remove(filepath.Join(manifests, name)))
	}
	n.deletes(t)
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
	if report.Safe() != (err == nil) || len(report.Problems) > 0 {
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
func (n *taken) returns(t *testing.T, manifests string) {
	later := strings.Replace(static, "{name: static,", "{name: later,", 1)
	file := filepath.Join(manifests, "later.yaml")
	must.OK(t, os.WriteFile(file, []byte(later), 0o600))
	n.kubectl(t, "", "wait", "--for=create", "pod/later-ours", "--timeout=60s")
	n.kubectl(t, "", "wait", "--for=condition=Ready", "pod/later-ours", "--timeout=60s")
	shown := n.shows(t, "handback")
	p := shown["later-ours"]
	if p.Outcome != preview.Restarts || !strings.Contains(strings.Join(p.Details, ""), p.UID) {
		t.Errorf("a static pod of the agent: %+v", p)
	}
	delete(shown, "later-ours")
	n.all(t, shown, preview.Kept, 5)
	given := strings.Replace(later, "{name: later,", "{name: later, uid: "+p.UID+",", 1)
	must.OK(t, os.WriteFile(file, []byte(given), 0o600))
	n.all(t, n.shows(t, "handback"), preview.Kept, 6)
}

// changes replaces the running program with another program, and returns which pods were not ready meanwhile. Before
// the other program may keep running, it is killed when it has written so many lines of its log, once for each number.
func (n *taken) changes(t *testing.T, program string, kills ...int) []string {
	t.Helper()
	before := n.whatRuns(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	unready := n.watchReadiness(ctx, t)
	must.OK(t, n.stop(processOf(n.node.Name)))
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
