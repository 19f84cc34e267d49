package volume

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/persistentvolume"
	"github.com/journalet/journalet/test/must"
)

func TestOperationsAreObservedByPlugin(t *testing.T) {
	var all []string
	d := New(Options{RootDir: t.TempDir(), Observe: func(plugin, operation string, _ time.Duration, err error) {
		if err != nil {
			operation += " failed"
		}
		all = append(all, plugin+" "+operation)
	}})
	expect := func(when string, want ...string) {
		t.Helper()
		slices.Sort(all)
		if !slices.Equal(all, want) {
			t.Errorf("%s: observed %q, want %q", when, all, want)
		}
		all = nil
	}
	pod := podWith(emptyDir("disk", "", ""), volumeOf("none", corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}),
		hostPath(t.TempDir()+"/none", corev1.HostPathDirectory))
	d.SetUp(t.Context(), pod, &journaletv1.SetUpVolumes{})
	expect("set-up", "kubernetes.io/empty-dir volume_mount", "kubernetes.io/host-path volume_mount failed")
	_, err := d.TearDown(t.Context(), string(pod.UID))
	must.OK(t, err)
	expect("tear-down", "kubernetes.io/empty-dir volume_unmount")
}

func TestAFailedSetUpIsOfAMountOrOfADevice(t *testing.T) {
	pod := podWith(volumeOf("raw", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}),
		volumeOf("files", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}))
	refused := fmt.Errorf("refused%.0w", persistentvolume.ErrAttachLimit)
	pod.Spec.Containers = []corev1.Container{{VolumeDevices: []corev1.VolumeDevice{{Name: "raw"}}}}
	d := New(Options{RootDir: t.TempDir(), CSI: &drivers{fail: map[string]error{"raw": refused, "files": refused}}})
	want := []string{`MapVolume.MapPodDevice failed for volume "raw" : refused`,
		`MountVolume.SetUp failed for volume "files" : refused`}
	for i, o := range d.SetUp(t.Context(), pod, &journaletv1.SetUpVolumes{}) {
		if o.GetMessage() != want[i] || !o.GetRetryable() || !o.GetAttachLimitExceeded() {
			t.Errorf("%v, want %q", o, want[i])
		}
	}
}
