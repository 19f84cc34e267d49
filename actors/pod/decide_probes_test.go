package pod

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// probedPod is a running pod whose container main runs, with the probes it is given.
func probedPod(c corev1.Container) *Actor {
	a := New("u")
	c.Name, c.Image = "main", "app:1"
	a.manifest = &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{c}}}
	main := &journaletv1.ContainerObservation{
		Id: "main-0", Name: "main", SandboxId: "s0", Hash: ContainerHash(&c), StartedAt: timestamppb.New(noon),
		State: journaletv1.ContainerState_CONTAINER_STATE_RUNNING,
	}
	a.state.Stage, a.state.SandboxId = runningPod, "s0"
	a.state.Pod = &journaletv1.PodRef{Uid: "u", Namespace: "default", Name: "p", Digest: "d"}
	a.state.Observed = &journaletv1.PodObserved{
		Uid: "u", Containers: []*journaletv1.ContainerObservation{main},
		Sandboxes: []*journaletv1.SandboxObservation{{Id: "s0", State: journaletv1.SandboxState_SANDBOX_STATE_READY, Ips: []string{"10.0.0.1"}}},
	}
	a.state.Containers["main"] = &journaletv1.ContainerRecord{Name: "main", Current: main, NextAttempt: 1}
	return a
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// hear has an actor handle an event, and gives what it decided about calls and probes.
func hear(t *testing.T, a *Actor, seq uint64, e *journaletv1.Event) []string {
	t.Helper()
	in := actors.Input{Seq: seq, Time: noon, Events: []actors.Event{{Seq: seq, Time: noon, Author: a.self, Body: e}}}
	if err := a.Evolve(in.Events[0]); err != nil {
		t.Fatal(err)
	}
	var out []string
	n := 0
	err := a.Decide(in, func(e *journaletv1.Event) error {
		id := messages.DecisionID(1, seq, a.self, n)
		n++
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_ProbesSet:
			out = append(out, fmt.Sprint("probe ", k.ProbesSet.GetKinds()))
		case *journaletv1.Event_CallRequested:
			out = append(out, fmt.Sprintf("%T as %s", k.CallRequested.GetWork(), id))
		}
		return a.Evolve(actors.Event{ID: id, Seq: seq, Time: noon, Author: a.self, Body: e})
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func result(kind journaletv1.ProbeKind, ok bool) *journaletv1.Event {
	return &journaletv1.Event{Kind: &journaletv1.Event_ProbeResult{ProbeResult: &journaletv1.ProbeResult{
		Uid: "u", Container: "main", ContainerId: "main-0", Kind: kind, Success: ok,
	}}}
}

func decides(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: decided %v, want %v", what, got, want)
	}
}

var anything = &journaletv1.Event{Kind: &journaletv1.Event_CallDropped{CallDropped: &journaletv1.CallDropped{}}}

// What is asked for when a container with all three probes starts, and how it is seen to stand.
func TestAContainerIsStartedAndReadyAsItsProbesSay(t *testing.T) {
	p := new(corev1.Probe)
	a := probedPod(corev1.Container{StartupProbe: p, LivenessProbe: p, ReadinessProbe: p})
	c := &a.manifest.Spec.Containers[0]
	stands := func(what string, started, ready bool) {
		t.Helper()
		if a.started(c) != started || a.ready(c) != ready {
			t.Errorf("%s: started %t and ready %t, want %t and %t", what, a.started(c), a.ready(c), started, ready)
		}
	}
	decides(t, "at first", hear(t, a, 1, anything), "probe [PROBE_KIND_STARTUP]")
	stands("at first", false, false)
	decides(t, "again", hear(t, a, 2, anything))
	decides(t, "startup", hear(t, a, 3, result(startupProbe, true)), "probe [PROBE_KIND_LIVENESS PROBE_KIND_READINESS]")
	stands("after its startup", true, false)
	hear(t, a, 4, result(readinessProbe, true))
	stands("after a readiness probe", true, true)
	seeds := a.Probed()
	if len(seeds) != 1 || len(seeds[0].Results) != 2 || seeds[0].Set.GetContainerId() != "main-0" || seeds[0].Set.GetDigest() != "d" ||
		fmt.Sprint(seeds[0].Set.GetPodIps()) != "[10.0.0.1]" || !seeds[0].Set.GetStartedAt().AsTime().Equal(noon) {
		t.Errorf("a next run is seeded with %v", seeds)
	}
	hear(t, a, 5, result(readinessProbe, false))
	stands("after another one", true, false)
	// Another instance begins with none.
	next := a.state.Containers["main"]
	next.Current = &journaletv1.ContainerObservation{Id: "main-1", State: journaletv1.ContainerState_CONTAINER_STATE_RUNNING, StartedAt: timestamppb.New(noon)}
	stands("another instance", false, false)
	if seeds := a.Probed(); len(seeds) > 0 {
		t.Errorf("another instance is seeded with %v", seeds)
	}
}

// The end of a container that has a preStop hook takes several steps. Each asks for one thing, and the probe's failure,
// which stands all the while, for nothing more.
func TestAnEndThatHasBegunIsNotBegunAgainByItsProbe(t *testing.T) {
	a := probedPod(corev1.Container{
		LivenessProbe: new(corev1.Probe),
		Lifecycle:     &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}},
	})
	hear(t, a, 1, anything)
	decides(t, "the failure", hear(t, a, 2, result(livenessProbe, false)),
		"*journaletv1.CallRequested_RunHook as 1.2.pod/u.0", "probe []")
	decides(t, "meanwhile", hear(t, a, 3, anything))
	decides(t, "the hook's end", hear(t, a, 4, &journaletv1.Event{Kind: &journaletv1.Event_CallFinished{
		CallFinished: &journaletv1.CallFinished{IntentId: "1.2.pod/u.0", Requester: "pod/u"},
	}}), "*journaletv1.CallRequested_StopContainer as 1.4.pod/u.1")
	decides(t, "meanwhile", hear(t, a, 5, anything))
}
