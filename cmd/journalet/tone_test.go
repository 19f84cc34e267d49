package main

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func TestColourFollowsTheOutcome(t *testing.T) {
	instance := func(attempt uint32, code int32) *journaletv1.ContainerObservation {
		return &journaletv1.ContainerObservation{Name: "a", Attempt: attempt, ExitCode: code,
			State: journaletv1.ContainerState_CONTAINER_STATE_EXITED}
	}
	for _, c := range []struct {
		event proto.Message
		want  string
	}{
		{&journaletv1.Quarantined{}, red},
		{&journaletv1.CallFinished{}, ""},
		{&journaletv1.CallFinished{Error: journaletv1.CallError_CALL_ERROR_RUNTIME}, red},
		{&journaletv1.CallFinished{Error: journaletv1.CallError_CALL_ERROR_WITHDRAWN}, ""},
		{&journaletv1.CallDropped{}, ""},
		{&journaletv1.OomKillObserved{}, yellow},
		{&journaletv1.LogRotated{Message: "no space"}, yellow},
		{&journaletv1.AdmissionDecided{}, red},
		{&journaletv1.AdmissionDecided{Admitted: true}, ""},
		{&journaletv1.AdmissionDeferred{}, yellow},
		{&journaletv1.RuntimeHealthChanged{RuntimeReady: true}, red},
		{&journaletv1.RuntimeHealthChanged{RuntimeReady: true, NetworkReady: true}, green},
		{&journaletv1.PodStatusChanged{Phase: journaletv1.PodPhase_POD_PHASE_FAILED}, red},
		{&journaletv1.PodStatusChanged{Phase: journaletv1.PodPhase_POD_PHASE_RUNNING}, ""},
		{&journaletv1.PodStatusChanged{Conditions: []*journaletv1.Condition{{Type: "Ready", Status: true}}}, green},
		{&journaletv1.PodStatusChanged{Waiting: map[string]*journaletv1.ContainerWaiting{"a": {Reason: "x"}}}, yellow},
		{&journaletv1.PodStatusChanged{Waiting: map[string]*journaletv1.ContainerWaiting{"a": {}}}, ""},
		{&journaletv1.ProbeResult{Success: true}, green},
		{&journaletv1.ProbeResult{}, yellow},
		{&journaletv1.PodTerminating{Reason: "Preempted"}, yellow},
		{&journaletv1.PodTerminating{Failed: true}, red},
		{&journaletv1.PodObserved{Containers: []*journaletv1.ContainerObservation{instance(0, 1)}}, yellow},
		{&journaletv1.PodObserved{Containers: []*journaletv1.ContainerObservation{instance(1, 0), instance(0, 1)}}, ""},
		{&journaletv1.ManifestsRead{Changed: []*journaletv1.ManifestFile{{
			Problems: []*journaletv1.ManifestProblem{{}}}}}, red},
		{&journaletv1.TimerSet{}, dim},
		{&journaletv1.CallRequested{}, ""},
	} {
		if got := tone(messages.NewEvent(c.event)); got != c.want {
			t.Errorf("%T %v is %q, want %q", c.event, c.event, got, c.want)
		}
	}
	if got := tone(nil); got != "" {
		t.Errorf("an event of a newer version is %q", got)
	}
}
