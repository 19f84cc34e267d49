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

	"github.com/journalet/journalet/test/node"
)

// What every test says, in short.
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

func onePod(name, script string, change ...func(*corev1.Pod)) map[string]string {
	return map[string]string{name + ".yaml": manifest(newPod(name, script, change...))}
}

// sandboxes are those of the agent's pods, whatever their state.
func (a *agent) sandboxes() []*cri.PodSandbox {
	a.T.Helper()
	sandboxes, _, err := a.OnRuntime()
	if err != nil {
		a.T.Fatal(err)
	}
	return sandboxes
}

// containers are those of the agent's pods, dead ones too.
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
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stopContainer ends a container behind the agent's back.
func stopContainer(t *testing.T, id string) {
	t.Helper()
	ctx, cancel := node.Bounded()
	defer cancel()
	if _, err := setup.Runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: node.BareID(id)}); err != nil {
		t.Fatal(err)
	}
}

func phase(want corev1.PodPhase) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool { return p != nil && p.Status.Phase == want }
}

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

// log is a container's log, of all its runs, as the runtime wrote it.
func (a *agent) log(p *corev1.Pod, name string) string {
	a.T.Helper()
	files, err := filepath.Glob(filepath.Join(a.PodLogs, p.Namespace+"_"+p.Name+"_"+string(p.UID), name, "*.log"))
	if err != nil {
		a.T.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			a.T.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
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
