package pod

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// lives is a pod that is added and finished again and again, a second from one event to the next.
type lives struct {
	*Actor
	t  *testing.T
	at time.Time
}

func newLives(t *testing.T) *lives {
	return &lives{Actor: New("u"), t: t, at: time.Unix(1000, 0)}
}

func (l *lives) fold(e *journaletv1.Event) {
	l.t.Helper()
	l.at = l.at.Add(time.Second)
	if err := l.Evolve(actors.Event{Time: l.at, Body: e, Manifest: new(corev1.Pod)}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lives) add() {
	l.t.Helper()
	l.fold(&journaletv1.Event{Kind: &journaletv1.Event_PodUpdated{PodUpdated: &journaletv1.PodUpdated{
		Operation: journaletv1.PodOperation_POD_OPERATION_ADD, Pod: &journaletv1.PodRef{Uid: "u", Name: "p", Digest: "d"},
	}}})
}

func (l *lives) finish() {
	l.t.Helper()
	l.fold(&journaletv1.Event{Kind: &journaletv1.Event_PodFinished{PodFinished: &journaletv1.PodFinished{Uid: "u"}}})
}

// begin adds the pod at a record, and gives the question to the node that follows from it.
func (l *lives) begin(seq uint64) uint64 {
	l.t.Helper()
	l.add()
	var asked *journaletv1.AdmissionRequested
	err := l.Decide(actors.Input{Seq: seq, Time: l.at}, func(e *journaletv1.Event) error {
		if q := e.GetAdmissionRequested(); q != nil {
			asked = q
		}
		return l.Evolve(actors.Event{Seq: seq, Time: l.at, Body: e, Manifest: new(corev1.Pod)})
	})
	if err != nil || asked == nil {
		l.t.Fatalf("the pod asks %v, %v", asked, err)
	}
	return asked.GetIncarnation()
}

// TestWhatIsShownBetweenTwoLivesBelongsToTheNext: a look that differs is told once, and one may show, after a pod has finished and before
// it is added again, a sandbox that the runtime made for a journal that was lost.
func TestWhatIsShownBetweenTwoLivesBelongsToTheNext(t *testing.T) {
	a := newLives(t)
	observed := func(sandboxes ...*journaletv1.SandboxObservation) *journaletv1.Event {
		return &journaletv1.Event{Kind: &journaletv1.Event_PodObserved{
			PodObserved: &journaletv1.PodObserved{Uid: "u", ObservedAt: timestamppb.New(a.at), Sandboxes: sandboxes},
		}}
	}
	ready := &journaletv1.SandboxObservation{Id: "late", Attempt: 4, State: journaletv1.SandboxState_SANDBOX_STATE_READY}

	a.add()
	a.fold(observed(&journaletv1.SandboxObservation{Id: "first", Attempt: 7, State: journaletv1.SandboxState_SANDBOX_STATE_NOT_READY}))
	a.finish()
	a.add()
	if s := a.Pod(); s.GetNextSandboxAttempt() != 0 || len(s.GetObserved().GetSandboxes()) != 0 {
		t.Fatalf("a new life began with what the last one had: %v", s)
	}
	a.finish()
	a.fold(observed(ready))
	a.add()
	if s := a.Pod(); s.GetSandboxId() != "late" || s.GetNextSandboxAttempt() != 5 || len(s.GetObserved().GetSandboxes()) != 1 {
		t.Fatalf("a new life began without the sandbox that was shown: %v", s)
	}
}

// TestAnAnswerToALifeBeforeAdmitsNobody: the node hears of questions and ends in their order, so that the answer to the first question may
// come when a second one, of another life, is open.
func TestAnAnswerToALifeBeforeAdmitsNobody(t *testing.T) {
	a := newLives(t)
	answer := func(question uint64) *journaletv1.Event {
		return &journaletv1.Event{Kind: &journaletv1.Event_AdmissionDecided{
			AdmissionDecided: &journaletv1.AdmissionDecided{Uid: "u", Admitted: true, Incarnation: question},
		}}
	}

	first := a.begin(7)
	a.finish()
	second := a.begin(9)
	a.fold(answer(first))
	if a.Pod().GetStage() != admitting {
		t.Fatalf("the answer to the first life leads to %v", a.Pod().GetStage())
	}
	a.fold(answer(second))
	if a.Pod().GetStage() != runningPod {
		t.Fatalf("the answer to the second life leads to %v", a.Pod().GetStage())
	}
}

// TestAnAnswerToALifeBeforeAllocatesNothing: the same of questions about resources.
func TestAnAnswerToALifeBeforeAllocatesNothing(t *testing.T) {
	before := &journaletv1.ResizeDecided{Uid: "u", Digest: "before", Allocated: true, RequestId: 8}
	answer := &journaletv1.Event{Kind: &journaletv1.Event_ResizeDecided{ResizeDecided: before}}
	a := newLives(t)
	a.begin(7)
	a.finish()
	a.begin(9)
	a.fold(&journaletv1.Event{Kind: &journaletv1.Event_ResizeRequested{ResizeRequested: &journaletv1.ResizeRequested{Uid: "u", Digest: "now", RequestId: 9}}})
	was := proto.CloneOf(a.Pod())
	a.fold(answer)
	if !proto.Equal(was, a.Pod()) {
		t.Errorf("the answer to the first incarnation leads to %v, from %v", a.Pod(), was)
	}
	before.RequestId = 9
	a.fold(answer)
	if proto.Equal(was, a.Pod()) {
		t.Error("the answer to this incarnation leads to nothing")
	}
}
