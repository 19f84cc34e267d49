package persistentvolume

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/runtime/pod/disk"
	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/fakedisk"
	"github.com/journalet/journalet/test/must"
)

// onDisk makes a claim one of a local volume whose path is a block device, which is blank.
func (r *rig) onDisk(claim string) *fakedisk.Disk {
	r.t.Helper()
	d := fakedisk.New(r.t)
	pv := r.volumes["pv-"+claim]
	pv.Spec.CSI, pv.Spec.Local = nil, &corev1.LocalVolumeSource{Path: d.Device}
	r.disks = disk.New(disk.Options{Dir: d.Dir, Timeout: time.Minute})
	r.restart("boot-1")
	return d
}

// programs fails unless these programs were started, unmounts aside.
func (r *rig) programs(d *fakedisk.Disk, want ...string) {
	r.t.Helper()
	var got []string
	for _, c := range d.Calls() {
		if name, _, _ := strings.Cut(c, " "); name != "umount" {
			got = append(got, name)
		}
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("programs\n got %q\nwant %q", got, want)
	}
}

func TestALocalVolumeOnABlankDiskIsMountedForAllPodsUntilTheLastIsGone(t *testing.T) {
	r := newRig(t)
	v := r.claimed("data")
	d := r.onDisk("data")
	global := filepath.Join(r.root, "plugins/kubernetes.io/local-volume/mounts/pv-data")
	file := filepath.Join(d.Contents, "file")
	must.OK(t, os.WriteFile(file, []byte("kept"), 0o600))
	for uid, group := range map[string]int64{"p1": 1234, "p2": 1234} {
		p := r.pod(uid, v)
		p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
		must.OK(t, r.setUp(p))
		r.reads(uid, v.Name)
	}
	r.programs(d, "blkid", "mkfs.ext4", "mount")
	if info, err := os.Stat(file); err != nil || gid(info) != 1234 {
		t.Errorf("the file has not the group of the pods (%v)", err)
	}
	if !r.Relabels("p1", v.Name) {
		t.Error("its files get no SELinux label")
	}
	all := fakecsi.Mounts(r.root)
	if len(all) != 3 || !slices.Contains(all, global) {
		t.Errorf("mounted are %v", all)
	}

	path := filepath.Join(r.podDir("p1"), "pv-data")
	rec, err := r.readRecord(path)
	must.OK(t, err)
	rec.Stage, rec.Mounted = publishing, "" // a crash between the mount and its record
	must.OK(t, r.writeRecord(path, rec))
	r.restart("boot-1")
	r.unstageLeft(t.Context()) // a claimed one is not left
	must.OK(t, r.setUp(r.pod("p1", v)))
	if now := fakecsi.Mounts(r.root); !slices.Equal(now, all) {
		t.Errorf("mounted are %v, before %v", now, all)
	}
	r.reboot()
	if !r.Lost("p2", v.Name) {
		t.Error("after a reboot nothing is lost")
	}
	must.OK(t, r.setUp(r.pod("p2", v)))
	r.programs(d, "blkid", "fsck", "mount")
	must.OK(t, r.tearDown("p1"))
	if now := fakecsi.Mounts(r.root); !slices.Contains(now, global) {
		t.Errorf("while a pod has it, mounted are %v", now)
	}
	must.OK(t, r.tearDown("p2"))
	r.nothingLeft()
	if _, err := os.Stat(global); !os.IsNotExist(err) {
		t.Errorf("the directory of the disk: %v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "kept" {
		t.Errorf("after its pods the volume holds %q, %v", b, err)
	}
}

// Its file system is used by somebody else, or an agent was killed between its last pod's end and the unmount.
func TestADiskThatIsNotUnmountedHoldsUpNoPodAndIsUnmountedByTheNextAgent(t *testing.T) {
	r := newRig(t)
	v := r.claimed("data")
	d := r.onDisk("data")
	must.OK(t, r.setUp(r.pod("p1", v)))
	d.Exit("umount", 32)
	must.OK(t, r.tearDown("p1"))
	if all := fakecsi.Mounts(r.root); len(all) != 1 {
		t.Fatalf("mounted are %v", all)
	}
	r.restart("boot-1")
	d.Calls()
	must.OK(t, r.setUp(r.pod("p2", v)))
	r.programs(d) // it is mounted
	d.Exit("umount", 0)
	r.unstageLeft(t.Context())
	if all := fakecsi.Mounts(r.root); len(all) != 2 {
		t.Errorf("a disk was unmounted that a pod has: mounted are %v", all)
	}
	d.Exit("umount", 32)
	must.OK(t, r.tearDown("p2"))
	d.Exit("umount", 0)
	r.restart("boot-1")
	r.unstageLeft(t.Context())
	r.nothingLeft()
}

func TestAWriterGetsADiskThatReadersHadWhenTheyAreGone(t *testing.T) {
	r := newRig(t)
	v := r.claimed("data")
	d := r.onDisk("data")
	d.Has("TYPE=ext4")
	reader := v.DeepCopy()
	reader.PersistentVolumeClaim.ReadOnly = true
	must.OK(t, r.setUp(r.pod("p1", *reader)))
	path, err := r.Path("p1", v.Name)
	must.OK(t, err)
	if err := os.WriteFile(filepath.Join(path, "new"), nil, 0o600); err == nil {
		t.Error("a reader writes")
	}
	r.programs(d, "blkid", "mount")
	if err := r.setUp(r.pod("p2", v)); err == nil || !strings.Contains(err.Error(), "delete the other pods") {
		t.Errorf("a writer beside a reader gets %v", err)
	}
	d.Exit("umount", 32)
	must.OK(t, r.tearDown("p1"))
	d.Exit("umount", 0)
	must.OK(t, r.setUp(r.pod("p2", v)))
	r.programs(d, "blkid", "fsck", "mount")
	path, err = r.Path("p2", v.Name)
	must.OK(t, err)
	must.OK(t, os.WriteFile(filepath.Join(path, "new"), nil, 0o600))
	must.OK(t, r.tearDown("p2"))
	r.nothingLeft()
}

func TestADiskGrowsWhenAPodIsSetUpWhoseVolumeHasBecomeLarger(t *testing.T) {
	r := newRig(t)
	v := r.claimed("data")
	d := r.onDisk("data")
	size := func(text string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(text)}
	}
	r.volumes["pv-data"].Spec.Capacity, r.pvcs["data"].Status.Capacity = size("2Gi"), size("1Gi")
	d.Exit("resize2fs", 1)
	err := r.setUp(r.pod("p1", v))
	if err == nil || !strings.Contains(err.Error(), "while expanding volume: resize ext4") {
		t.Errorf("got %v", err)
	}
	d.Calls()
	d.Exit("resize2fs", 0)
	must.OK(t, r.setUp(r.pod("p1", v)))
	r.programs(d, "blkid", "resize2fs")
	got := r.pvcs["data"].Status.Capacity[corev1.ResourceStorage]
	if got.String() != "2Gi" {
		t.Errorf("the claim says %s", got.String())
	}
	if _, rec := r.find("p1", v.Name); rec.refreshes() {
		t.Error("something is repeated for the volume")
	}
	must.OK(t, r.setUp(r.pod("p2", v)))
	r.programs(d)
	must.OK(t, r.tearDown("p1"))
	must.OK(t, r.tearDown("p2"))
	r.nothingLeft()
}

