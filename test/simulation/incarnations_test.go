package simulation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPullPolicyChangesOnlyWithItsImage: an updated image may bring another pull policy. That stays when the old image
// returns, so that updates lead to what is no update of the first manifest.
func TestPullPolicyChangesOnlyWithItsImage(t *testing.T) {
	podWith := func(image string, policy corev1.PullPolicy) *corev1.Pod {
		c := corev1.Container{Name: "main", Image: image, ImagePullPolicy: policy}
		return &corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "init", Image: "app:1", ImagePullPolicy: corev1.PullAlways}},
			Containers:     []corev1.Container{c},
		}}
	}
	old := podWith("app:1", corev1.PullAlways)
	between, again := podWith("app:2", corev1.PullIfNotPresent), podWith("app:1", corev1.PullIfNotPresent)
	initially := podWith("app:1", corev1.PullAlways)
	initially.Spec.InitContainers[0].ImagePullPolicy = corev1.PullNever
	for _, c := range []struct {
		name          string
		old, to       *corev1.Pod
		update, leads bool
	}{
		{"nothing", old, podWith("app:1", corev1.PullAlways), true, true},
		{"an image", old, podWith("app:2", corev1.PullAlways), true, true},
		{"an image and its policy", old, between, true, true},
		{"the old image again", between, again, true, true},
		{"a policy", old, again, false, true},
		{"an init container's policy", old, initially, false, true},
		{"another container", old, &corev1.Pod{Spec: corev1.PodSpec{Containers: old.Spec.Containers}}, false, false},
	} {
		if got := isUpdate(c.old, c.to); got != c.update {
			t.Errorf("%s: is an update: %t", c.name, got)
		}
		if got := updatesLeadTo(c.old, c.to); got != c.leads {
			t.Errorf("%s: updates lead to it: %t", c.name, got)
		}
	}
}
