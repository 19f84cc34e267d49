package persistentvolume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/runtime/pod/nfs"
	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/fakenfs"
	"github.com/journalet/journalet/test/must"
)

// exported makes a claim one of an NFS PersistentVolume whose export has a file, and returns the server.
func (r *rig) exported(claim string) *fakenfs.Server {
	r.t.Helper()
	s := fakenfs.New(r.t)
	must.OK(r.t, os.WriteFile(filepath.Join(s.Export("data"), "file"), []byte("kept"), 0o600))
	pv := r.volumes["pv-"+claim]
	pv.Spec.CSI, pv.Spec.NFS = nil, &corev1.NFSVolumeSource{Server: "files.example.com", Path: "/data"}
	r.mounter = nfs.New(nfs.Options{
		Mount: filepath.Join(s.Dir, "mount"), Umount: filepath.Join(s.Dir, "umount"), Helpers: []string{s.Dir},
		MountTimeout: time.Minute, UnmountTimeout: 100 * time.Millisecond, ForceTimeout: time.Minute,
	})
	r.restart("boot-1")
	return s
}

func TestAClaimedExportIsMountedForEachPod(t *testing.T) {
	r := newRig(t)
	v := r.claimed("data")
	s := r.exported("data")
	pv := r.volumes["pv-data"]
	pv.Spec.MountOptions = []string{"nfsvers=4.2", "hard"}
	pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	for _, uid := range []string{"p1", "p2"} {
		p := r.pod(uid, v)
		p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To(int64(1234))}
		must.OK(t, r.setUp(p))
		must.OK(t, r.setUp(p))
		r.reads(uid, v.Name)
	}
	if info, err := os.Stat(filepath.Join(s.Export("data"), "file")); err != nil || gid(info) == 1234 {
		t.Errorf("a file of the server has another group: %v", err)
	}
	if r.Relabels("p1", v.Name) {
		t.Error("files of the server get the pod's SELinux label")
	}
	if m, err := r.Measure(t.Context(), "p1", v.Name); err != nil || m.FS.Capacity == 0 || m.Bytes == 0 {
		t.Errorf("measured %+v, %v", m, err)
	}
	want := "files.example.com:/data /proc/self/fd/3 -o hard,nfsvers=4.2"
	if got := s.Mounts(); !slices.Equal(got, []string{want, want}) {
		t.Errorf("mounts %q", got)
	}

	path := filepath.Join(r.podDir("p1"), "pv-data")
	rec, err := r.readRecord(path)
	must.OK(t, err)
	rec.Stage, rec.Mounted = claimed, "" // a crash between the mount and its record
	must.OK(t, r.writeRecord(path, rec))
	r.restart("boot-1")
	if !r.Lost("p1", v.Name) || r.Lost("p2", v.Name) {
		t.Error("what is not recorded is not lost, or what is there is")
	}
	must.OK(t, r.setUp(r.pod("p1", v)))
	if all := fakecsi.Mounts(r.root); len(all) != 2 {
		t.Errorf("mounted are %v", all)
	}
	r.reboot()
	if !r.Lost("p2", v.Name) {
		t.Error("after a reboot nothing is lost")
	}
	must.OK(t, r.setUp(r.pod("p2", v)))
	s.SetAway(true)
	for _, uid := range []string{"p1", "p2"} {
		must.OK(t, r.tearDown(uid))
	}
	r.nothingLeft()
	r.expect()
	if b, err := os.ReadFile(filepath.Join(s.Export("data"), "file")); err != nil || string(b) != "kept" {
		t.Errorf("after its pods the export has %q, %v", b, err)
	}
}

func TestAnExportIsReadOnlyIfTheVolumeOrTheClaimSaysSo(t *testing.T) {
	for name, change := range map[string]func(*corev1.PersistentVolume, *corev1.Volume){
		"volume": func(pv *corev1.PersistentVolume, _ *corev1.Volume) { pv.Spec.NFS.ReadOnly = true },
		"claim":  func(_ *corev1.PersistentVolume, v *corev1.Volume) { v.PersistentVolumeClaim.ReadOnly = true },
		"annotation": func(pv *corev1.PersistentVolume, _ *corev1.Volume) {
			pv.Annotations = map[string]string{corev1.MountOptionAnnotation: "ro,hard"}
			pv.Spec.MountOptions = []string{"rw"}
		},
	} {
		r := newRig(t)
		v := r.claimed("data")
		r.exported("data")
		change(r.volumes["pv-data"], &v)
		must.OK(t, r.setUp(r.pod("p1", v)))
		path, err := r.Path("p1", v.Name)
		must.OK(t, err)
		if err := os.WriteFile(filepath.Join(path, "new"), nil, 0o600); !errors.Is(err, unix.EROFS) {
			t.Errorf("%s: %v", name, err)
		}
		must.OK(t, r.tearDown("p1"))
		r.nothingLeft()
	}
}

func TestAnExportThatCannotBeMountedSaysWhyAndLeavesNothing(t *testing.T) {
	block := corev1.PersistentVolumeBlock
	for want, change := range map[string]func(*fakenfs.Server, *corev1.PersistentVolumeSpec){
		"an export has no block device": func(_ *fakenfs.Server, s *corev1.PersistentVolumeSpec) { s.VolumeMode = &block },
		"access denied by server":       func(_ *fakenfs.Server, s *corev1.PersistentVolumeSpec) { s.NFS.Path = "/none" },
		"install the package nfs-common": func(s *fakenfs.Server, _ *corev1.PersistentVolumeSpec) {
			s.RemoveHelper()
		},
		"neither a host name nor an address": func(_ *fakenfs.Server, s *corev1.PersistentVolumeSpec) { s.NFS.Server = "-o" },
	} {
		r := newRig(t)
		v := r.claimed("data")
		change(r.exported("data"), &r.volumes["pv-data"].Spec)
		r.refuses(v, want)
	}
}

// Two pods with one export: the pod whose server is away holds up neither lock nor end of the other.
func TestAServerThatIsAwayHoldsUpItsPodOnly(t *testing.T) {
	r := newRig(t)
	v := r.claimed("data")
	s := r.exported("data")
	must.OK(t, r.setUp(r.pod("p1", v)))
	s.SetAway(true)
	waits := make(chan error, 1)
	p2 := r.pod("p2", v)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { waits <- r.SetUp(ctx, p2, &p2.Spec.Volumes[0]) }()
	must.Until(t, time.Minute, "the mount to hang", s.Hung)
	must.OK(t, r.tearDown("p1"))
	select {
	case err := <-waits:
		t.Errorf("the tear-down has waited for the mount of the other pod: %v", err)
		waits <- err
	default:
	}
	cancel()
	if err := <-waits; err == nil {
		t.Error("it was set up")
	}
	must.OK(t, r.tearDown("p2"))
	r.nothingLeft()
}
