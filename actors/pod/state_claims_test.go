package pod

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
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
		number int
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
		if got := len(a.ClaimsOf(spec)); got != c.number {
			t.Errorf("%v: %d claims, want %d", c.claims, got, c.number)
		}
	}
}

func TestStatusHasTheHealthOfClaimedDevices(t *testing.T) {
	a := New("u")
	device := func(name, request string, cdi ...string) *journaletv1.ClaimDevice {
		return &journaletv1.ClaimDevice{
			Driver: "g", Pool: "p", Device: name, Requests: []string{request}, CdiDevices: cdi,
		}
	}
	a.state.Claims = &journaletv1.PodClaims{Read: true, Claims: []*journaletv1.PodClaim{
		{
			Claim: &journaletv1.ResourceClaim{PodClaims: []string{"gpu"}}, Stage: claimPrepared,
			Devices: []*journaletv1.ClaimDevice{
				device("d1", "r1", "g/c=1", "g/c=2"), device("d2", "r2"), device("d3", "r2", "g/c=1"),
			},
		},
		{Claim: &journaletv1.ResourceClaim{PodClaims: []string{"late"}}, Stage: claimPreparing},
	}}
	a.evolveClaimHealth(&journaletv1.ClaimHealthObserved{Devices: []*journaletv1.ClaimDeviceHealth{
		{Driver: "g", Pool: "p", Device: "d1", Health: journaletv1.DeviceHealth_DEVICE_HEALTH_UNHEALTHY, Message: "hot"},
		{Driver: "g", Pool: "other", Device: "d2", Health: journaletv1.DeviceHealth_DEVICE_HEALTH_HEALTHY},
	}})
	hot := corev1.ResourceHealth{ResourceID: "g/c=1", Health: corev1.ResourceHealthStatusUnhealthy, Message: new("hot")}
	unknown := corev1.ResourceHealth{ResourceID: "g/p/d2", Health: corev1.ResourceHealthStatusUnknown}
	spec := &corev1.Container{Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{
		{Name: "gpu"}, {Name: "gpu", Request: "r1"}, {Name: "gpu", Request: "none"}, {Name: "late"},
	}}}
	want := []corev1.ResourceStatus{
		{Name: "claim:gpu", Resources: []corev1.ResourceHealth{hot, unknown}},
		{Name: "claim:gpu/r1", Resources: []corev1.ResourceHealth{hot}},
	}
	if got := a.claimStatus(spec); !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	a.state.Claims.Claims[0].Stage = journaletv1.ClaimStage_CLAIM_STAGE_UNPREPARED
	if got := a.claimStatus(spec); len(got) > 0 {
		t.Errorf("after the drivers have taken the devices back: %+v", got)
	}
}

func TestContainersGetTheDevicesThatStandForExtendedResources(t *testing.T) {
	m := podOf(
		corev1.Container{Name: "a", Image: "app:1", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			"g.example/gpu": resource.MustParse("1"), "g.example/other": resource.MustParse("1"),
		}}},
		corev1.Container{Name: "b", Image: "app:1"},
	)
	api := &journaletv1.ApiPod{ExtendedClaim: &journaletv1.ExtendedClaim{
		Name: "x", Requests: []*journaletv1.ExtendedRequest{{Container: "a", Resource: "g.example/gpu", Request: "r1"}},
	}}
	ref := &journaletv1.PodRef{Uid: "u", Api: api}
	if d := AdmissionRequest(ref, m).GetDevices(); len(d) != 1 || d[0].GetResource() != "g.example/other" {
		t.Errorf("it demands of device plugins: %v", d)
	}
	a := New("u")
	a.manifest, a.state.Pod = m, ref
	if a.claimsReady() {
		t.Error("its claim was not read, and counts as prepared")
	}
	a.state.Claims = &journaletv1.PodClaims{Read: true, Claims: []*journaletv1.PodClaim{{
		Claim: &journaletv1.ResourceClaim{Extended: true}, Stage: claimPrepared, Devices: []*journaletv1.ClaimDevice{
			{Requests: []string{"r1"}, CdiDevices: []string{"g/c=1"}}, {Requests: []string{"r2"}, CdiDevices: []string{"g/c=2"}},
		},
	}}}
	if got := a.claimDevices(&m.Spec.Containers[0]); !a.claimsReady() || !slices.Equal(got, []string{"g/c=1"}) {
		t.Errorf("container a gets %q", got)
	}
	if got := a.claimDevices(&m.Spec.Containers[1]); len(got) > 0 || len(a.ClaimsOf(&m.Spec.Containers[1])) > 0 {
		t.Errorf("container b gets %q", got)
	}
	if got := a.ClaimsOf(&m.Spec.Containers[0]); len(got) != 1 {
		t.Errorf("container a has the claims %v", got)
	}
}

// A driver may have undone its part when the agent is killed: for other pods, too, the claim counts as not prepared.
func TestClaimIsInDoubtFromTheRequestToUnprepareItOn(t *testing.T) {
	a, claim := New("u"), &journaletv1.ResourceClaim{Uid: "c"}
	a.state.Claims = &journaletv1.PodClaims{Claims: []*journaletv1.PodClaim{{Claim: claim, Stage: claimPrepared}}}
	a.evolveCallRequested(actors.Event{}, messages.NewCall(&journaletv1.UnprepareClaims{
		Claims: []*journaletv1.ResourceClaim{claim},
	}))
	if got := a.claim("c").GetStage(); got != claimPreparing || !a.usesClaims() {
		t.Errorf("it is %s, in use: %t", got, a.usesClaims())
	}
}
