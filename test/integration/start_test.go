//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// failsToStart runs the agent, which must exit with an error that holds all words.
func (a *agent) failsToStart(words ...string) {
	a.T.Helper()
	r := node.Run(a.T, a.Dir, a.User, nil, setup.Program, a.Args()...)
	code, text := r.Ended(a.T), r.Text()
	missing := slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	if code <= 0 || missing {
		a.T.Errorf("the agent ended with %d, want an error with %q:\n%s", code, words, text)
	}
}

func TestReadOnlyRootDirectoryFailsTheStart(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	// Root writes anywhere but to a read-only mount.
	must.OK(t, os.MkdirAll(a.Root, 0o755))
	must.OK(t, unix.Mount("none", a.Root, "tmpfs", unix.MS_RDONLY, "mode=0700"))
	a.AtTheEnd(func() { _ = unix.Unmount(a.Root, unix.MNT_DETACH) })
	a.failsToStart("root directory "+a.Root, "read-only", "--root-dir")
}

func TestSecondAgentInARootDirectoryFailsToStart(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("good", idle))
	a.pod("good", "ready", ready)
	before := a.fingerprint()
	a.failsToStart(fmt.Sprintf("pid %d ", a.Process.Cmd.Process.Pid), "--root-dir")
	if n := a.journal.count(named("agent_started")); n != 1 {
		t.Errorf("the journal records %d starts", n)
	}
	a.unchanged(before, "the second agent")
	// The first one still serves requests.
	if _, errs, code := a.CLI("pods"); code != 0 {
		t.Errorf("`journalet pods` ended with %d: %s", code, errs)
	}
}

func TestSimulatedRuntimeNeedsNoRoot(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	a := newAgent(t)
	a.Endpoint = "sim://"
	must.OK(t, chownAll(a.Dir, nobody))
	must.OK(t, os.Chmod(filepath.Dir(setup.Program), 0o755))
	a.User = &syscall.Credential{Uid: nobody, Gid: nobody}
	a.put(newPod("web", idle))
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
		t.Errorf("the agent reports %+v, %v", info, err)
	}
	a.wantSandboxes(0)
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

func TestNodeRejectsPodsThatDoNotFit(t *testing.T) {
	t.Parallel()
	a := started(t, nil, "--max-pods", "2")
	for _, pod := range []struct{ name, reason string }{
		{"greedy", "OutOfcpu"}, {"first", ""}, {"port-taken", "NodePorts"}, {"second", ""}, {"third", "OutOfpods"},
	} {
		a.put(newPod(pod.name, idle, demands(pod.name)))
		if pod.reason == "" {
			a.pod(pod.name, "ready", ready)
			continue
		}
		p := a.pod(pod.name, "rejected", phase(corev1.PodFailed))
		if p.Status.Reason != pod.reason || p.Status.Message == "" || container(p, "main").ContainerID != "" {
			t.Errorf("%s is rejected as %+v", pod.name, p.Status)
		}
	}
	a.wantSandboxes(2)
}
