package persistentvolume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/must"
)

// local makes a claim one of a local volume, for nodes with the label disk=fast, and returns the volume's directory.
func (r *rig) local(claim string) string {
	r.t.Helper()
	dir := r.t.TempDir()
	must.OK(r.t, os.WriteFile(filepath.Join(dir, "file"), []byte("kept"), 0o600))
	pv := r.volumes["pv-"+claim]
	pv.Spec.CSI, pv.Spec.Local = nil, &corev1.LocalVolumeSource{Path: dir}
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{"fast"},
		}}}},
	}}
	r.label("fast")
	return dir
}

// label has the Node carry the label disk.
func (r *rig) label(value string) {
	r.cluster.mu.Lock()
	defer r.cluster.mu.Unlock()
	r.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"disk": value}}}
}

func TestALocalVolumeIsMountedOncePerPodAndKept(t *testing.T) {
	r := newRig(t)
	v := r.claimed("data")
	dir := r.local("data")
	for uid, group := range map[string]int64{"p1": 1234, "p2": 1234} {
		p := r.pod(uid, v)
		p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
		must.OK(t, r.setUp(p))
		r.reads(uid, v.Name)
	}
	info, err := os.Stat(filepath.Join(dir, "file"))
	if must.OK(t, err); gid(info) != 1234 {
		t.Errorf("its group is %d", gid(info))
	}
	other := r.pod("p3", v)
	other.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To(int64(99))}
	must.OK(t, r.setUp(other))
	info, err = os.Stat(filepath.Join(dir, "file"))
	if must.OK(t, err); gid(info) != 1234 {
		t.Errorf("a later pod has set its group to %d", gid(info))
	}
	if m, err := r.Measure(t.Context(), "p1", v.Name); err != nil || m.FS.Capacity == 0 || m.Bytes == 0 {
		t.Errorf("measured %+v, %v", m, err)
	}

	path := filepath.Join(r.podDir("p1"), "pv-data")
	rec, err := r.readRecord(path)
	must.OK(t, err)
	rec.Stage, rec.Mounted = publishing, "" // a crash between the mount and its record
	must.OK(t, r.writeRecord(path, rec))
	r.restart("boot-1")
	if !r.Lost("p1", v.Name) {
		t.Error("what is not recorded is not lost")
	}
	must.OK(t, r.setUp(r.pod("p1", v)))
	if all := fakecsi.Mounts(r.root); len(all) != 3 {
		t.Errorf("mounted are %v", all)
	}
	r.reboot()
	must.OK(t, r.setUp(r.pod("p1", v)))
	for _, uid := range []string{"p1", "p2", "p3"} {
		must.OK(t, r.tearDown(uid))
	}
	r.nothingLeft()
	r.expect()
	if b, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(b) != "kept" {
		t.Errorf("after its pods the volume holds %q, %v", b, err)
	}
}

func TestALocalBlockDeviceIsMountedAsOne(t *testing.T) {
	r := newRig(t)
	v := r.claimed("disk")
	pv := r.volumes["pv-disk"]
	pv.Spec.Local = &corev1.LocalVolumeSource{Path: filepath.Join(r.local("disk"), "device")}
	pv.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	must.OK(t, unix.Mknod(pv.Spec.Local.Path, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0))))
	must.OK(t, r.setUp(r.pod("p1", v)))
	path, err := r.Path("p1", v.Name)
	must.OK(t, err)
	if is, err := r.isTarget(path, true, true); err != nil || !is {
		t.Errorf("it is no block device (%v)", err)
	}
	must.OK(t, r.tearDown("p1"))
	r.nothingLeft()
}

func TestALocalVolumeThatCannotBeMountedSaysWhy(t *testing.T) {
	block := corev1.PersistentVolumeBlock
	for want, change := range map[string]func(r *rig, dir string){
		"is not for node n1":    func(r *rig, _ string) { r.label("slow") },
		"are not known yet":     func(r *rig, _ string) { r.node = nil },
		"no such file":          func(r *rig, dir string) { must.OK(r.t, os.RemoveAll(dir)) },
		"neither a directory":   func(r *rig, dir string) { r.volumes["pv-a"].Spec.Local.Path = dir + "/file" },
		"is no block device":    func(r *rig, dir string) { r.volumes["pv-a"].Spec.VolumeMode = &block },
		"is being deleted":      func(r *rig, dir string) { r.pvcs["a"].DeletionTimestamp = &metav1.Time{} },
		"cannot be the name of": func(r *rig, dir string) { r.volumes["pv-a"].Name = "../../x" },
	} {
		r := newRig(t)
		v := r.claimed("a")
		change(r, r.local("a"))
		r.refuses(v, want)
	}
}

func TestAVolumeOfADriverForAnotherNodeIsRefused(t *testing.T) {
	r := newRig(t)
	v := r.claimed("a")
	csi := r.volumes["pv-a"].Spec.CSI
	r.local("a")
	r.volumes["pv-a"].Spec.Local, r.volumes["pv-a"].Spec.CSI = nil, csi
	r.label("slow")
	if err := r.setUp(r.pod("p1", v)); err == nil || !strings.Contains(err.Error(), "no matching NodeSelectorTerms") {
		t.Errorf("got %v", err)
	}
	r.expect()
}
