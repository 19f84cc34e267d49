package timeline

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func TestAlertsAndTurningPointsFollowFromWhatAnEventMeans(t *testing.T) {
	type mark struct{ alert, turningPoint bool }
	none, alert, turn := mark{}, mark{alert: true}, mark{turningPoint: true}
	exited := &journaletv1.PodObserved{Containers: []*journaletv1.ContainerObservation{{Name: "a", ExitCode: 1,
		State: journaletv1.ContainerState_CONTAINER_STATE_EXITED}}}
	for _, c := range []struct {
		event proto.Message
		want  mark
	}{
		{&journaletv1.CallFinished{Error: journaletv1.CallError_CALL_ERROR_RUNTIME}, alert},
		{&journaletv1.CallFinished{Error: journaletv1.CallError_CALL_ERROR_WITHDRAWN}, none},
		{&journaletv1.CallFinished{Error: journaletv1.CallError_CALL_ERROR_NOT_DONE}, none},
		{&journaletv1.OomKillObserved{}, alert},
		{&journaletv1.ClaimHealthObserved{Devices: []*journaletv1.ClaimDeviceHealth{{
			Health: journaletv1.DeviceHealth_DEVICE_HEALTH_UNHEALTHY}}}, alert},
		{&journaletv1.DeviceHealthDecided{Devices: []*journaletv1.HealthOfDevice{{}}}, alert},
		{&journaletv1.PressureObserved{Thresholds: []*journaletv1.ThresholdMet{{}}}, alert},
		{&journaletv1.ImagesCollected{WantedBytes: 1}, alert},
		{&journaletv1.AdmissionDeferred{HolderUid: "b"}, none},
		{&journaletv1.AllContainersRestarting{AllStopped: true}, turn},
		{&journaletv1.PodUpdated{}, turn},
		{&journaletv1.PodStatusChanged{Conditions: []*journaletv1.Condition{{Type: "Ready", Status: true}}}, turn},
		{&journaletv1.PodStatusChanged{Conditions: []*journaletv1.Condition{{Type: "Ready"}}}, none},
		{&journaletv1.ProbeResult{Success: true}, turn},
		{&journaletv1.TimerSet{}, none},
		{exited, none}, // it is marked where it is folded: observations show an exit again and again
	} {
		e := messages.NewEvent(c.event)
		if got := (mark{alerts(e), turningPoint(e)}); got != c.want {
			t.Errorf("%T %v is marked %+v, want %+v", c.event, c.event, got, c.want)
		}
	}
}

func TestStatusThatAnAlertLedToIsListedOnce(t *testing.T) {
	at := func(seq uint64, because int, alert bool, e proto.Message) *Event {
		return &Event{Seq: seq, Because: because, Alert: alert, Text: fmt.Sprintf("%T", e), event: messages.NewEvent(e)}
	}
	failed := &journaletv1.CallFinished{Error: journaletv1.CallError_CALL_ERROR_RUNTIME}
	status := &journaletv1.PodStatusChanged{}
	x := &text{t: &Timeline{Events: []*Event{
		0: at(1, -1, true, failed),
		1: at(2, 0, false, &journaletv1.TimerSet{}),
		2: at(3, 1, false, &journaletv1.TimerFired{}),
		3: at(4, 2, true, status), // after the back-off of the failure
		4: at(5, -1, false, &journaletv1.ObjectsRead{}),
		5: at(6, 4, true, status), // of an object that is missing, which is no alert by itself
		6: at(7, -1, true, &journaletv1.PodTerminated{}),
		7: at(7, -1, true, status), // of the same step
		8: at(8, 0, true, failed),  // another failure, though the first led to it
	}}, chart: 80}
	marks, _ := x.marks()
	var listed []uint64
	for _, m := range marks {
		listed = append(listed, m.ev.Seq)
	}
	if want := []uint64{1, 6, 7, 8}; !slices.Equal(listed, want) {
		t.Errorf("listed are the events of the records %v, want %v", listed, want)
	}
}
