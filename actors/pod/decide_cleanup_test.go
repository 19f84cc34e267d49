package pod

import (
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
)

// With its sandbox the runtime forgets how a container ended.
func TestSandboxOfAnOrphanStaysUntilTheEndOfItsContainersIsObserved(t *testing.T) {
	p := newTestPod(t, nil)
	shows := func(state journaletv1.ContainerState) {
		p.handle(&journaletv1.PodObserved{
			Uid: "u", Sandboxes: []*journaletv1.SandboxObservation{
				{Id: "s", State: journaletv1.SandboxState_SANDBOX_STATE_READY},
			},
			Containers: []*journaletv1.ContainerObservation{{Id: "main-0", Name: "main", SandboxId: "s", State: state}},
		})
	}
	shows(journaletv1.ContainerState_CONTAINER_STATE_RUNNING)
	p.handle(&journaletv1.TimerFired{Name: orphanTimer, Generation: 1})
	p.handle(&journaletv1.OrphanConfirmed{Uid: "u"})
	stop := p.ids["main"]
	if stop == "" {
		t.Fatalf("an orphan's container is not stopped: %v", p.decided)
	}
	p.handle(&journaletv1.CallFinished{IntentId: stop})
	if len(p.decided) > 0 {
		t.Errorf("its end is not observed, and the pod decided %v", p.decided)
	}
	shows(journaletv1.ContainerState_CONTAINER_STATE_EXITED)
	if p.decided[0].GetCallRequested().GetStopSandbox() == nil {
		t.Errorf("its end is observed, and the pod decided %v", p.decided)
	}
}
