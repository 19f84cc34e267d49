package pod

import (
	"testing"
	"time"

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

// A start in doubt whose container has not run is repeated with another container of the same attempt. An inspection
// that began before may be recorded after its outcome: the pod would start a third one beside the second.
func TestObservationFromBeforeARepeatedStartEndsNothing(t *testing.T) {
	p := newIncarnations(t)
	p.updated(add, "d")
	p.admitted(p.Pod().GetIncarnation())
	ready := &journaletv1.SandboxObservation{Id: "s", State: journaletv1.SandboxState_SANDBOX_STATE_READY}
	p.handle(&journaletv1.CallFinished{IntentId: p.ids[""], SandboxId: "s", EndedAt: timestamppb.New(p.at)})
	p.handle(p.observed(ready))
	before := p.observed(ready)
	before.Containers = []*journaletv1.ContainerObservation{{
		Id: "first", Name: "main", SandboxId: "s", State: journaletv1.ContainerState_CONTAINER_STATE_EXITED, ExitCode: 128,
		Reason: "StartError", CreatedAt: timestamppb.New(p.at), FinishedAt: timestamppb.New(p.at),
	}}
	p.at = p.at.Add(time.Second)
	p.handle(&journaletv1.CallFinished{
		IntentId: p.ids["main"], SandboxId: "s", ContainerId: "second", EndedAt: timestamppb.New(p.at),
	})
	p.handle(before)
	if cur := p.Pod().GetContainers()["main"].GetCurrent(); cur.GetId() != "second" {
		t.Errorf("the container is %v, and the pod decides %v", cur, p.decided)
	}
	for _, d := range p.decided { // it removes the first one
		if d.GetCallRequested().GetRemoveContainer().GetContainerId() != "first" {
			t.Errorf("it decides %v", d)
		}
	}
	after := p.observed(ready)
	after.Containers = before.Containers
	p.handle(after) // now it is true: the second one has gone, and the first one is back
	if len(p.decided) == 0 {
		t.Error("a later inspection changes nothing")
	}
}
