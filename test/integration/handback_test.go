//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/kubeletstate"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/test/must"
)

// After a hand-back the next agent begins without a journal, as in any kubelet's place, and no container notices. It is
// not parallel: in a kubelet's place an agent takes over what other tests run without an agent's mark.
func TestNodeThatWasHandedBackIsTakenOverOnceMore(t *testing.T) {
	a := newAgent(t)
	must.OK(t, os.Mkdir(a.Root, 0o700))
	_, err := kubeletstate.Write(a.Root, kubeletstate.Given{}) // as each kubelet leaves it
	must.OK(t, err)
	a.put(newPod("stays", "test -e /v/second && { "+idle+"; }; touch /v/second; exit 1", with(shell("other", idle)),
		scratch, func(p *corev1.Pod) {
			p.UID = "6f0a5a3e-8d1c-4a55-9f4e-1c52cf6b7a11" // so a kubelet gives it no other
		}))
	a.start()
	before := a.pod("stays", "ready after a restart", restarted)
	flags := append([]string{"handback"}, a.Args()[1:]...)
	if _, errs, code := a.CLI(flags...); code != 1 || !strings.Contains(errs, "stop it first") {
		t.Errorf("beside a running agent it ends with %d and %q", code, errs)
	}
	a.Stop()
	a.Disconnect()
	for range 2 {
		out, errs, code := a.CLI(flags...)
		if code != 0 || !strings.Contains(out, "1 pod: 1 kept") || !strings.Contains(out, "journal: ") {
			t.Fatalf("it ends with %d:\n%s%s", code, out, errs)
		}
	}
	a.start()
	after := a.pod("stays", "ready", ready)
	for i, c := range after.Status.ContainerStatuses {
		was := before.Status.ContainerStatuses[i]
		if c.ContainerID != was.ContainerID || c.RestartCount != was.RestartCount ||
			!c.State.Running.StartedAt.Equal(&was.State.Running.StartedAt) {
			t.Errorf("container %s was %s, %d restarts, and is %s, %d restarts", c.Name, was.ContainerID, was.RestartCount,
				c.ContainerID, c.RestartCount)
		}
	}
	a.wantSandboxes(1)
	out, errs, code := a.CLI("why", "stays-"+a.Node, "--journal", filepath.Join(a.Root, own.HandedBack))
	if code != 0 || !strings.Contains(out, "was started: restart 1") {
		t.Errorf("why of the journal before ends with %d:\n%s%s", code, out, errs)
	}
	a.Verified()
}
