package volume

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/test/must"
)

// BenchmarkSetUp is what a pod's start waits for: a ConfigMap, a Secret, a projected volume and an emptyDir.
func BenchmarkSetUp(b *testing.B) {
	d, pod := New(Options{RootDir: b.TempDir(), Objects: testStore()}), podWith(configMapVolume("conf", "conf"),
		secretVolume("keys", "keys"), emptyDir("disk", "", ""), volumeOf("all", corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}},
			}}}))
	for i := 0; b.Loop(); i++ {
		pod.UID = types.UID("pod-" + strconv.Itoa(i))
		must.OK(b, firstFailure(d.SetUp(b.Context(), pod, nil)))
		b.StopTimer()
		must.OK(b, clean(b.Context(), d, string(pod.UID), "", "x"))
		b.StartTimer()
	}
}

// BenchmarkSetUpAgain is a call that finds everything as it should be.
func BenchmarkSetUpAgain(b *testing.B) {
	d, pod := New(Options{RootDir: b.TempDir(), Objects: testStore()}), podWith(configMapVolume("conf", "conf"),
		secretVolume("keys", "keys"), emptyDir("disk", "", ""))
	for b.Loop() {
		must.OK(b, firstFailure(d.SetUp(b.Context(), pod, nil)))
	}
	must.OK(b, clean(b.Context(), d, "u1", "", "x"))
}
