package pod

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// probedPod is a running pod whose container main runs, with the probes it is given.
func probedPod(t *testing.T, c corev1.Container) *testPod {
	c.Name, c.Image = "main", "app:1"
	p := newTestPod(t, nil)
	p.manifest = podOf(c)
	main := &journaletv1.ContainerObservation{
		Id: "main-0", Name: "main", SandboxId: "s0", Hash: ContainerHash(&c), StartedAt: timestamppb.New(noon),
		State: journaletv1.ContainerState_CONTAINER_STATE_RUNNING,
	}
	p.state.Stage, p.state.SandboxId = runningPod, "s0"
	p.state.Pod = &journaletv1.PodRef{Uid: "u", Namespace: "default", Name: "p", Digest: "d"}
	p.state.Observed = p.observed(&journaletv1.SandboxObservation{
		Id: "s0", State: journaletv1.SandboxState_SANDBOX_STATE_READY, Ips: []string{"10.0.0.1"},
	})
	p.state.Observed.Containers = []*journaletv1.ContainerObservation{main}
	p.state.Containers["main"] = &journaletv1.ContainerRecord{Name: "main", Current: main, NextAttempt: 1}
	return p
}

// decides checks what a pod decides about probes and calls when it handles an event.
func (p *testPod) decides(what string, event proto.Message, want ...string) {
	p.t.Helper()
	p.handle(event)
	var got []string
	for _, d := range p.decided {
		switch k := d.GetKind().(type) {
		case *journaletv1.Event_ProbesSet:
			got = append(got, fmt.Sprint("probe ", k.ProbesSet.GetKinds()))
		case *journaletv1.Event_CallRequested:
			got = append(got, fmt.Sprintf("%T", k.CallRequested.GetWork()))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		p.t.Errorf("%s: decided %v, want %v", what, got, want)
	}
}

func result(kind journaletv1.ProbeKind, ok bool) *journaletv1.ProbeResult {
	return &journaletv1.ProbeResult{Uid: "u", Container: "main", ContainerId: "main-0", Kind: kind, Success: ok}
}

// anything is an event that changes nothing.
var anything = new(journaletv1.CallDropped)

func TestProbesOfContainerFollowItsStart(t *testing.T) {
	probe := new(corev1.Probe)
	p := probedPod(t, corev1.Container{StartupProbe: probe, LivenessProbe: probe, ReadinessProbe: probe})
	c := &p.manifest.Spec.Containers[0]
	is := func(when string, started, ready bool) {
		t.Helper()
		if p.started(c) != started || p.ready(c) != ready {
			t.Errorf("%s: started %t and ready %t, want %t and %t", when, p.started(c), p.ready(c), started, ready)
		}
	}
	p.decides("at first", anything, "probe [PROBE_KIND_STARTUP]")
	is("at first", false, false)
	p.decides("again", anything)
	p.decides("startup", result(startupProbe, true), "probe [PROBE_KIND_LIVENESS PROBE_KIND_READINESS]")
	is("after its startup", true, false)
	p.handle(result(readinessProbe, true))
	is("after a readiness probe", true, true)
	seeds := p.Probed()
	if len(seeds) != 1 || len(seeds[0].Results) != 2 || seeds[0].Set.GetContainerId() != "main-0" ||
		seeds[0].Set.GetDigest() != "d" || fmt.Sprint(seeds[0].Set.GetPodIps()) != "[10.0.0.1]" ||
		!seeds[0].Set.GetStartedAt().AsTime().Equal(noon) {
		t.Errorf("the next run of the agent is seeded with %v", seeds)
	}
	p.handle(result(readinessProbe, false))
	is("after a failed readiness probe", true, false)
	p.state.Containers["main"].Current = &journaletv1.ContainerObservation{
		Id: "main-1", State: journaletv1.ContainerState_CONTAINER_STATE_RUNNING, StartedAt: timestamppb.New(noon),
	}
	is("another instance", false, false)
	if seeds := p.Probed(); len(seeds) > 0 {
		t.Errorf("another instance is seeded with %v", seeds)
	}
}

// The termination of a container with a preStop hook takes several steps. Each requests one thing, and the probe's
// failure, which stays, requests nothing more.
func TestFailedProbeBeginsOneTermination(t *testing.T) {
	p := probedPod(t, corev1.Container{
		LivenessProbe: new(corev1.Probe),
		Lifecycle: &corev1.Lifecycle{
			PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}},
		},
	})
	p.handle(anything)
	p.decides("the failure", result(livenessProbe, false), "*journaletv1.CallRequested_RunHook", "probe []")
	p.decides("meanwhile", anything)
	p.decides("the hook's end", &journaletv1.CallFinished{IntentId: p.ids["main"], Requester: "pod/u"},
		"*journaletv1.CallRequested_StopContainer")
	p.decides("meanwhile", anything)
}
