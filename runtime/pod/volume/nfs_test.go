package volume

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/pod/nfs"
	"github.com/journalet/journalet/test/fakenfs"
	"github.com/journalet/journalet/test/must"
)

// nfsRig is a driver whose mount(8) and umount(8) are the server's.
func nfsRig(t *testing.T) (*Driver, *fakenfs.Server) {
	t.Helper()
	s := fakenfs.New(t)
	must.OK(t, os.WriteFile(filepath.Join(s.Export("data"), "file"), []byte("kept"), 0o600))
	d := New(Options{
		RootDir: t.TempDir(), PodLogDir: t.TempDir(), ContainerLogDir: t.TempDir(),
		NFS: nfs.New(nfs.Options{
			Mount: filepath.Join(s.Dir, "mount"), Umount: filepath.Join(s.Dir, "umount"), Helpers: []string{s.Dir},
			MountTimeout: time.Minute, UnmountTimeout: 100 * time.Millisecond, ForceTimeout: time.Minute,
		}),
	})
	t.Cleanup(func() {
		points, err := d.mounts.below(d.opts.RootDir)
		must.OK(t, err)
		slices.Reverse(points)
		for _, p := range points {
			must.OK(t, unix.Unmount(p.path, unix.MNT_DETACH))
		}
	})
	return d, s
}

func nfsVolume(name, path string) corev1.Volume {
	return volumeOf(name, corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "files.example.com", Path: path}})
}

// mountsBelow returns the file systems that are mounted for the pod.
func mountsBelow(t *testing.T, d *Driver) []string {
	t.Helper()
	points, err := d.mounts.below(d.PodDir("u1"))
	must.OK(t, err)
	var all []string
	for _, p := range points {
		rel, err := filepath.Rel(d.PodDir("u1"), p.path)
		must.OK(t, err)
		all = append(all, rel)
	}
	slices.Sort(all)
	return all
}

func TestExportsAreMountedForTheirPodAndEachHasItsOutcome(t *testing.T) {
	d, s := nfsRig(t)
	pod := podWith(nfsVolume("files", "/data"), nfsVolume("none", "/none"), nfsVolume("wrong", "data"),
		emptyDir("tmp", "", ""))
	for range 2 { // also after a crash: nothing is mounted twice
		outcomes := d.SetUp(t.Context(), pod, nil)
		got := outcomesOf(outcomes)
		if got["files"]+got["tmp"] != "" || !strings.Contains(got["none"], "access denied by server") ||
			!strings.Contains(got["wrong"], "is not absolute") {
			t.Fatalf("got %q", got)
		}
		for _, o := range outcomes {
			if o.GetMessage() != "" && o.GetRetryable() != (o.GetName() == "none") {
				t.Errorf("%v", o)
			}
		}
	}
	if got := mountsBelow(t, d); !slices.Equal(got, []string{"volumes/kubernetes.io~nfs/files"}) {
		t.Errorf("mounts %v", got)
	}
	path, err := d.Path(pod, "files")
	must.OK(t, err)
	if b, err := os.ReadFile(filepath.Join(path, "file")); err != nil || string(b) != "kept" {
		t.Errorf("the volume has %q, %v", b, err)
	}
	if d.Relabels(pod, "files") || !d.Relabels(pod, "tmp") {
		t.Error("an export gets the pod's SELinux label, or another volume does not")
	}
	at, err := d.MountSubPath(pod, "main", 0, "files", "a/b")
	must.OK(t, err)
	must.OK(t, os.WriteFile(filepath.Join(at, "f"), nil, 0o600))
	if _, err := os.Stat(filepath.Join(s.Export("data"), "a/b/f")); err != nil {
		t.Errorf("the subPath shows another directory: %v", err)
	}

	recorded := []Recorded{{UID: "u1", Manifest: pod, SetUp: []string{"files"}}}
	found, err := d.Reconcile(recorded, "boot")
	if must.OK(t, err); len(found.Lost) > 0 {
		t.Errorf("lost: %v", found.Lost)
	}
	must.OK(t, clean(t.Context(), d, "u1", "default", "web"))
	if b, err := os.ReadFile(filepath.Join(s.Export("data"), "file")); err != nil || string(b) != "kept" {
		t.Errorf("after the pod the export has %q, %v", b, err)
	}
	if _, err := os.Stat(d.PodDir("u1")); !os.IsNotExist(err) {
		t.Errorf("the pod's directory is left: %v", err)
	}
	found, err = d.Reconcile(recorded, "boot")
	if must.OK(t, err); len(found.Lost) != 1 {
		t.Errorf("lost: %v", found.Lost)
	}
}

