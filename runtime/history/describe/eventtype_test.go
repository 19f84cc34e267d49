package describe

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func TestWarningsAreEventsOfTypeWarning(t *testing.T) {
	for _, c := range []struct {
		event proto.Message
		want  string
	}{
		{&journaletv1.AdmissionDecided{Reason: "OutOfcpu"}, "Warning"},
		{&journaletv1.PodTerminating{Reason: "Evicted", Failed: true}, "Warning"},
		{&journaletv1.PodTerminating{Reason: "DeadlineExceeded", Failed: true}, "Normal"}, // as the kubelet has it
		{&journaletv1.PodEvictionDecided{Reason: "Evicted"}, "Warning"},
		{&journaletv1.OomKillObserved{}, "Warning"},
		{&journaletv1.ProbeResult{Success: true, Message: "moved"}, "Warning"},
		{&journaletv1.ProbeResult{Success: true}, "Normal"},
		{&journaletv1.ResizeCompleted{}, "Normal"},
		{&journaletv1.ShutdownSignaled{Active: true}, "Normal"},
	} {
		if got := EventType(messages.NewEvent(c.event)); got != c.want {
			t.Errorf("the event of %T %v is of type %s, want %s", c.event, c.event, got, c.want)
		}
	}
}

func TestCallThatIsWithdrawnHasNotFailed(t *testing.T) {
	d := New()
	d.Describe("1.1.pod/a.0", messages.Pod("a"), callRequested(messages.NewCall(&journaletv1.StopContainer{
		Container: "main"})))
	for code, want := range map[journaletv1.CallError]string{
		journaletv1.CallError_CALL_ERROR_WITHDRAWN: "withdrawn under way: stop container main, grace period 0s of a",
		journaletv1.CallError_CALL_ERROR_NOT_DONE:  "did not stop container main, grace period 0s of a (NotDone): why",
		journaletv1.CallError_CALL_ERROR_RUNTIME:   "failed to stop container main, grace period 0s of a (Runtime): why",
	} {
		if got := d.Describe("", messages.Pod("a"), callFinished("1.1.pod/a.0", code, "why")); got != want {
			t.Errorf("%s is described as %q, want %q", code, got, want)
		}
	}
}
