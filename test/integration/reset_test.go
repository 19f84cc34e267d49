//go:build integration

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// resetFlags are the flags of the agent's run that a reset needs.
func (a *agent) resetFlags(more ...string) []string {
	return append([]string{"reset", "--container-runtime-endpoint", a.Endpoint, "--hostname-override", a.Node,
		"--pod-log-dir", a.PodLogs, "--container-log-dir", a.ContainerLogs, "--cgroup-root", "/" + a.CgroupRoot}, more...)
}

// reset runs `journalet reset`, which must end with this exit code and print all these texts.
func (a *agent) reset(code int, flags []string, texts ...string) {
	a.T.Helper()
	out, errs, got := a.CLI(a.resetFlags(flags...)...)
	for _, text := range texts {
		if !strings.Contains(out+errs, text) {
			a.T.Errorf("reset %v does not print %q", flags, text)
		}
	}
	if got != code {
		a.T.Errorf("reset %v ends with %d, want %d", flags, got, code)
	}
	if a.T.Failed() {
		a.T.Fatalf("it printed:\n%s%s", out, errs)
	}
}

// left returns what is left of an agent on the node: on the runtime, on the disk, mounts and cgroups.
func (a *agent) left() error {
	var left []error
	sandboxes, containers, err := a.OnRuntime()
	if len(sandboxes)+len(containers) > 0 {
		left = append(left, fmt.Errorf("%d sandboxes and %d containers", len(sandboxes), len(containers)))
	}
	for _, dir := range []string{a.Root, a.PodLogs, a.ContainerLogs} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			left = append(left, errors.New(filepath.Join(dir, e.Name())))
		}
	}
	if mounts := mountsBelow(a.T, a.Dir); mounts != "" {
		left = append(left, errors.New(mounts))
	}
	for _, c := range a.PodCgroups(true) {
		left = append(left, errors.New(c))
	}
	return errors.Join(append(left, err)...)
}

func TestResetLeavesNothingOfTheAgentAndAllOfOthers(t *testing.T) {
	t.Parallel()
	sandbox, id := foreignPod(t)
	a := newAgent(t)
	first, last := int32(-10), int32(1000)
	a.put(newPod("first", idle, func(p *corev1.Pod) {
		p.Spec.Priority = &first
		p.Spec.Volumes = []corev1.Volume{{Name: "mem", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
		}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "mem", MountPath: "/mem", SubPath: "part"}}
	}))
	a.put(newPod("last", idle, func(p *corev1.Pod) { p.Spec.Priority = &last }))
	a.put(newPod("ended", "exit 0", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }))
	a.start()
	a.pods("run", func(pods map[string]*corev1.Pod) bool {
		return pods["first"] != nil && ready(pods["first"]) && pods["last"] != nil && ready(pods["last"]) &&
			pods["ended"] != nil && pods["ended"].Status.Phase == corev1.PodSucceeded
	})
	eventually(t, settle, "the sandbox of the pod that has ended to be stopped", func() error {
		for _, s := range a.sandboxes() {
			is := strings.HasPrefix(s.GetLabels()[node.PodNameLabel], "ended-")
			if is && s.GetState() == cri.PodSandboxState_SANDBOX_READY {
				return errors.New("it is ready")
			}
		}
		return nil
	})
	a.reset(1, []string{"--yes"}, "an agent runs with root directory "+a.Root)
	a.Stop()
	a.Disconnect()
	before := a.fingerprint()
	a.reset(0, []string{"--dry-run"}, "first-"+a.Node, "Nothing was changed")
	// A file that the agent creates and that a reset does not know would be listed with the files of others.
	if out, _, _ := a.CLI(a.resetFlags("--dry-run")...); strings.Contains(out, "Not the agent's") {
		t.Errorf("the agent's own files count as others':\n%s", out)
	}
	a.reset(2, nil, "needs --yes")
	a.reset(1, []string{"--yes", "--container-runtime-endpoint", "unix:///nowhere.sock"}, "does not respond")
	a.unchanged(before, "a reset that does nothing")

	if out := a.onTerminal("no\n"); !strings.Contains(out, "not confirmed") {
		t.Errorf("without confirmation it prints\n%s", out)
	}
	a.unchanged(before, "a reset that was not confirmed")
	out := a.onTerminal(a.Node + "\n")
	x, y := strings.Index(out, "removed pod default/first"), strings.Index(out, "removed pod default/last")
	if x < 0 || y < x || !strings.Contains(out, "Nothing of the agent is left.") {
		t.Errorf("it prints\n%s", out)
	}
	if err := a.left(); err != nil {
		t.Errorf("left are:\n%v", err)
	}
	a.reset(0, []string{"--yes"}, "Nothing of an agent")
	if s := containerStatus(t, id); s.GetState() != cri.ContainerState_CONTAINER_RUNNING {
		t.Errorf("the container of another agent's sandbox %s is now %v", sandbox, s)
	}
}

// What cannot be removed stays with the journal, and the rest goes; a further reset removes it.
func TestResetContinuesAfterAFailureAndReportsIt(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	for _, name := range []string{"busy", "free"} {
		a.put(newPod(name, idle, func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{},
			}}}
		}))
	}
	a.start()
	a.pods("ready", allReady(2))
	uid := string(a.podNow("busy").UID)
	a.Stop()
	a.Disconnect()
	theirs := filepath.Join(a.Root, "pods", uid, "volumes/kubernetes.io~empty-dir/v/theirs")
	source := t.TempDir()
	must.OK(t, errors.Join(os.Mkdir(theirs, 0o700), os.WriteFile(filepath.Join(source, "data"), nil, 0o600),
		unix.Mount(source, theirs, "", unix.MS_BIND, "")))
	t.Cleanup(func() { _ = unix.Unmount(theirs, unix.MNT_DETACH) })
	a.reset(1, []string{"--yes"}, "Removed 1 pods", "Left: pod default/busy-"+a.Node, theirs)
	if _, err := os.Stat(filepath.Join(source, "data")); err != nil {
		t.Errorf("removed through the mount: %v", err)
	}
	must.OK(t, unix.Unmount(theirs, 0))
	a.reset(0, []string{"--yes", "--keep-journal"}, "Removed 1 pods", "The journal stays")
	if err := a.left(); err == nil || err.Error() != filepath.Join(a.Root, "bus") {
		t.Errorf("left are:\n%v\nwant the journal only", err)
	}
	a.reset(0, []string{"--yes"}, "Removed 0 pods")
	if err := a.left(); err != nil {
		t.Errorf("left are:\n%v", err)
	}
}

// onTerminal runs `journalet reset` in a terminal where a line is typed, and returns its output.
func (a *agent) onTerminal(typed string) string {
	a.T.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must.OK(a.T, err)
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must.OK(a.T, errors.Join(err, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must.OK(a.T, err)
	ctx, cancel := context.WithTimeout(a.T.Context(), settle)
	defer cancel()
	cmd := exec.CommandContext(ctx, a.Program, a.resetFlags("--root-dir", a.Root)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	_, err = io.WriteString(master, typed)
	must.OK(a.T, errors.Join(err, cmd.Start(), slave.Close()))
	var out bytes.Buffer
	_, _ = io.Copy(&out, master) // ends with an error when the last descriptor of the terminal is closed
	_ = cmd.Wait()               // its output says how it ended
	return out.String()
}
