package handback

import (
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history/replay"
	"github.com/journalet/journalet/runtime/kubeletstate"
)

// A pod that has terminated has no exclusive resources, and one that is not decided yet keeps what a kubelet had given
// to it.
func TestPodsHaveWhatTheyWereGiven(t *testing.T) {
	cpus := func(list string) []*journaletv1.ExclusiveContainer {
		return []*journaletv1.ExclusiveContainer{{Container: "main", Cpus: list}}
	}
	gpu := func(container string, answer *journaletv1.DeviceAnswer) *journaletv1.ContainerDevices {
		return &journaletv1.ContainerDevices{
			Container: container, Resource: "example.com/gpu", Ids: []string{"gpu-" + container}, Answer: answer,
		}
	}
	answer := &journaletv1.DeviceAnswer{CdiDevices: []string{"example.com/gpu=0"}}
	pods := map[string]*journaletv1.KubeletPod{}
	addPods(pods, &journaletv1.NodeState{
		KubeletPods: map[string]*journaletv1.KubeletPod{"waits": {Exclusive: cpus("4")}},
		Pods: map[string]*journaletv1.AdmittedPod{
			"runs":   {Exclusive: cpus("2-3"), Devices: []*journaletv1.ContainerDevices{gpu("a", nil), gpu("b", nil)}},
			"ended":  {Exclusive: cpus("5"), Terminated: true},
			"shares": {},
		},
	})
	addAnswers(pods["runs"], []*journaletv1.DeviceAllocation{{Devices: gpu("b", answer)}, {Devices: gpu("c", answer)}})
	want := map[string]*journaletv1.KubeletPod{
		"waits": {Exclusive: cpus("4")},
		"runs":  {Exclusive: cpus("2-3"), Devices: []*journaletv1.ContainerDevices{gpu("a", nil), gpu("b", answer)}},
	}
	for uid, p := range pods {
		if !proto.Equal(p, want[uid]) {
			t.Errorf("%s: got %s, want %s", uid, protojson.Format(p), protojson.Format(want[uid]))
		}
	}
	if len(pods) != len(want) {
		t.Errorf("%d pods, want %d", len(pods), len(want))
	}
}

// Claims of pods and what is known of pulls are read as they are; of a pull under way its image is.
func TestClaimsAndPullsAreRead(t *testing.T) {
	const pod = journaletv1.ActorKind_ACTOR_KIND_POD
	claims := []*journaletv1.PodClaim{{Stage: journaletv1.ClaimStage_CLAIM_STAGE_PREPARED}}
	pulled := map[string]*journaletv1.PulledImage{"sha256:a": {}}
	given := kubeletstate.Given{Claims: map[string][]*journaletv1.PodClaim{}}
	found := found{pods: map[string]*journaletv1.PodState{}}
	held := &journaletv1.ImageState{Pulled: pulled, Pulls: map[string]*journaletv1.Pull{"k": {Image: "app:2"}}}
	for ref, m := range map[messages.Ref]proto.Message{
		messages.Image:        held,
		{Kind: pod, ID: "u1"}: &journaletv1.PodState{Claims: &journaletv1.PodClaims{Claims: claims}},
		{Kind: pod, ID: "u2"}: &journaletv1.PodState{},
	} {
		if err := found.add(&given, &replay.State{Actor: ref, Message: m}); err != nil {
			t.Fatal(err)
		}
	}
	if len(given.Claims) != 1 || !slices.Equal(given.Claims["u1"], claims) || len(found.pods) != 2 {
		t.Errorf("claims %v of %d pods", given.Claims, len(found.pods))
	}
	if !maps.Equal(given.Pulled, pulled) || !slices.Equal(given.Pulling, []string{"app:2"}) {
		t.Errorf("pulled %v, pulling %q", given.Pulled, given.Pulling)
	}
}
