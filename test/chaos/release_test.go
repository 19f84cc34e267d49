//go:build chaos

package chaos

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
)

// lastRelease is the release that nodes run today. Its commit is beside its promises.
const lastRelease = "v0.1.0"

// TestReleaseIsUpgradedAndDowngradedWhilePodsChurn replaces the last release by this version, that by the last release,
// and so on, as a package does: stop, other program, start. Each of them continues the journal of the other.
func TestReleaseIsUpgradedAndDowngradedWhilePodsChurn(t *testing.T) {
	r := choices(t)
	old := released(t, lastRelease) // before the agent: its directory outlives it
	a := newAgent(t)
	programs := []string{old, a.Program}
	a.Program = old
	c, before := newChurn(a, r, length{12, 30}.now())
	ready := a.readySince()
	c.fill()
	n := roundsOr(length{4, 20})
	for i := range n {
		c.runFor(time.Duration(r.Int64N(int64(lateKill))))
		a.Stop()
		a.Program = programs[(i+1)%2]
		if i%2 == 0 { // what docs/UPGRADE.md says to do before
			out, err := exec.CommandContext(t.Context(), a.Program, "replay", "--check", "--journal", a.Root).CombinedOutput()
			if err != nil {
				t.Errorf("the check before upgrade %d: %v\n%s", i/2+1, err, out)
			}
		}
		a.Spawn()
		a.Process.Expect(t, "journalet started")
	}
	a.Connect()
	t.Logf("%d changes of the program, pods: %s", n, c)
	a.recovered(c.wanted, before)
	if now := a.readySince(); !maps.Equal(ready, now) {
		t.Errorf("stable pods are ready since\n%v\nand were since\n%v", now, ready)
	}
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
