package pod

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A terminating pod is never stuck without a reason: it reports what it waits for, and since when.
func TestTerminatingPodReportsItsWaits(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	runningRecord := func(name string) *journaletv1.ContainerRecord {
		return &journaletv1.ContainerRecord{Name: name, Current: &journaletv1.ContainerObservation{
			Id: name + "-0", Name: name, State: journaletv1.ContainerState_CONTAINER_STATE_RUNNING,
		}}
	}
	state := &journaletv1.PodState{
		Pod: &journaletv1.PodRef{Uid: "a", Digest: "sha256:1"}, Stage: journaletv1.PodStage_POD_STAGE_TERMINATING,
		TerminatingAt: timestamppb.New(begin),
		Containers: map[string]*journaletv1.ContainerRecord{
			"main": runningRecord("main"), "side": runningRecord("side"), "gone": runningRecord("gone"),
		},
		Observed: &journaletv1.PodObserved{Containers: []*journaletv1.ContainerObservation{{Id: "gone-0", Name: "gone"}}},
		Calls: map[string]*journaletv1.PodCall{"1.7.pod/a.0": {
			RequestedAt: timestamppb.New(begin.Add(-time.Second)),
			Request:     messages.NewCall(&journaletv1.StopContainer{Container: "main", ContainerId: "main-0"}),
		}},
		Timers: &journaletv1.Timers{Set: map[string]*journaletv1.Timer{
			tearDownTimer: {SetAt: timestamppb.New(begin.Add(time.Second))},
		}},
	}
	a := New("a")
	waits := func() (got []string) {
		stored, err := proto.Marshal(state)
		if err == nil {
			err = a.Restore(stored)
		}
		if err != nil {
			t.Fatal(err)
		}
		a.Resolve("sha256:1", &corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "side", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
			Containers:     []corev1.Container{{Name: "main"}, {Name: "gone"}},
		}})
		for _, w := range a.Waits() {
			call := w.IntentID + w.Call.GetStopContainer().GetContainer()
			got = append(got, fmt.Sprintf("%s %s%s", w.Since.Sub(begin), w.For, call))
		}
		return got
	}
	want := []string{
		"-1s 1.7.pod/a.0main",
		"0s an inspection that shows how container gone ended",
		"0s the containers that started after sidecar side, which ends after them",
		"1s the retry of a stop or a removal that failed",
	}
	if got := waits(); !slices.Equal(got, want) {
		t.Errorf("%q, want\n%q", got, want)
	}
	state.Stage = journaletv1.PodStage_POD_STAGE_RUNNING
	if got := waits(); got != nil {
		t.Errorf("a running pod waits for %q", got)
	}
}

func TestOrphanReportsItsWaits(t *testing.T) {
	p := newTestPod(t, nil)
	o := p.observed(&journaletv1.SandboxObservation{Id: "s"})
	o.PodNamespace, o.PodName = "shop", "web"
	p.handle(o)
	const first = "a source to name it within 1m0s: else it is removed once every configured source is synced"
	if w := p.Waits(); len(w) != 1 || w[0].For != first || w[0].Since.Year() != 2026 {
		t.Errorf("at first it waits for %v", w)
	}
	if o := p.Pod().GetObserved(); o.GetPodName()+o.GetPodNamespace() != "" {
		t.Errorf("the name stays in the observation: %v", o)
	}
	if v := p.View(Node{}); v.Namespace != "shop" || v.Name != "web" || v.UID != "u" || v.Status.Reason != ReasonOrphan ||
		v.DeletionTimestamp != nil {
		t.Errorf("it is shown as %v", v)
	}
	p.handle(&journaletv1.TimerFired{Name: orphanTimer, Generation: 1})
	if w := p.Waits(); len(w) != 1 || w[0].Since.Year() != 2026 {
		t.Errorf("it waits for %v", w)
	}
	p.handle(&journaletv1.OrphanConfirmed{Uid: "u"})
	if s := p.Pod(); s.GetStage() < cleaning {
		t.Errorf("its stage is %s", s.GetStage())
	}
	if v := p.View(Node{}); v.Name != "web" || v.DeletionTimestamp == nil || v.DeletionTimestamp.Year() != 2026 {
		t.Errorf("while it is cleaned up it is shown as %v", v)
	}
}

func TestPodThatIsNotAdmittedReportsItsWaits(t *testing.T) {
	p := newTestPod(t, map[string]*corev1.Pod{"d": podOf(corev1.Container{Name: "main"})})
	waits := func(event proto.Message, want string) {
		t.Helper()
		p.handle(event)
		if w := p.Waits(); len(w) != 1 || w[0].For != want || w[0].Since.Year() != 2026 {
			t.Errorf("it waits for %v, want %q", w, want)
		}
	}
	p.updated(add, "d")
	waits(&journaletv1.AdmissionDeferred{Uid: "u", HolderUid: "v"}, "the end of pod v, which has its name")
	waits(&journaletv1.AdmissionPendingPreemption{Uid: "u", Victims: []string{"w"}},
		"the end of its victims, pods of lower priority")
	p.admitted(p.Pod().GetIncarnation())
	if w := p.Waits(); len(w) > 0 {
		t.Errorf("a running pod waits for %v", w)
	}
}
