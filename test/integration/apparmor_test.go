//go:build integration

package integration

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
)

// The pod is also for machines with AppArmor, where it runs; elsewhere it must be rejected, not run without a profile.
func TestAppArmorProfileConfinesOrThePodIsRejected(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/apparmor.yaml")
	must.OK(t, err)
	a := started(t, map[string]string{"confined.yaml": strings.ReplaceAll(string(text), "IMAGE", testImage())})
	p := a.pod("confined", "ended", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	if enabled, err := os.ReadFile("/sys/module/apparmor/parameters/enabled"); err != nil || enabled[0] != 'Y' {
		equal(t, "the reason", p.Status.Reason, "AppArmor")
		equal(t, "the message", p.Status.Message,
			"Pod was rejected: Cannot enforce AppArmor: AppArmor is not enabled on the host")
		return
	}
	for name, want := range map[string]string{
		"by-annotation": "cri-containerd.apparmor.d (enforce)", "by-field": "cri-containerd.apparmor.d (enforce)",
		"unconfined": "unconfined",
	} {
		equal(t, "the profile of "+name, container(p, name).State.Terminated.Message, want)
	}
}
