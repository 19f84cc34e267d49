//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"
)

const (
	podNameLabel       = "io.kubernetes.pod.name"
	podUIDLabel        = "io.kubernetes.pod.uid"
	podNamespaceLabel  = "io.kubernetes.pod.namespace"
	containerNameLabel = "io.kubernetes.container.name"
	// callTimeout bounds a question that a test puts to the runtime.
	callTimeout = 30 * time.Second
)

func bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), callTimeout)
}

// sandboxesOf are the sandboxes of one node's pods, whatever their state.
func sandboxesOf(t *testing.T, node string) []*cri.PodSandbox {
	t.Helper()
	ctx, cancel := bounded()
	defer cancel()
	r, err := runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var out []*cri.PodSandbox
	for _, s := range r.GetItems() {
		if strings.HasSuffix(s.GetLabels()[podNameLabel], "-"+node) {
			out = append(out, s)
		}
	}
	return out
}

// containersOf are the containers of one node's pods, dead ones too.
func containersOf(t *testing.T, node string) []*cri.Container {
	t.Helper()
	ctx, cancel := bounded()
	defer cancel()
	r, err := runtime.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var out []*cri.Container
	for _, c := range r.GetContainers() {
		if strings.HasSuffix(c.GetLabels()[podNameLabel], "-"+node) {
			out = append(out, c)
		}
	}
	return out
}

func containerStatus(t *testing.T, id string) *cri.ContainerStatus {
	t.Helper()
	ctx, cancel := bounded()
	defer cancel()
	r, err := runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: bareID(id)})
	if err != nil {
		t.Fatal(err)
	}
	return r.GetStatus()
}

// bareID takes the runtime's name off an id as a pod's status has it.
func bareID(id string) string {
	if _, bare, ok := strings.Cut(id, "://"); ok {
		return bare
	}
	return id
}

// execIn runs a command in a container and returns what it prints.
func execIn(t *testing.T, id string, command ...string) string {
	t.Helper()
	ctx, cancel := bounded()
	defer cancel()
	r, err := runtime.ExecSync(ctx, &cri.ExecSyncRequest{ContainerId: bareID(id), Cmd: command, Timeout: 10})
	if err != nil {
		t.Fatalf("%v in %s: %v", command, id, err)
	}
	if r.GetExitCode() != 0 {
		t.Fatalf("%v in %s ended with %d: %s%s", command, id, r.GetExitCode(), r.GetStdout(), r.GetStderr())
	}
	return string(r.GetStdout())
}

func stopContainer(t *testing.T, id string) {
	t.Helper()
	ctx, cancel := bounded()
	defer cancel()
	if _, err := runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: bareID(id)}); err != nil {
		t.Fatal(err)
	}
}

// removeSandbox clears away what a failed test left.
func removeSandbox(id string) {
	ctx, cancel := bounded()
	defer cancel()
	_, _ = runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id})
	_, _ = runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
}

// idle is a script that ends at once when it is told to.
const idle = "trap 'exit 0' TERM; sleep 100000 & wait"

// newPod is a pod of one container "main" that runs a script, with a grace period of 2 s.
func newPod(name, script string, change ...func(*corev1.Pod)) *corev1.Pod {
	grace := int64(2)
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []corev1.Container{shell("main", script)},
		},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func shell(name, script string) corev1.Container {
	return corev1.Container{
		Name: name, Image: testImage(), ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sh", "-c", script},
	}
}

func testImage() string {
	if image := os.Getenv(imageVariable); image != "" {
		return image
	}
	return defaultImage
}

// manifest is a pod as a file.
func manifest(p *corev1.Pod) string {
	b, err := yaml.Marshal(p)
	if err != nil {
		panic(err) // a typed pod
	}
	return string(b)
}

func onePod(name, script string, change ...func(*corev1.Pod)) map[string]string {
	return map[string]string{name + ".yaml": manifest(newPod(name, script, change...))}
}

func restarts(policy corev1.RestartPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.RestartPolicy = policy }
}

// container is the status of a pod's container, or an empty one. There need be no pod.
func container(p *corev1.Pod, name string) corev1.ContainerStatus {
	if p == nil {
		return corev1.ContainerStatus{}
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == name {
			return c
		}
	}
	return corev1.ContainerStatus{}
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// ready tells whether a pod and all its containers run.
func ready(p *corev1.Pod) bool {
	return p != nil && p.Status.Phase == corev1.PodRunning && condition(p, corev1.PodReady) == corev1.ConditionTrue
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
	a.t.Helper()
	files, err := filepath.Glob(filepath.Join(a.podLogs, p.Namespace+"_"+p.Name+"_"+string(p.UID), name, "*.log"))
	if err != nil {
		a.t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			a.t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

// logged waits for words in a container's log.
func (a *agent) logged(p *corev1.Pod, name, words string) {
	a.t.Helper()
	eventually(a.t, soon, fmt.Sprintf("%q in the log of %s", words, name), func() error {
		if log := a.log(p, name); !strings.Contains(log, words) {
			return fmt.Errorf("it holds %q", log)
		}
		return nil
	})
}
