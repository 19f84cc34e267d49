package persistentvolume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/runtime/pod/storage"
	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/must"
)

// hostPath has a claim's volume be a path of the node, which it returns.
func (r *rig) hostPath(name string, kind *corev1.HostPathType) string {
	path := filepath.Join(filepath.Dir(r.root), "of-the-node", name)
	r.volumes["pv-"+name].Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: path, Type: kind},
	}
	return path
}

func TestAHostPathPersistentVolumeIsUsedWhereItIs(t *testing.T) {
	r := newRig(t)
	v := r.claimed("data")
	want := r.hostPath("data", nil)
	r.volumes["pv-data"].Spec.Capacity = gigs("1Gi")
	p := r.pod("p1", v)
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To(int64(1234))}
	must.OK(t, r.setUp(p))
	if path, err := r.Path("p1", v.Name); err != nil || path != want {
		t.Errorf("at %s, %v; want %s", path, err, want)
	}
	must.OK(t, os.WriteFile(filepath.Join(want, "file"), nil, 0o600))
	info, err := os.Stat(want)
	if must.OK(t, err); gid(info) == 1234 {
		t.Error("its group is the pod's")
	}
	if all := fakecsi.Mounts(r.root); len(all) > 0 {
		t.Errorf("mounted: %v", all)
	}
	if _, err := r.Measure(t.Context(), "p1", v.Name); !errors.Is(err, storage.ErrNotMeasured) {
		t.Errorf("measured: %v", err)
	}
	r.restart("boot-1")
	if r.Lost("p1", v.Name) {
		t.Error("it is lost after a restart")
	}
	must.OK(t, r.setUp(p))
	must.OK(t, r.Check("p1", v.Name))
	must.OK(t, r.tearDown("p1"))
	if _, err := os.Stat(filepath.Join(want, "file")); err != nil {
		t.Error(err)
	}
	r.expect()
	r.nothingLeft()
}

func TestAHostPathPersistentVolumeIsCheckedAgain(t *testing.T) {
	r := newRig(t)
	v := r.claimed("data")
	path := r.hostPath("data", ptr.To(corev1.HostPathDirectory))
	must.OK(t, os.MkdirAll(path, 0o700))
	p := r.pod("p1", v)
	must.OK(t, r.setUp(p))
	must.OK(t, r.Check("p1", v.Name))
	must.OK(t, os.Remove(path))
	r.restart("boot-1")
	for what, err := range map[string]error{"check": r.Check("p1", v.Name), "set-up": r.setUp(p)} {
		if err == nil || !strings.Contains(err.Error(), path+" is not a directory") {
			t.Errorf("%s without the directory: %v", what, err)
		}
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("something was created")
	}
	must.OK(t, os.MkdirAll(path, 0o700))
	must.OK(t, r.setUp(p))
	must.OK(t, r.Check("p1", v.Name))
	must.OK(t, r.tearDown("p1"))
}
