//go:build chaos

package chaos

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// lastRelease is the release that nodes run today. Its commit is beside its promises.
const lastRelease = "v0.1.0"

// TestReleaseIsUpgradedAndDowngradedWhilePodsChurn replaces the last release by this version, that by the last release,
// and so on, as a package does: stop, other program, start. This version continues the journal of the release. The
// release refuses what it does not know, and runs the pods on with a journal of its own, as docs/UPGRADE.md says.
func TestReleaseIsUpgradedAndDowngradedWhilePodsChurn(t *testing.T) {
	r := choices(t)
	old := released(t, lastRelease) // before the agent: its directory outlives it
	a := newAgent(t)
	this := a.Program
	a.Program = old
	c, before := newChurn(a, r, length{12, 30}.now())
	c.fill()
	n, refused := roundsOr(length{2, 10}), 0
	for i := range n {
		c.runFor(time.Duration(r.Int64N(int64(lateKill))))
		a.recovered(c.wanted, before)
		ready := a.readySince()
		a.Stop()
		a.Program = this
		a.checkUpgrade(this)
		a.Start()
		a.recovered(c.wanted, before)
		if now := a.readySince(); !maps.Equal(ready, now) {
			t.Errorf("after upgrade %d stable pods are ready since\n%v\nand were since\n%v", i+1, now, ready)
		}
		c.runFor(time.Duration(r.Int64N(int64(lateKill))))
		a.Stop()
		a.Program = old
		if !a.continues() {
			refused++
			a.Disconnect()
			must.OK(t, os.Rename(filepath.Join(a.Root, "bus"), filepath.Join(a.Root, fmt.Sprint("bus.newer.", i))))
			a.Start()
		}
		a.Connect()
	}
	a.recovered(c.wanted, before)
	t.Logf("%d upgrades, of %d ways back %d with another journal, pods: %s", n, n, refused, c)
}

// announced are the decisions that this version makes otherwise than the last release, as CHANGELOG.md says under
// "Decides otherwise than 0.1.0". Of each actor only the first is shown.
var announced = regexp.MustCompile(`(?m)^ *record .*: (orphan_confirmed\.grace: none recorded, ` +
	`|orphan_found\.(namespace|name): "" recorded, ` +
	`|pod_finished\.restarts_go_on: false recorded, ` +
	`|decision \d+: call_withdrawn recorded, call_requested now` +
	`|decision \d+: pod_terminated recorded, pod_terminating now).*\n`)

// checkUpgrade does what docs/UPGRADE.md says to do before an upgrade to a program.
func (a *agent) checkUpgrade(program string) {
	a.T.Helper()
	out, err := exec.CommandContext(a.T.Context(), program, "replay", "--check", "--journal", a.Root).CombinedOutput()
	others := regexp.MustCompile(`(?m)^ *record .*\n`).FindAllString(announced.ReplaceAllString(string(out), ""), -1)
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 3 || len(others) > 0) {
		a.T.Errorf("the check before an upgrade: %v\n%s", err, out)
	}
}

// continues starts the agent and reports whether it continues the journal. If it refuses, it says what it does not know
// and what to do.
func (a *agent) continues() bool {
	a.T.Helper()
	a.Spawn()
	node.Eventually(a.T, node.Soon, "the agent to start or to refuse", func() error {
		if a.Process.Running() && !strings.Contains(a.Process.Text(), "journalet started") {
			return errors.New("it does neither")
		}
		return nil
	})
	if a.Process.Running() {
		return true
	}
	const refusal = "a newer version wrote it"
	if code, text := a.Process.Ended(a.T), a.Process.Tail(); code != 1 || !strings.Contains(text, refusal) {
		a.T.Fatalf("the agent ended with %d and not with 1 and %q:\n%s", code, refusal, text)
	}
	return false
}

// readySince returns since when the stable pods are ready, by name.
func (a *agent) readySince() map[string]string {
	a.T.Helper()
	pods, err := a.Pods()
	must.OK(a.T, err)
	since := map[string]string{}
	for _, p := range pods {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && strings.HasPrefix(p.Name, stablePrefix) {
				since[p.Name] = fmt.Sprint(c.Status, " ", c.LastTransitionTime.UTC())
			}
		}
	}
	return since
}

// released builds the program of a release from this repository's history.
func released(t *testing.T, version string) string {
	t.Helper()
	const root = "../.."
	commit, err := os.ReadFile(filepath.Join(root, "test/promises/released", version, "commit"))
	must.OK(t, err)
	dir := t.TempDir()
	program := filepath.Join(dir, "journalet")
	script := `set -e; mkdir "$1/tree"; git archive "$2" | tar -x -C "$1/tree"; cd "$1/tree"
go build -buildvcs=false -trimpath -o "$1/journalet" ./cmd/journalet`
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script, "build", dir, strings.TrimSpace(string(commit)))
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v; in a shallow clone `git fetch --unshallow` brings its commit\n%s", version, err, out)
	}
	return program
}
