package pod

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// An inspection that finds the same again is not recorded, so no later observation would report the dead sandbox.
func TestSandboxObservedDeadBeforeItsCallFinishedIsReplaced(t *testing.T) {
	p := newTestPod(t, map[string]*corev1.Pod{"d": podOf(corev1.Container{Name: "main", Image: "app"})})
	p.updated(add, "d")
	p.admitted(p.Pod().GetIncarnation())
	p.handle(p.observed(&journaletv1.SandboxObservation{Id: "s", State: journaletv1.SandboxState_SANDBOX_STATE_NOT_READY}))
	p.handle(&journaletv1.CallFinished{IntentId: p.ids[""], SandboxId: "s", EndedAt: timestamppb.New(p.at)})
	for _, d := range p.decided {
		if d.GetCallRequested().GetStopSandbox().GetSandboxId() == "s" {
			return
		}
	}
	t.Errorf("the dead sandbox is not stopped: %v", p.decided)
}
