//go:build integration

package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// close makes the hub's images private.
func (h *hub) close(password string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.password = password
}

// pullSecret is a Secret as `kubectl create secret docker-registry` writes it.
func (h *hub) pullSecret(name, password string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\ntype: kubernetes.io/dockerconfigjson\n"+
		`stringData: {.dockerconfigjson: '{"auths": {%q: {"username": "robot", "password": %q}}}'}`+"\n",
		name, h.host, password)
}

func withPullSecrets(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, name := range names {
			p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
		}
	}
}

func TestPrivateImageRunsOnlyWithItsCredentials(t *testing.T) {
	t.Parallel()
	const password, private = "integration-hunter2", "private:1"
	h := newHub(t)
	full := h.image(private)
	h.push(full, idlerLayer(t))
	h.close(password)
	secrets := t.TempDir()
	for name, pass := range map[string]string{"right": password, "copy": password, "wrong": "integration-wrong"} {
		writeFile(t, filepath.Join(secrets, name+".yaml"), h.pullSecret(name, pass))
	}
	pod := func(name string, policy corev1.PullPolicy, names ...string) *corev1.Pod {
		return newPod(name, "", runs(full, policy), withPullSecrets(names...))
	}
	refused := func(a *agent, name string, texts ...string) {
		t.Helper()
		p := a.pod(name, "is refused", waiting("main", "ImagePullBackOff"))
		message := container(p, "main").State.Waiting.Message
		for _, text := range append(texts, "ErrImagePull") {
			if !strings.Contains(message, text) {
				t.Errorf("%s waits with %q, want %q in it", name, message, text)
			}
		}
		if strings.Contains(message, "integration-") {
			t.Errorf("%s waits with %q, which holds a credential", name, message)
		}
	}
	a := newAgent(t, "--objects-path", secrets)
	a.put(pod("none", corev1.PullIfNotPresent))
	a.start()
	refused(a, "none")
	a.put(pod("wrong", corev1.PullIfNotPresent, "missing", "wrong"))
	refused(a, "wrong", "credentials tried: 1", `secret "missing" not found`)

	a.put(pod("right", corev1.PullIfNotPresent, "wrong", "right"))
	a.pod("right", "runs", ready)
	requests := h.manifestRequests(private)
	a.put(pod("copy", corev1.PullIfNotPresent, "copy"))
	a.pod("copy", "runs with the same credential in another Secret", ready)
	a.put(pod("again", corev1.PullNever, "right"))
	a.pod("again", "runs with the same Secret", ready)
	if n := h.manifestRequests(private); n != requests {
		t.Errorf("%d requests for the manifest, then %d", requests, n)
	}
	// The image is on the node by now.
	a.put(pod("later", corev1.PullIfNotPresent))
	refused(a, "later")
	a.put(pod("never", corev1.PullNever, "wrong"))
	a.pod("never", "may not have the image", waiting("main", "ErrImageNeverPull"))
	before := a.fingerprint()
	a.crash()
	a.put(pod("after", corev1.PullIfNotPresent))
	refused(a, "after")
	a.put(pod("onemore", corev1.PullNever, "right"))
	a.pod("onemore", "runs with the same Secret", ready)
	a.kept(before, "a crash of the agent")
}
