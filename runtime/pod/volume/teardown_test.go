package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// mountTableOf returns the lines of the mount table that are below dir.
func mountTableOf(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	must.OK(t, err)
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, " "+dir) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// messages returns the message of each volume that failed.
func messagesOf(outcomes []*journaletv1.VolumeOutcome) map[string]string {
	out := map[string]string{}
	for _, o := range outcomes {
		if o.GetMessage() != "" {
			out[o.GetName()] = o.GetMessage()
		}
	}
	return out
}

func bind(t *testing.T, from, to string) {
	t.Helper()
	must.OK(t, os.MkdirAll(to, 0o750))
	must.OK(t, unix.Mount(from, to, "", unix.MS_BIND, ""))
}

func TestTearDownLeavesNothing(t *testing.T) {
	d, _, dir := newKernelTest(t)
	host := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(host, "f"), nil, 0o600))
	pod := podWith(emptyDir("disk", "", ""), emptyDir("mem", corev1.StorageMediumMemory, "1Mi"),
		secretVolume("keys", "keys"), configMapVolume("conf", "conf"), hostPath(host, corev1.HostPathDirectory))
	must.OK(t, setUp(t, d, pod))
	mem := pathOf(t, d, pod, "mem")
	must.OK(t, d.mounts.mount(mem, fileSystem{kind: tmpfs})) // twice, as after a crash in the middle
	must.OK(t, os.Mkdir(filepath.Join(mem, "sub"), 0o700))
	bind(t, filepath.Join(mem, "sub"), filepath.Join(dir, "pods/u1/volume-subpaths/mem/c/0"))
	bind(t, host, filepath.Join(dir, "pods/u1/volume-subpaths/h/c/1"))
	must.OK(t, os.WriteFile(filepath.Join(dir, "pods/u1/volume-subpaths/disk"), nil, 0o600)) // no directory
	outcomes, err := d.TearDown(t.Context(), "u1")
	must.OK(t, err)
	var torn []string
	for _, o := range outcomes {
		torn = append(torn, o.GetName()+o.GetMessage())
	}
	if got := strings.Join(torn, " "); got != "conf disk h keys mem" {
		t.Errorf("torn down: %s", got)
	}
	if left := mountTableOf(t, dir); left != "" {
		t.Errorf("mounts are left: %s", left)
	}
	for _, name := range []string{volumesDir, subpathsDir} {
		if _, err := os.Lstat(filepath.Join(dir, "pods/u1", name)); !os.IsNotExist(err) {
			t.Errorf("%s is left", name)
		}
	}
	if _, err := os.Lstat(filepath.Join(host, "f")); err != nil {
		t.Error("what a hostPath leads to is gone")
	}
	if outcomes, err := d.TearDown(t.Context(), "u1"); err != nil || len(outcomes) > 0 {
		t.Errorf("again: %v, %v", outcomes, err)
	}
}

func TestBusyVolumeIsReportedWithItsHolder(t *testing.T) {
	d, _, dir := newKernelTest(t)
	pod := podWith(emptyDir("cwd", corev1.StorageMediumMemory, ""), emptyDir("file", corev1.StorageMediumMemory, ""),
		secretVolume("keys", "keys"))
	must.OK(t, setUp(t, d, pod))
	sleeper := exec.Command("sleep", "1000")
	sleeper.Dir = pathOf(t, d, pod, "cwd")
	must.OK(t, sleeper.Start())
	t.Cleanup(func() { _, _ = sleeper.Process.Kill(), sleeper.Wait() })
	held, err := os.Create(filepath.Join(pathOf(t, d, pod, "file"), "f"))
	must.OK(t, err)
	outcomes, err := d.TearDown(t.Context(), "u1")
	must.OK(t, err)
	failed := messagesOf(outcomes)
	for name, holder := range map[string]string{
		"cwd":  fmt.Sprintf("in use by process %d (sleep, its working directory)", sleeper.Process.Pid),
		"file": fmt.Sprintf("in use by process %d (exe, an open file)", os.Getpid()),
	} {
		if !strings.Contains(failed[name], holder) || !strings.Contains(failed[name], name+"\" : ") {
			t.Errorf("volume %s: %s", name, failed[name])
		}
	}
	if len(failed) != 2 || len(outcomes) != 3 {
		t.Errorf("outcomes %v", outcomes)
	}
	if table := mountTableOf(t, dir); strings.Count(table, "\n") != 2 {
		t.Errorf("mounts: %s", table)
	}
	_, _ = sleeper.Process.Kill(), sleeper.Wait()
	must.OK(t, errors.Join(held.Close(), clean(t.Context(), d, "u1", "default", "web")))
}

