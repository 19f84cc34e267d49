package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// told lets an actor hear one event, and gives what it decided.
func told(t *testing.T, a *Actor, e *journaletv1.Event) []*journaletv1.Event {
	t.Helper()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	in := actors.Event{Seq: 1, Time: now, Body: e, Manifest: &corev1.Pod{}}
	if err := a.Evolve(in); err != nil {
		t.Fatal(err)
	}
	var decided []*journaletv1.Event
	if err := a.Decide(actors.Input{Seq: 1, Time: now, Events: []actors.Event{in}}, func(e *journaletv1.Event) error {
		decided = append(decided, e)
		return a.Evolve(actors.Event{ID: "1.1.pod/u.0", Seq: 1, Time: now, Body: e})
	}); err != nil {
		t.Fatal(err)
	}
	return decided
}

func updated(op journaletv1.PodOperation, source string) *journaletv1.Event {
	return &journaletv1.Event{Kind: &journaletv1.Event_PodUpdated{PodUpdated: &journaletv1.PodUpdated{
		Operation: op, Source: source, Pod: &journaletv1.PodRef{Uid: "u", Namespace: "d", Name: source, Digest: source},
	}}}
}

// The node keeps sources apart. Where it could not, such as in the moment in which a second one is configured, the pod is the
// first one's, and no reason for a quarantine.
func TestAnotherSourcesWordIsNotForThisPod(t *testing.T) {
	a := New("u")
	told(t, a, updated(journaletv1.PodOperation_POD_OPERATION_ADD, "file"))
	for _, op := range []journaletv1.PodOperation{
		journaletv1.PodOperation_POD_OPERATION_ADD, journaletv1.PodOperation_POD_OPERATION_UPDATE, journaletv1.PodOperation_POD_OPERATION_REMOVE,
	} {
		if decided := told(t, a, updated(op, "http")); len(decided) > 0 {
			t.Errorf("%s was decided upon: %v", op, decided)
		}
		if s := a.Pod(); s.GetSource() != "file" || s.GetPod().GetName() != "file" || s.GetRemoved() {
			t.Errorf("%s changed it: %v", op, s)
		}
	}
}

func TestAPodThatNobodyNamesSaysWhatItWaitsFor(t *testing.T) {
	a := New("u")
	told(t, a, &journaletv1.Event{Kind: &journaletv1.Event_PodObserved{PodObserved: &journaletv1.PodObserved{
		Uid: "u", Sandboxes: []*journaletv1.SandboxObservation{{Id: "s"}}, PodNamespace: "shop", PodName: "web",
	}}})
	const first = "a source to name it: what none has named 1m0s later is cleared away once every configured source has been read"
	if w := a.Waits(); len(w) != 1 || w[0].For != first || w[0].Since.Year() != 2026 {
		t.Errorf("at first it waits for %v", w)
	}
	if o := a.Pod().GetObserved(); o.GetPodName()+o.GetPodNamespace() != "" {
		t.Errorf("the name stays in what was observed: %v", o)
	}
	if p := a.View(Node{}); p.Namespace != "shop" || p.Name != "web" || p.UID != "u" || p.Status.Reason != ReasonOrphan || p.DeletionTimestamp != nil {
		t.Errorf("it is shown as %v", p)
	}
	told(t, a, &journaletv1.Event{Kind: &journaletv1.Event_TimerFired{TimerFired: &journaletv1.TimerFired{Name: orphanTimer, Generation: 1}}})
	if w := a.Waits(); len(w) != 1 || w[0].Since.Year() != 2026 {
		t.Errorf("it waits for %v", w)
	}
	told(t, a, &journaletv1.Event{Kind: &journaletv1.Event_OrphanConfirmed{OrphanConfirmed: &journaletv1.OrphanConfirmed{Uid: "u"}}})
	if s := a.Pod(); s.GetStage() < cleaning {
		t.Errorf("its stage is %s", s.GetStage())
	}
	if p := a.View(Node{}); p.Name != "web" || p.DeletionTimestamp == nil || p.DeletionTimestamp.Year() != 2026 {
		t.Errorf("while it is cleared away it is shown as %v", p)
	}
}

func TestAPodThatIsNotAdmittedSaysWhatItWaitsFor(t *testing.T) {
	a := New("u")
	waits := func(event *journaletv1.Event, want string) {
		t.Helper()
		told(t, a, event)
		if w := a.Waits(); len(w) != 1 || w[0].For != want || w[0].Since.Year() != 2026 {
			t.Errorf("it waits for %v, want %q", w, want)
		}
	}
	told(t, a, updated(journaletv1.PodOperation_POD_OPERATION_ADD, "file"))
	waits(&journaletv1.Event{Kind: &journaletv1.Event_AdmissionDeferred{AdmissionDeferred: &journaletv1.AdmissionDeferred{Uid: "u", HolderUid: "v"}}},
		"the end of pod v, which has its name")
	waits(&journaletv1.Event{Kind: &journaletv1.Event_AdmissionPendingPreemption{AdmissionPendingPreemption: &journaletv1.AdmissionPendingPreemption{Uid: "u", Victims: []string{"w"}}}},
		"the end of pods of lower priority, which make room for it")
	told(t, a, &journaletv1.Event{Kind: &journaletv1.Event_AdmissionDecided{AdmissionDecided: &journaletv1.AdmissionDecided{Uid: "u", Admitted: true, Incarnation: 1}}})
	if w := a.Waits(); len(w) > 0 {
		t.Errorf("a pod that runs waits for %v", w)
	}
}
