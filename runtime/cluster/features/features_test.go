package features

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures"
)

// TestEveryFeatureOfAKubeletIsDecidedOn fails for a feature of a new version of the library.
func TestEveryFeatureOfAKubeletIsDecidedOn(t *testing.T) {
	requested := map[string]bool{}
	cfg := &nodedeclaredfeatures.NodeConfiguration{
		FeatureGates:    all(requested),
		RuntimeFeatures: nodedeclaredfeatures.RuntimeFeatures{UserNamespacesHostNetwork: true, MountOptions: true},
	}
	nodedeclaredfeatures.DefaultFramework.DiscoverNodeFeatures(cfg)
	if want := slices.Sorted(maps.Keys(requested)); !slices.Equal(slices.Sorted(maps.Keys(features)), want) {
		t.Errorf("decided on %v, want %v", features, want)
	}
	want := []string{
		"ExtendWebSocketsToKubelet", "InPlacePodLevelResourcesVerticalScaling",
		"InPlacePodVerticalScalingInitContainers", "RestartAllContainersOnContainerExits",
	}
	if got := Declared(); !slices.Equal(got, want) {
		t.Errorf("declared %v, want %v", got, want)
	}
}

// all are gates that are on, and remember who has requested them.
type all map[string]bool

// Enabled returns true.
func (a all) Enabled(name string) bool { a[name] = true; return true }

func TestPodLacksWhatTheNodeDoesNotDeclare(t *testing.T) {
	restarts := corev1.Container{RestartPolicyRules: []corev1.ContainerRestartRule{
		{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}}
	options := corev1.Container{VolumeMounts: []corev1.VolumeMount{{BindMountOptions: []string{"noexec"}}}}
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want []string
	}{
		"nothing":  {spec: corev1.PodSpec{HostNetwork: true}},
		"declared": {spec: corev1.PodSpec{InitContainers: []corev1.Container{restarts}}},
		"users of its own in the network of the node": {
			corev1.PodSpec{HostNetwork: true, HostUsers: new(bool)}, []string{"UserNamespacesHostNetworkSupport"}},
		"options of a mount": {corev1.PodSpec{Containers: []corev1.Container{options}}, []string{"VolumeBindMountOptions"}},
	} {
		if got := Lacking(&c.spec); !slices.Equal(got, c.want) {
			t.Errorf("%s: lacks %v, want %v", name, got, c.want)
		}
	}
}
