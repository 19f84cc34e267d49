package query

import (
	"testing"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func TestPreemptedPodNamesItsPreemptor(t *testing.T) {
	w := newTestAgent(t)
	w.host.addPod(t, "u1", "default", "web")
	w.host.addPod(t, "u2", "shop", "low")
	p := messages.Pod("u1")
	pending := func(fullName string) *journaletv1.Event {
		return &journaletv1.Event{Kind: &journaletv1.Event_AdmissionPendingPreemption{
			AdmissionPendingPreemption: &journaletv1.AdmissionPendingPreemption{
				Uid: "u9", FullName: fullName, Victims: []string{"u1", "u2"},
			}}}
	}
	evolve := func(e *journaletv1.Event) {
		must.OK(t, w.host.actors[p].Evolve(actors.Event{Seq: 2, Time: at(1), Author: messages.Node, Body: e}))
	}
	evolve(&journaletv1.Event{Kind: &journaletv1.Event_AdmissionDecided{
		AdmissionDecided: &journaletv1.AdmissionDecided{Uid: "u1", Admitted: true}}})
	// u9 no longer exists: only the record has its name.
	evolve(pending("shop/critical"))
	w.fact(messages.Pod("u9"), 1, observed("u9"))
	w.step(messages.Node, 2, 1, pending("shop/critical"))
	w.step(p, 3, 2, startCall(0))
	w.flush(t)
	r, err := w.client(t).Pod(testContext(t), PodRequest{Pod: "web"})
	must.OK(t, err)
	if got := r.PreemptedFor; got == nil || got.String() != "shop/critical (UID u9)" {
		t.Errorf("preempted for %v", got)
	}
	const want = "admission of pod shop/critical (UID u9) pending preemption, " +
		"preempts default/web (UID u1), shop/low (UID u2)"
	if len(r.Decisions) != 1 || r.Decisions[0].CauseText != want {
		t.Errorf("decisions %+v, want the cause %q", r.Decisions, want)
	}
	// The event has the kubelet's reason and message.
	if len(r.Events) != 1 || r.Events[0].Reason != "Preempting" ||
		r.Events[0].Message != "Preempted in order to admit critical pod" {
		t.Errorf("its events are %+v", r.Events)
	}
}
