package pod

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// TestASandboxThatIsSeenDeadBeforeItsMakingIsAnsweredIsReplaced: a look that finds the same again is not told, so nothing else would tell.
func TestASandboxThatIsSeenDeadBeforeItsMakingIsAnsweredIsReplaced(t *testing.T) {
	a := newAsker(t, map[string]*corev1.Pod{"d": podOf(corev1.Container{Name: "main", Image: "app"})})
	a.updated(add, "d")
	a.admitted()
	a.see(&journaletv1.Event{Kind: &journaletv1.Event_PodObserved{PodObserved: &journaletv1.PodObserved{
		Uid: "u", ObservedAt: timestamppb.New(a.at),
		Sandboxes: []*journaletv1.SandboxObservation{{Id: "s", State: journaletv1.SandboxState_SANDBOX_STATE_NOT_READY}},
	}}}, "")
	a.done("", "s", "")
	for _, d := range a.decided {
		if d.GetCallRequested().GetStopSandbox().GetSandboxId() == "s" {
			return
		}
	}
	t.Errorf("nothing is done about it: %v", a.decided)
}
