package pod

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

func TestContainersGetTheDevicesOfTheirRequests(t *testing.T) {
	a := New("u")
	claim := func(stage journaletv1.ClaimStage, name string, devices ...*journaletv1.ClaimDevice) *journaletv1.PodClaim {
		return &journaletv1.PodClaim{
			Claim: &journaletv1.ResourceClaim{PodClaims: []string{name, name + "-too"}}, Stage: stage, Devices: devices,
		}
	}
	a.state.Claims = &journaletv1.PodClaims{Read: true, Claims: []*journaletv1.PodClaim{
		claim(claimPrepared, "gpu",
			&journaletv1.ClaimDevice{Requests: []string{"big", "any"}, CdiDevices: []string{"g/c=1", "g/c=2"}},
			&journaletv1.ClaimDevice{Requests: []string{"small"}, CdiDevices: []string{"g/c=3"}},
			&journaletv1.ClaimDevice{CdiDevices: []string{"g/c=all"}}),
		claim(claimPrepared, "nic", &journaletv1.ClaimDevice{CdiDevices: []string{"n/c=1", "g/c=1"}}),
		claim(claimPreparing, "late"),
	}}
	for _, c := range []struct {
		claims []corev1.ResourceClaim
		want   []string
		of     int
	}{
		{nil, nil, 0},
		{[]corev1.ResourceClaim{{Name: "gpu"}}, []string{"g/c=1", "g/c=2", "g/c=3", "g/c=all"}, 1},
		{[]corev1.ResourceClaim{{Name: "gpu", Request: "small"}}, []string{"g/c=3", "g/c=all"}, 1},
		{[]corev1.ResourceClaim{{Name: "nic"}, {Name: "gpu-too", Request: "any"}},
			[]string{"n/c=1", "g/c=1", "g/c=2", "g/c=all"}, 2},
		{[]corev1.ResourceClaim{{Name: "late"}, {Name: "other"}}, nil, 0},
	} {
		spec := &corev1.Container{Resources: corev1.ResourceRequirements{Claims: c.claims}}
		if got := a.claimDevices(spec); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %q, want %q", c.claims, got, c.want)
		}
		if got := len(a.ClaimsOf(spec)); got != c.of {
			t.Errorf("%v: %d claims, want %d", c.claims, got, c.of)
		}
	}
}
