package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/persistentvolume"
	"github.com/journalet/journalet/test/must"
)

// drivers stands for CSI drivers: what it sets up is a directory of the pod's.
type drivers struct {
	root string
	fail map[string]error
	lost bool
}

func (d *drivers) dir(uid string) string {
	return filepath.Join(d.root, "pods", uid, volumesDir, csiPlugin, "pv")
}

func (d *drivers) SetUp(_ context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	if err := d.fail[v.Name]; err != nil {
		return err
	}
	return os.MkdirAll(d.dir(string(pod.UID)), 0o700)
}

func (d *drivers) TearDown(_ context.Context, uid string) ([]persistentvolume.Outcome, error) {
	if _, err := os.Stat(d.dir(uid)); err != nil {
		return nil, nil
	}
	if err := d.fail["unpublish"]; err != nil {
		return []persistentvolume.Outcome{{Volumes: []string{"disk"}, Err: err}}, nil
	}
	return []persistentvolume.Outcome{{Volumes: []string{"disk"}}}, os.Remove(d.dir(uid))
}

func (d *drivers) Path(uid, _ string) (string, error) { return d.dir(uid), nil }
func (d *drivers) Lost(string, string) bool           { return d.lost }
func (d *drivers) Check(string, string) error {
	if d.lost {
		return errors.New("nothing is mounted")
	}
	return nil
}
func (d *drivers) Relabels(string, string) bool { return true }

func csiPod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "disk", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}},
	}}}
}

// outcomesOf returns the failures by volume.
func outcomesOf(all []*journaletv1.VolumeOutcome) map[string]string {
	by := map[string]string{}
	for _, o := range all {
		by[o.GetName()] = o.GetMessage()
	}
	return by
}

func TestVolumesOfCSIDriversHaveTheirOwnOutcomes(t *testing.T) {
	root := t.TempDir()
	fake := &drivers{root: root, fail: map[string]error{"disk": errors.New("no driver")}}
	d := New(Options{RootDir: root, CSI: fake, PodLogDir: t.TempDir(), ContainerLogDir: t.TempDir()})
	p := csiPod()
	got := outcomesOf(d.SetUp(t.Context(), p, &journaletv1.SetUpVolumes{}))
	if got["tmp"] != "" || got["disk"] != `MountVolume.SetUp failed for volume "disk" : no driver` {
		t.Errorf("got %q", got)
	}
	fake.fail = nil
	if got = outcomesOf(d.SetUp(t.Context(), p, &journaletv1.SetUpVolumes{})); got["tmp"]+got["disk"] != "" {
		t.Errorf("got %q", got)
	}
	found, err := d.Reconcile([]Recorded{{UID: "u", Manifest: p, SetUp: []string{"disk", "tmp"}}}, "boot")
	must.OK(t, err)
	if len(found.Lost) > 0 {
		t.Errorf("lost: %v", found.Lost)
	}
	fake.lost = true
	if found, err = d.Reconcile([]Recorded{{UID: "u", Manifest: p, SetUp: []string{"disk", "tmp"}}}, "boot"); err != nil ||
		len(found.Lost) != 1 || len(found.Lost[0].GetNames()) != 1 || found.Lost[0].GetNames()[0] != "disk" {
		t.Errorf("lost: %v, %v", found.Lost, err)
	}

	fake.fail = map[string]error{"unpublish": errors.New("the driver hangs")}
	all, err := d.Clean(t.Context(), "u", "", "")
	must.OK(t, err)
	got = outcomesOf(all)
	if got["disk"] != `UnmountVolume.TearDown failed for volume "disk" : the driver hangs` {
		t.Errorf("got %q", got)
	}
	if _, failed := got["tmp"]; !failed || got["tmp"] != "" {
		t.Errorf("the other volume: %q", got)
	}
	if _, err := os.Stat(d.PodDir("u")); err != nil {
		t.Error("the pod's directory is gone, with a volume in it")
	}
	fake.fail = nil
	all, err = d.Clean(t.Context(), "u", "", "")
	must.OK(t, err)
	if got, has := outcomesOf(all)["disk"]; got != "" || !has {
		t.Errorf("got %v", all)
	}
	if _, err := os.Stat(d.PodDir("u")); !os.IsNotExist(err) {
		t.Errorf("the pod's directory is left: %v", err)
	}
}

func TestVolumesOfCSIDriversStayWithoutThem(t *testing.T) {
	root := t.TempDir()
	must.OK(t, os.MkdirAll((&drivers{root: root}).dir("u"), 0o700))
	d := New(Options{RootDir: root, PodLogDir: t.TempDir(), ContainerLogDir: t.TempDir()})
	all, err := d.Clean(t.Context(), "u", "", "")
	must.OK(t, err)
	if got := outcomesOf(all)["pv"]; !strings.Contains(got, "start the agent with its kubeconfig") {
		t.Errorf("got %v", all)
	}
	if got := outcomesOf(d.SetUp(t.Context(), csiPod(), &journaletv1.SetUpVolumes{}))["disk"]; got == "" {
		t.Error("set up without drivers")
	}
}
