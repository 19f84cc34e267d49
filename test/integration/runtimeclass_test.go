//go:build integration

package integration

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages"
)

// otherHandler is the lab's second runtime handler: runc by another name.
const otherHandler = "test-handler"

func classText(handler string) string {
	return "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: sandboxed}\nhandler: " + handler +
		"\noverhead: {podFixed: {cpu: 10m, memory: 8Mi}}\n"
}

func TestPodRunsUnderTheHandlerOfItsRuntimeClass(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "classes.yaml")
	// The agent rereads the classes every second.
	config := filepath.Join(dir, "config.yaml")
	writeFile(t, config, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfileCheckFrequency: 1s\n")
	class := "sandboxed"
	pod := onePod("classy", idle, func(p *corev1.Pod) { p.Spec.RuntimeClassName = &class })
	a := started(t, pod, "--runtime-class-path", path, "--config", config)
	a.journal.wait(t, 0, settle, "the missing class", named("manifests_read", `"not-found"`, "sandboxed"))
	writeFile(t, path, classText(otherHandler))
	first := a.pod("classy", "ready", ready)
	if s := a.sandboxes(); len(s) != 1 || s[0].GetRuntimeHandler() != otherHandler {
		t.Errorf("its sandboxes are %v", s)
	}
	if got := first.Spec.Overhead.Cpu().MilliValue(); got != 10 {
		t.Errorf("its overhead is %d milli CPU", got)
	}
	before, after := a.fingerprint(), a.journal.last()
	// Another handler takes effect with the next sandbox.
	writeFile(t, path, classText("runc"))
	a.journal.wait(t, after, settle, "the changed class", func(f messages.Flat) bool { return f.Event == "pod_updated" })
	a.Stop()
	a.start()
	a.unchanged(before, "another handler")
	stopSandbox(t, a.sandboxes()[0].GetId())
	var next *cri.PodSandbox
	a.pod("classy", "ready in the next sandbox", func(p *corev1.Pod) bool {
		for _, s := range a.sandboxes() {
			if s.GetMetadata().GetAttempt() > 0 {
				next = s
			}
		}
		return next != nil && restarted(p)
	})
	if next.GetRuntimeHandler() != "runc" {
		t.Errorf("the next sandbox has the handler %q", next.GetRuntimeHandler())
	}
}
