//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/node"
)

// refused runs an agent that must not start, and returns what it says.
func refused(t *testing.T, args []string) string {
	t.Helper()
	r := node.Run(t, "", nil, nil, setup.Program, args...)
	code := r.Ended(t)
	text := r.Text()
	if code <= 0 {
		t.Errorf("an agent that cannot start ended with %d:\n%s", code, text)
	}
	return text
}

func TestARootDirectoryThatCannotBeWrittenIsNamed(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	// Root writes anywhere but to a read-only mount.
	if err := os.MkdirAll(a.Root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", a.Root, "tmpfs", unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	a.AtTheEnd(func() { _ = unix.Unmount(a.Root, unix.MNT_DETACH) })
	if text := refused(t, a.Args()); !strings.Contains(text, "root directory "+a.Root) || !strings.Contains(text, "read-only") ||
		!strings.Contains(text, "--root-dir") {
		t.Errorf("it says:\n%s", text)
	}
}

func TestARootDirectoryServesOneAgent(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("good", idle))
	a.pod("good", "ready", ready)
	before := a.fingerprint()
	if text := refused(t, a.Args()); !strings.Contains(text, fmt.Sprintf("pid %d ", a.Process.Cmd.Process.Pid)) || !strings.Contains(text, "--root-dir") {
		t.Errorf("it names no pid:\n%s", text)
	}
	if n := a.journal.count(named("agent_started")); n != 1 {
		t.Errorf("the journal tells of %d starts", n)
	}
	if now := a.fingerprint(); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("the second agent changed %v to %v", before, now)
	}
	// The first one still answers.
	if _, errs, code := a.CLI("pods"); code != 0 {
		t.Errorf("`journalet pods` ended with %d: %s", code, errs)
	}
}

func TestASimulatedRuntimeShowsTheSameScreensToAnyUser(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	a := newAgent(t)
	a.Endpoint = "sim://"
	if err := chownAll(a.Dir, nobody); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(setup.Program), 0o755); err != nil {
		t.Fatal(err)
	}
	a.User = &syscall.Credential{Uid: nobody, Gid: nobody}
	a.Put("web.yaml", manifest(newPod("web", idle)))
	a.start()
	a.Process.Expect(t, "simulated")
	a.pod("web", "ready", ready)
	out, errs, code := a.CLI("pods")
	if code != 0 || !strings.Contains(out, "web-"+a.Node) || !strings.Contains(out, "Running") {
		t.Errorf("`journalet pods` ended with %d:\n%s%s", code, out, errs)
	}
	out, errs, code = a.CLI("pod", "web-"+a.Node)
	if code != 0 || !strings.Contains(out, "Running") {
		t.Errorf("`journalet pod` ended with %d:\n%s%s", code, out, errs)
	}
	info, err := a.Client.Info(t.Context())
	if err != nil || !info.Simulated {
		t.Errorf("the agent tells of itself: %+v, %v", info, err)
	}
	if n := len(a.sandboxes()); n != 0 {
		t.Errorf("%d sandboxes are on the real runtime", n)
	}
	a.Verified()
}

func chownAll(dir string, to int) error {
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, to, to)
	})
}

func TestANodeTakesNoMoreThanItHas(t *testing.T) {
	t.Parallel()
	a := started(t, nil, "--max-pods", "2")
	for _, pod := range []struct{ name, reason string }{{"greedy", "OutOfcpu"}, {"first", ""}, {"port-taken", "NodePorts"}, {"second", ""}, {"third", "OutOfpods"}} {
		a.Put(pod.name+".yaml", manifest(newPod(pod.name, idle, demands(pod.name))))
		if pod.reason == "" {
			a.pod(pod.name, "ready", ready)
			continue
		}
		p := a.pod(pod.name, "refused", phaseFailed)
		if p.Status.Reason != pod.reason || p.Status.Message == "" || len(p.Status.ContainerStatuses) > 0 && container(p, "main").ContainerID != "" {
			t.Errorf("%s is refused as %+v", pod.name, p.Status)
		}
	}
	if n := len(a.sandboxes()); n != 2 {
		t.Errorf("%d sandboxes are there, want 2", n)
	}
}
