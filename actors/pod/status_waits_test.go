package pod_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A pod that ends is never stuck without a reason: what it waits for is told, and since when.
func TestWhatAnEndingPodWaitsForIsTold(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	running := func(name string) *journaletv1.ContainerRecord {
		return &journaletv1.ContainerRecord{Name: name, Current: &journaletv1.ContainerObservation{
			Id: name + "-0", Name: name, State: journaletv1.ContainerState_CONTAINER_STATE_RUNNING,
		}}
	}
	state := &journaletv1.PodState{
		Pod: &journaletv1.PodRef{Uid: "a", Digest: "sha256:1"}, Stage: journaletv1.PodStage_POD_STAGE_TERMINATING,
		TerminatingAt: timestamppb.New(begin),
		Containers: map[string]*journaletv1.ContainerRecord{
			"main": running("main"), "side": running("side"), "gone": running("gone"),
		},
		Observed: &journaletv1.PodObserved{Containers: []*journaletv1.ContainerObservation{{Id: "gone-0", Name: "gone"}}},
		Calls: map[string]*journaletv1.PodCall{"1.7.pod/a.0": {
			RequestedAt: timestamppb.New(begin.Add(-time.Second)),
			Request: &journaletv1.CallRequested{Work: &journaletv1.CallRequested_StopContainer{
				StopContainer: &journaletv1.StopContainer{Container: "main", ContainerId: "main-0"},
			}},
		}},
		Timers: &journaletv1.Timers{Set: map[string]*journaletv1.Timer{"tear down": {SetAt: timestamppb.New(begin.Add(time.Second))}}},
	}
	a := pod.New("a")
	waits := func() (got []string) {
		stored, err := proto.Marshal(state)
		if err == nil {
			err = a.Restore(stored)
		}
		if err != nil {
			t.Fatal(err)
		}
		a.Resolve("sha256:1", &corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "side", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
			Containers:     []corev1.Container{{Name: "main"}, {Name: "gone"}},
		}})
		for _, w := range a.Waits() {
			got = append(got, fmt.Sprintf("%s %s%s%s", w.Since.Sub(begin), w.For, w.IntentID, w.Call.GetStopContainer().GetContainer()))
		}
		return got
	}
	want := []string{
		"-1s 1.7.pod/a.0main",
		"0s a look that shows how container gone ended",
		"0s the turn of sidecar side, after all that started after it",
		"1s the next try after a stop or a removal that failed",
	}
	if got := waits(); !slices.Equal(got, want) {
		t.Errorf("%q, want\n%q", got, want)
	}
	state.Stage = journaletv1.PodStage_POD_STAGE_RUNNING
	if got := waits(); got != nil {
		t.Errorf("a pod that runs on waits for %q", got)
	}
}
