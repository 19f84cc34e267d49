//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
	"github.com/journalet/journalet/test/terminal"
)

// restartsOf returns how often the containers of a pod have restarted.
func restartsOf(p *corev1.Pod) map[string]int32 {
	out := map[string]int32{}
	for _, c := range p.Status.ContainerStatuses {
		out[c.Name] = c.RestartCount
	}
	return out
}

// twoContainers starts a pod with two containers that end at SIGTERM.
func twoContainers(t *testing.T) *agent {
	t.Helper()
	a := started(t, manifests(newPod("web", idle, with(shell("side", idle)))))
	a.pod("web", "ready", ready)
	return a
}

func TestRestartInATerminal(t *testing.T) {
	t.Parallel()
	a := twoContainers(t)
	name := a.podNow("web").Name
	for i, c := range []struct {
		args string
		code int
		text string
		want map[string]int32
	}{
		{"restart web/side", 0, "container side of pod default/" + name + " restarted", map[string]int32{"side": 1}},
		{"restart web", 0, "pod default/" + name + " restarted", map[string]int32{"main": 1, "side": 2}},
		{"restart default/web -c main", 0, "container main of pod", map[string]int32{"main": 2, "side": 2}},
		{"restart web/none", 1, "none", map[string]int32{"main": 2, "side": 2}},
		{"restart nobody", 6, "not found", map[string]int32{"main": 2, "side": 2}},
	} {
		x := terminal.Run(t, command(a, strings.Fields(c.args)...))
		x.Expect(c.text)
		if code := x.End(); code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.args, code, c.code)
		}
		// The command returns when what it has requested holds: nothing is waited for here.
		got := restartsOf(a.podNow("web"))
		for container, n := range c.want {
			if got[container] != n {
				t.Errorf("%d: after %s %s has restarted %d times, want %d", i, c.args, container, got[container], n)
			}
		}
	}
	a.Verified()
}

func TestDrainAndUncordonInATerminal(t *testing.T) {
	t.Parallel()
	high := int32(1000)
	a := started(t, manifests(
		newPod("slow", "trap 'while test ! -e /v/end; do sleep 0.1; done; exit 0' TERM; echo trapped; "+
			"while :; do sleep 0.1; done", scratch,
			func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(300)) }),
		newPod("high", idle, func(p *corev1.Pod) { p.Spec.Priority = &high })))
	pods := a.pods("two pods ready", allReady(2))
	slow := pods["slow"].Name
	a.logged(pods["slow"], "main", "trapped")

	x := terminal.Run(t, command(a, "drain"))
	x.Resize(120, 24)
	x.Expect("ENDING")
	x.Expect("default/" + slow)
	x.Expect("stop container main")
	x.Expect("1 wait for those")
	screen := terminal.Show(x.Text(), 120, 24).String()
	if strings.Count(screen, "ENDING") != 1 || strings.Contains(screen, "default/"+pods["high"].Name) {
		t.Errorf("the picture of what it waits for:\n%s", screen)
	}
	x.Signal(syscall.SIGINT)
	x.Expect("the drain continues")
	if code := x.End(); code == 0 {
		t.Error("an interrupted drain ends with 0")
	}
	x = terminal.Run(t, command(a, "drain", "--timeout", "5s"))
	x.Expect("not drained within 5s: it waits for pod default/" + slow + ", and 1 end after that; the drain continues")
	if code := x.End(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}

	x = terminal.Run(t, command(a, "drain"))
	x.Expect("default/" + slow)
	end := filepath.Join(a.Root, "pods", string(pods["slow"].UID), "volumes/kubernetes.io~empty-dir/v/end")
	must.OK(t, os.WriteFile(end, nil, 0o600))
	if code := x.End(); code != 0 {
		t.Errorf("exit code %d: %s", code, x.Text())
	}
	for name, p := range a.pods("reported", func(map[string]*corev1.Pod) bool { return true }) {
		if p.Status.Reason != "NodeDrained" {
			t.Errorf("%s is %s %s when the drain has ended", name, p.Status.Phase, p.Status.Reason)
		}
	}
	x = terminal.Run(t, command(a, "uncordon"))
	if code := x.End(); code != 0 || !strings.Contains(x.Text(), "uncordon") {
		t.Errorf("exit code %d: %s", code, x.Text())
	}
	a.pods("two pods ready", allReady(2))
	must.OK(t, os.WriteFile(end, nil, 0o600)) // or it takes its whole grace period at the end
	a.Verified()
}

func TestTopIsPaintedInPlace(t *testing.T) {
	t.Parallel()
	a := twoContainers(t)
	name := a.podNow("web").Name
	x := terminal.Run(t, command(a, "top", "-w", "--containers"))
	for range 3 {
		x.Expect("\x1b[H")
		x.Expect(name)
		x.Expect("side")
	}
	x.Expect("\x1b[J")
	screen := terminal.Show(x.Text(), 80, 24).String()
	if strings.Count(screen, "CPU(cores)") != 1 || strings.Count(screen, "side") != 1 {
		t.Errorf("the table is not painted in its place:\n%s", screen)
	}
	x.Type("\x03")
	x.End()
	a.Verified()
}

func TestResetInATerminal(t *testing.T) {
	t.Parallel()
	a := twoContainers(t)
	a.Stop()
	a.Disconnect()
	before := a.fingerprint()
	reset := func(more ...string) *terminal.Terminal {
		x := terminal.Run(t, command(a, a.resetFlags(more...)...))
		x.Resize(120, 40)
		return x
	}
	x := reset("--dry-run")
	x.Expect("in the order of their removal")
	x.Expect("Nothing was changed.")
	if code := x.End(); code != 0 {
		t.Errorf("--dry-run: exit code %d", code)
	}
	x = reset()
	x.Expect("Remove all this from node " + a.Node + "? Type y or the node's name: ")
	a.unchanged(before, "a reset that asks")
	x.Type("n\r")
	x.Expect("not confirmed: nothing was changed")
	if code := x.End(); code != 1 {
		t.Errorf("not confirmed: exit code %d", code)
	}
	a.unchanged(before, "a reset that was not confirmed")
	x = reset("--yes")
	x.Expect("Nothing of the agent is left.")
	if code := x.End(); code != 0 || strings.Contains(x.Text(), "?") {
		t.Errorf("--yes: exit code %d: %s", code, x.Text())
	}
	node.Eventually(t, settle, "nothing to be left", a.left)
	if _, err := os.Lstat(a.Root); !os.IsNotExist(err) {
		t.Errorf("the root directory: %v", err)
	}
}
