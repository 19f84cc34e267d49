//go:build integration

package integration

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/bus"
)

// otherHandler is the lab's second handler: runc by another name.
const otherHandler = "other"

func classText(handler string) string {
	return "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: sandboxed}\nhandler: " + handler +
		"\noverhead: {podFixed: {cpu: 10m, memory: 8Mi}}\n"
}

func TestAPodOfARuntimeClassRunsUnderItsHandler(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "classes.yaml")
	// A reread a second, since nothing notifies of classes.
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfileCheckFrequency: 1s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	class := "sandboxed"
	pod := manifest(newPod("classy", idle, func(p *corev1.Pod) { p.Spec.RuntimeClassName = &class }))
	a := started(t, map[string]string{"classy.yaml": pod}, "--runtime-class-path", path, "--config", config)
	a.journal.wait(t, 0, settle, "the class being missed", named("manifests_read", `"not-found"`, "sandboxed"))
	if err := os.WriteFile(path, []byte(classText(otherHandler)), 0o600); err != nil {
		t.Fatal(err)
	}
	first := a.pod("classy", "ready", ready)
	if s := a.sandboxes(); len(s) != 1 || s[0].GetRuntimeHandler() != otherHandler {
		t.Errorf("its sandboxes are %v", s)
	}
	if got := first.Spec.Overhead.Cpu().MilliValue(); got != 10 {
		t.Errorf("its overhead is %d milli CPU", got)
	}
	before, after := a.fingerprint(), a.journal.last()
	// Another handler is for the next sandbox: what runs stays.
	if err := os.WriteFile(path, []byte(classText("runc")), 0o600); err != nil {
		t.Fatal(err)
	}
	a.journal.wait(t, after, settle, "the changed class", func(f bus.Flat) bool { return f.Event == "pod_updated" })
	a.Stop()
	a.start()
	if now := a.fingerprint(); !maps.Equal(before, now) {
		t.Errorf("another class changed what runs:\n%v\n%v", before, now)
	}
	// Its sandbox dead, the next one has the new handler.
	if _, err := setup.Runtime.StopPodSandbox(t.Context(), &cri.StopPodSandboxRequest{PodSandboxId: a.sandboxes()[0].GetId()}); err != nil {
		t.Fatal(err)
	}
	a.pod("classy", "ready in the next sandbox", func(p *corev1.Pod) bool {
		return ready(p) && p.Status.ContainerStatuses[0].RestartCount > 0
	})
	for _, s := range a.sandboxes() {
		if s.GetMetadata().GetAttempt() == 1 && s.GetRuntimeHandler() != "runc" {
			t.Errorf("the next sandbox has the handler %q", s.GetRuntimeHandler())
		}
	}
}
