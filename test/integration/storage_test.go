//go:build integration

package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The limits of ephemeral storage on a real disk, with the kubelet's messages. A pod within them runs on.
func TestPodBeyondItsStorageLimitIsEvicted(t *testing.T) {
	t.Parallel()
	quota := func(limit string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
				corev1.ResourceEphemeralStorage: resource.MustParse(limit),
			}
		}
	}
	volume := func(p *corev1.Pod) {
		limit := resource.MustParse("2Mi")
		p.Spec.Volumes[0].EmptyDir.SizeLimit = &limit
	}
	write := func(file, mebibytes string) string {
		return "dd if=/dev/zero of=" + file + " bs=1M count=" + mebibytes + "; " + idle
	}
	pods := onePod("volume", write("/v/f", "3"), scratch, volume)
	for name, text := range map[string]map[string]string{
		"layer":  onePod("layer", write("/f", "3"), quota("2Mi")),
		"logs":   onePod("logs", "dd if=/dev/zero bs=1M count=3 | tr '\\0' '\\n'; "+idle, quota("2Mi")),
		"within": onePod("within", write("/v/f", "1"), scratch, volume, quota("20Mi")),
	} {
		for file, manifest := range text {
			pods[name+file] = manifest
		}
	}
	a := started(t, pods)
	total := "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. "
	for name, want := range map[string]string{
		"volume": `Usage of EmptyDir volume "v" exceeds the limit "2Mi". `, "layer": total, "logs": total,
	} {
		p := a.pod(name, "evicted", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
		if p.Status.Reason != "Evicted" || p.Status.Message != want {
			t.Errorf("%s: %s %q, want Evicted %q", name, p.Status.Reason, p.Status.Message, want)
		}
	}
	if p := a.podNow("within"); !ready(p) || container(p, "main").RestartCount != 0 {
		t.Errorf("within its limits: %+v", p.Status)
	}
	a.Verified()
}
