package pod

import (
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// newIncarnations is a pod that can be added with the manifest d.
func newIncarnations(t *testing.T) *testPod {
	return newTestPod(t, map[string]*corev1.Pod{"d": podOf(corev1.Container{Name: "main", Image: "app"})})
}

// A changed observation is recorded once. One after PodFinished may show a sandbox that the runtime created late, for a
// journal that was lost.
func TestObservationBetweenTwoIncarnationsBelongsToTheNext(t *testing.T) {
	p := newIncarnations(t)
	p.updated(add, "d")
	p.handle(p.observed(&journaletv1.SandboxObservation{
		Id: "first", Attempt: 7, State: journaletv1.SandboxState_SANDBOX_STATE_NOT_READY,
	}))
	p.finished()
	p.updated(add, "d")
	if s := p.Pod(); s.GetNextSandboxAttempt() != 0 || len(s.GetObserved().GetSandboxes()) != 0 {
		t.Fatalf("the second incarnation began with the sandboxes of the first: %v", s)
	}
	p.finished()
	p.handle(p.observed(&journaletv1.SandboxObservation{
		Id: "late", Attempt: 4, State: journaletv1.SandboxState_SANDBOX_STATE_READY,
	}))
	p.updated(add, "d")
	if s := p.Pod(); s.GetSandboxId() != "late" || s.GetNextSandboxAttempt() != 5 ||
		len(s.GetObserved().GetSandboxes()) != 1 {
		t.Fatalf("the third incarnation began without the observed sandbox: %v", s)
	}
}

// The node receives requests and ends in their order. So its decision about the first incarnation may come when the
// second one has requested admission.
func TestAdmissionOfEarlierIncarnationIsIgnored(t *testing.T) {
	p := newIncarnations(t)
	p.updated(add, "d")
	first := p.Pod().GetIncarnation()
	p.finished()
	p.updated(add, "d")
	second := p.Pod().GetIncarnation()
	p.admitted(first)
	if s := p.Pod().GetStage(); first == second || s != admitting {
		t.Fatalf("the admission of incarnation %d leads incarnation %d to %v", first, second, s)
	}
	p.admitted(second)
	if s := p.Pod().GetStage(); s != runningPod {
		t.Fatalf("the admission of the second incarnation leads to %v", s)
	}
}

func TestResizeOfEarlierIncarnationIsIgnored(t *testing.T) {
	p := newIncarnations(t)
	p.updated(add, "d")
	earlier := &journaletv1.ResizeDecided{Uid: "u", Digest: "before", Allocated: true, RequestId: p.seq}
	p.finished()
	p.updated(add, "d")
	p.handle(&journaletv1.ResizeRequested{Uid: "u", Digest: "now", RequestId: p.seq})
	was, now := proto.CloneOf(p.Pod()), p.Pod().GetIncarnation()
	p.handle(earlier)
	if !proto.Equal(was, p.Pod()) {
		t.Errorf("the decision for the first incarnation leads to %v, from %v", p.Pod(), was)
	}
	earlier.RequestId = now
	p.handle(earlier)
	if proto.Equal(was, p.Pod()) {
		t.Error("the decision for this incarnation changes nothing")
	}
}

// The node keeps sources apart. Where it could not, such as at the moment when a second one is configured, the pod
// stays the first one's, and is not quarantined.
func TestUpdateOfAnotherSourceIsIgnored(t *testing.T) {
	p := newIncarnations(t)
	p.updated(add, "d")
	for _, op := range []journaletv1.PodOperation{add, update, remove} {
		p.handleWith(updatedBy("http", op, "other"), "d")
		if len(p.decided) > 0 {
			t.Errorf("%s led to %v", op, p.decided)
		}
		if s := p.Pod(); s.GetSource() != "file" || s.GetPod().GetDigest() != "d" || s.GetRemoved() {
			t.Errorf("%s changed it: %v", op, s)
		}
	}
}
