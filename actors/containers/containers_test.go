package containers_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
)

func TestContainersOfEveryKind(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		EphemeralContainers: []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}, TargetContainerName: "main"},
		},
		Containers:     []corev1.Container{{Name: "main"}},
		InitContainers: []corev1.Container{{Name: "setup"}},
	}}
	names := func(all []*corev1.Container) (out []string) {
		for _, c := range all {
			out = append(out, c.Name)
		}
		return out
	}
	all := slices.Collect(containers.All(p))
	if got := names(all); !slices.Equal(got, []string{"setup", "main", "debug"}) {
		t.Errorf("all: %v", got)
	}
	if got := names(slices.Collect(containers.WithoutEphemeral(p))); !slices.Equal(got, []string{"setup", "main"}) {
		t.Errorf("without ephemeral: %v", got)
	}
	all[2].Image = "i"
	if c := containers.Find(p, "debug"); c == nil || c.Image != "i" || p.Spec.EphemeralContainers[0].Image != "i" {
		t.Errorf("the ephemeral container is a copy: %v", c)
	}
	if c := containers.Ephemeral(p, "debug"); c == nil || c.TargetContainerName != "main" {
		t.Errorf("ephemeral: %v", c)
	}
	for range containers.All(p) {
		break // the rest is not yielded
	}
	if containers.Find(nil, "main") != nil || containers.Find(p, "none") != nil ||
		containers.Ephemeral(p, "main") != nil || containers.Ephemeral(nil, "debug") != nil {
		t.Error("a container that does not exist is found")
	}
}

func TestAContainerOfAnyKindHasADevice(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{VolumeDevices: []corev1.VolumeDevice{{Name: "raw"}}}},
		Containers:     []corev1.Container{{VolumeMounts: []corev1.VolumeMount{{Name: "files"}}}},
	}}
	if !containers.HasDevice(p, "raw") || containers.HasDevice(p, "files") || containers.HasDevice(nil, "raw") {
		t.Error("not the volume that an init container has as a device")
	}
}