func TestAnExportInUseHoldsUpTheEndOfItsPodOnly(t *testing.T) {
	d, _ := nfsRig(t)
	pod := podWith(nfsVolume("files", "/data"), nfsVolume("other", "/data"))
	if got := outcomesOf(d.SetUp(t.Context(), pod, nil)); got["files"]+got["other"] != "" {
		t.Fatalf("got %q", got)
	}
	path, err := d.Path(pod, "files")
	must.OK(t, err)
	f, err := os.Open(filepath.Join(path, "file"))
	must.OK(t, err)
	outcomes, err := d.TearDown(t.Context(), "u1")
	must.OK(t, err)
	got := outcomesOf(outcomes)
	if !strings.Contains(got["files"], "is in use by process ") || !strings.Contains(got["files"], "an open file") {
		t.Errorf("got %q", got["files"])
	}
	if got["other"] != "" {
		t.Errorf("got %q", got["other"])
	}
	if got := mountsBelow(t, d); !slices.Equal(got, []string{"volumes/kubernetes.io~nfs/files"}) {
		t.Errorf("mounts %v", got)
	}
	must.OK(t, f.Close())
	must.OK(t, clean(t.Context(), d, "u1", "default", "web"))
}

func TestAnExportWhoseServerIsAwayIsUnmountedByForce(t *testing.T) {
	d, s := nfsRig(t)
	pod := podWith(nfsVolume("files", "/data"), nfsVolume("other", "/data"))
	if got := outcomesOf(d.SetUp(t.Context(), pod, nil)); got["files"]+got["other"] != "" {
		t.Fatalf("got %q", got)
	}
	s.SetAway(true)
	must.OK(t, clean(t.Context(), d, "u1", "default", "web"))
	if got := mountsBelow(t, d); len(got) > 0 {
		t.Errorf("mounts %v", got)
	}
}

// What is mounted below an export by others is not removed, and neither is anything through the export.
func TestMountsOfOthersInAnExportHoldItUp(t *testing.T) {
	d, s := nfsRig(t)
	must.OK(t, os.Mkdir(filepath.Join(s.Export("data"), "dir"), 0o700))
	pod := podWith(nfsVolume("files", "/data"))
	d.SetUp(t.Context(), pod, nil)
	path, err := d.Path(pod, "files")
	must.OK(t, err)
	must.OK(t, unix.Mount("tmpfs", filepath.Join(path, "dir"), "tmpfs", 0, ""))
	outcomes, err := d.TearDown(t.Context(), "u1")
	must.OK(t, err)
	if got := outcomesOf(outcomes)["files"]; !strings.Contains(got, "1 mounts are left") {
		t.Errorf("got %q", got)
	}
	must.OK(t, unix.Unmount(filepath.Join(path, "dir"), 0))
	must.OK(t, clean(t.Context(), d, "u1", "default", "web"))
	if _, err := os.Stat(filepath.Join(s.Export("data"), "file")); err != nil {
		t.Error(err)
	}
}

func TestTheKernelsOwnMountsInAnExportAreItsOwn(t *testing.T) {
	d := &Driver{opts: Options{RootDir: "/root"}}
	td := &tearDown{Driver: d, uid: "u1"}
	for path, want := range map[string]struct {
		fsType, name string
		ours         bool
	}{
		"volumes/kubernetes.io~nfs/files":       {"nfs4", "files", true},
		"volumes/kubernetes.io~nfs/files/a/b":   {"nfs4", "", false},
		"volumes/kubernetes.io~nfs/files/tmp":   {"tmpfs", "files", false},
		"volumes/kubernetes.io~empty-dir/a/nfs": {"nfs4", "a", false},
	} {
		p := mountPoint{path: filepath.Join(d.PodDir("u1"), path), fsType: want.fsType}
		if name, ours := td.volumeOf(p); name != want.name || ours != want.ours {
			t.Errorf("%s is of volume %q, ours %v", path, name, ours)
		}
	}
}