// What a container propagated to the host, or an operator mounted, is not the agent's to unmount, and nothing is
// removed through it.
func TestMountsOfOthersStayWithTheirVolume(t *testing.T) {
	d, _, dir := newKernelTest(t)
	memory := t.TempDir() // its file system is of the kind that the agent mounts, too
	must.OK(t, unix.Mount("tmpfs", memory, "tmpfs", 0, ""))
	t.Cleanup(func() { must.OK(t, unix.Unmount(memory, 0)) })
	precious := filepath.Join(memory, "precious")
	must.OK(t, os.Mkdir(precious, 0o700))
	must.OK(t, os.WriteFile(filepath.Join(precious, "f"), nil, 0o600))
	pod := podWith(emptyDir("disk", "", ""), emptyDir("over", "", ""), emptyDir("mem", corev1.StorageMediumMemory, ""),
		secretVolume("keys", "keys"))
	must.OK(t, setUp(t, d, pod))
	at := []string{
		filepath.Join(pathOf(t, d, pod, "disk"), "deep/inner"), pathOf(t, d, pod, "over"),
		filepath.Join(pathOf(t, d, pod, "mem"), "inner"),
	}
	for _, path := range at {
		bind(t, precious, path)
	}
	t.Cleanup(func() {
		for _, path := range at {
			must.OK(t, unix.Unmount(path, 0))
		}
		must.OK(t, clean(context.Background(), d, "u1", "default", "web"))
	})
	outcomes, err := d.Clean(t.Context(), "u1", "default", "web")
	must.OK(t, err)
	failed := messagesOf(outcomes)
	for i, name := range []string{"disk", "over", "mem"} {
		if !strings.Contains(failed[name], at[i]) || !strings.Contains(failed[name], "unmount them") {
			t.Errorf("volume %s: %q", name, failed[name])
		}
	}
	if len(failed) != 3 || len(outcomes) != 4 {
		t.Errorf("outcomes %v", outcomes)
	}
	if _, err := os.Lstat(filepath.Join(precious, "f")); err != nil {
		t.Error("removed through a mount")
	}
	if table := mountTableOf(t, dir); strings.Count(table, "\n") != 4 {
		t.Errorf("mounts: %s", table)
	}
}

// A mount that the table does not show when it is read, because it comes later.
func TestNothingIsRemovedThroughAMountThatComesLater(t *testing.T) {
	d, _, _ := newKernelTest(t)
	precious := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(precious, "f"), nil, 0o600))
	pod := podWith(emptyDir("disk", "", ""))
	must.OK(t, setUp(t, d, pod))
	inner := filepath.Join(pathOf(t, d, pod, "disk"), "inner")
	bind(t, precious, inner)
	d.mounts = &fakeMounts{}
	outcomes, err := d.TearDown(t.Context(), "u1")
	must.OK(t, err)
	if failed := messagesOf(outcomes); !strings.Contains(failed["disk"], "a mount point") {
		t.Errorf("outcomes %v", outcomes)
	}
	if _, err := os.Lstat(filepath.Join(precious, "f")); err != nil {
		t.Error("removed through a mount")
	}
	d.mounts = kernelMounter{}
	must.OK(t, unix.Unmount(inner, 0))
}

func TestChildMountsGoBeforeTheirParents(t *testing.T) {
	dir := t.TempDir()
	outer, inner := filepath.Join(dir, "a"), filepath.Join(dir, "a/b")
	must.OK(t, os.Mkdir(outer, 0o700))
	var m kernelMounter
	must.OK(t, m.mount(outer, fileSystem{kind: tmpfs}))
	must.OK(t, os.Mkdir(inner, 0o700))
	must.OK(t, m.mount(inner, fileSystem{kind: tmpfs, sizeBytes: 1 << 20}))
	points, err := m.below(dir)
	must.OK(t, err)
	if len(points) != 2 || points[0].path != outer || points[1].path != inner || points[1].fsType != tmpfs {
		t.Errorf("mounts %v", points)
	}
	must.OK(t, errors.Join(m.unmount(inner), m.unmount(outer)))
}

// A privileged container mounts over a volume that is set up, to have its files written elsewhere.
func TestNothingIsWrittenThroughAMount(t *testing.T) {
	d, s, _ := newKernelTest(t)
	precious := t.TempDir()
	pod := podWith(configMapVolume("conf", "conf"))
	must.OK(t, setUp(t, d, pod))
	path := pathOf(t, d, pod, "conf")
	bind(t, precious, path)
	s.configMaps["conf"].Data["a"] = "new"
	failed := messagesOf(d.SetUp(t.Context(), pod, nil))
	must.OK(t, unix.Unmount(path, 0))
	if left := names(t, precious); !strings.Contains(failed["conf"], "is a mount of another kind") || len(left) > 0 {
		t.Errorf("%q, written elsewhere: %v", failed["conf"], left)
	}
	must.OK(t, setUp(t, d, pod))
	expectFiles(t, path, map[string]string{"a": "new", "b": "B", "bin": "\x00\x01"})
}