func TestADiskThatCannotBeMountedSaysWhyAndLeavesNothing(t *testing.T) {
	for want, change := range map[string]func(*fakedisk.Disk, *corev1.PersistentVolumeSpec){
		"a partition table (gpt)": func(d *fakedisk.Disk, _ *corev1.PersistentVolumeSpec) { d.Has("PTTYPE=gpt") },
		"has ext4, and the volume is to have xfs": func(d *fakedisk.Disk, s *corev1.PersistentVolumeSpec) {
			d.Has("TYPE=ext4")
			s.Local.FSType = ptr.To("xfs")
		},
		"the mount options": func(_ *fakedisk.Disk, s *corev1.PersistentVolumeSpec) { s.MountOptions = []string{"\n"} },
		"mkfs.btrfs is not on this node; install the package btrfs-progs": func(
			_ *fakedisk.Disk, s *corev1.PersistentVolumeSpec,
		) {
			s.Local.FSType = ptr.To("btrfs")
		},
	} {
		r := newRig(t)
		v := r.claimed("a")
		d := r.onDisk("a")
		change(d, &r.volumes["pv-a"].Spec)
		r.refuses(v, want)
	}
}

// A second disk, and the end of a pod whose disk hangs.
func TestADiskThatHangsHoldsUpItsPodsOnly(t *testing.T) {
	r := newRig(t)
	v, other := r.claimed("data"), r.claimed("other")
	d := r.onDisk("data")
	second := filepath.Join(t.TempDir(), "second")
	var st unix.Stat_t
	must.OK(t, unix.Stat(d.Device, &st))
	must.OK(t, unix.Mknod(second, unix.S_IFBLK|0o600, int(st.Rdev)))
	pv := r.volumes["pv-other"]
	pv.Spec.CSI, pv.Spec.Local = nil, &corev1.LocalVolumeSource{Path: second}
	d.Hold("mkfs.ext4", true)
	waits := make(chan error, 1)
	p1 := r.pod("p1", v)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { waits <- r.SetUp(ctx, p1, &p1.Spec.Volumes[0]) }()
	must.Until(t, time.Minute, "the format to hang", d.Hung)
	d.Has("TYPE=ext4") // of the other disk: the programs know only one
	must.OK(t, r.setUp(r.pod("p2", other)))
	must.OK(t, r.tearDown("p2"))
	cancel()
	if err := <-waits; err == nil {
		t.Error("it was set up")
	}
	must.OK(t, r.tearDown("p1"))
	r.nothingLeft()
	d.Hold("mkfs.ext4", false)
	must.Until(t, time.Minute, "the format to end", func() bool { return r.setUp(r.pod("p1", v)) == nil })
	must.OK(t, r.tearDown("p1"))
	r.nothingLeft()
}
