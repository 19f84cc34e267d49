//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// Short names for what every test uses.
const idle = node.Idle

var (
	manifest   = node.Manifest
	scratch    = node.Scratch
	restarts   = node.Restarts
	container  = node.Container
	condition  = node.Condition
	ready      = node.Ready
	eventually = node.Eventually
)

func newPod(name, script string, change ...func(*corev1.Pod)) *corev1.Pod {
	return node.Pod(name, testImage(), script, change...)
}

func shell(name, script string) corev1.Container { return node.Shell(name, testImage(), script) }

// manifests returns a file for each pod, by file name.
func manifests(pods ...*corev1.Pod) map[string]string {
	out := map[string]string{}
	for _, p := range pods {
		out[p.Name+".yaml"] = manifest(p)
	}
	return out
}

func onePod(name, script string, change ...func(*corev1.Pod)) map[string]string {
	return manifests(newPod(name, script, change...))
}

// with adds containers to a pod.
func with(list ...corev1.Container) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, list...) }
}

// sandboxes returns the sandboxes of the agent's pods, in any state.
func (a *agent) sandboxes() []*cri.PodSandbox {
	a.T.Helper()
	sandboxes, _, err := a.OnRuntime()
	if err != nil {
		a.T.Fatal(err)
	}
	return sandboxes
}

// wantSandboxes checks how many sandboxes the agent's pods have.
func (a *agent) wantSandboxes(want int) {
	a.T.Helper()
	if n := len(a.sandboxes()); n != want {
		a.T.Errorf("the pods have %d sandboxes, want %d", n, want)
	}
}

// containers returns the containers of the agent's pods, in any state.
func (a *agent) containers() []*cri.Container {
	a.T.Helper()
	_, containers, err := a.OnRuntime()
	if err != nil {
		a.T.Fatal(err)
	}
	return containers
}

func containerStatus(t *testing.T, id string) *cri.ContainerStatus {
	t.Helper()
	s, err := setup.Runtime.Container(id)
	must.OK(t, err)
	return s
}

// stopSandbox stops a sandbox as another CRI client. Its own call may fail: the agent stops the dying sandbox too, and
// CNI may refuse to delete one network twice at once. So the caller waits for what follows a sandbox that ended.
func stopSandbox(t *testing.T, id string) {
	t.Helper()
	ctx, cancel := node.Bounded()
	defer cancel()
	if _, err := setup.Runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		t.Log("the stop of the sandbox:", err)
	}
}

// stopContainer stops a container as another CRI client.
func stopContainer(t *testing.T, id string) {
	t.Helper()
	ctx, cancel := node.Bounded()
	defer cancel()
	_, err := setup.Runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: node.BareID(id)})
	must.OK(t, err)
}

func phase(want corev1.PodPhase) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool { return p != nil && p.Status.Phase == want }
}

// restarted reports whether a pod is ready with its container "main" restarted.
func restarted(p *corev1.Pod) bool { return ready(p) && container(p, "main").RestartCount > 0 }

func waiting(name, reason string) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		w := container(p, name).State.Waiting
		return w != nil && w.Reason == reason
	}
}

func allReady(n int) func(map[string]*corev1.Pod) bool {
	return func(pods map[string]*corev1.Pod) bool {
		if len(pods) != n {
			return false
		}
		for _, p := range pods {
			if !ready(p) {
				return false
			}
		}
		return true
	}
}

// log returns a container's log of all its runs, as the runtime wrote it.
func (a *agent) log(p *corev1.Pod, name string) string {
	a.T.Helper()
	files, err := filepath.Glob(filepath.Join(a.PodLogs, p.Namespace+"_"+p.Name+"_"+string(p.UID), name, "*.log"))
	if err != nil {
		a.T.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		all.WriteString(readFile(a.T, f))
	}
	return all.String()
}

func readFile(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	must.OK(t, err)
	return string(b)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
}

// logged waits for words in a container's log.
func (a *agent) logged(p *corev1.Pod, name, words string) {
	a.T.Helper()
	eventually(a.T, node.Soon, fmt.Sprintf("%q in the log of %s", words, name), func() error {
		if log := a.log(p, name); !strings.Contains(log, words) {
			return fmt.Errorf("it holds %q", log)
		}
		return nil
	})
}
