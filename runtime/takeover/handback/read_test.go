package handback

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages/journaletv1"
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
