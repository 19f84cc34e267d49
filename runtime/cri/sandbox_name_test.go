package cri_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/must"
)

// earlierPod has a container of another pod run, with the mark of an agent, and returns its id.
func (r *rig) earlierPod(name, podUID, agent string) string {
	r.t.Helper()
	ctx, rt := context.Background(), runtimeapi.NewRuntimeServiceClient(r.conn)
	labels := map[string]string{
		cri.LabelPodName: name, cri.LabelPodNamespace: "default", cri.LabelPodUID: podUID,
	}
	mark := map[string]string{cri.AnnotationAgent: agent}
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: podUID}, Labels: labels,
		Annotations: mark,
	}
	s, err := rt.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: sandbox})
	must.OK(r.t, err)
	c, err := rt.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: s.GetPodSandboxId(), SandboxConfig: sandbox, Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "old"}, Image: &runtimeapi.ImageSpec{Image: busybox},
			Command: []string{"sleep"}, Labels: labels, Annotations: mark,
		},
	})
	must.OK(r.t, err)
	_, err = rt.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: c.GetContainerId()})
	must.OK(r.t, err)
	return c.GetContainerId()
}

// static makes a pod one of a file.
func static(p *corev1.Pod) {
	p.Annotations = map[string]string{manifest.ConfigSourceAnnotation: string(manifest.SourceFile)}
}

func TestPodWaitsForAnEarlierOneOfItsName(t *testing.T) {
	r := newRig(t, nil)
	static(r.pod)
	old := r.earlierPod("web", "earlier", "agent-1")
	out := r.fails("s", runSandbox(0), journaletv1.CallError_CALL_ERROR_NAME_TAKEN,
		"container old of an earlier pod with this name still runs")
	if !out.GetRetryable() || out.GetNameHolderUid() != "earlier" || len(r.sandboxes()) != 1 {
		t.Errorf("%v, with sandboxes %v", out, r.sandboxes())
	}
	if again := r.perform("s", runSandbox(0), true); again.GetNameHolderUid() != "earlier" {
		t.Errorf("in doubt, and not done: %v", again)
	}
	must.OK(t, r.runtime.LoseTrack(old))
	r.fails("s", runSandbox(0), journaletv1.CallError_CALL_ERROR_NAME_TAKEN, "still runs")
	_, err := runtimeapi.NewRuntimeServiceClient(r.conn).StopContainer(t.Context(),
		&runtimeapi.StopContainerRequest{ContainerId: old})
	must.OK(t, err)
	r.done("s", runSandbox(0), false)
}

func TestPodWaitsForNoPodOfAnotherNameOrAgent(t *testing.T) {
	r := newRig(t, nil)
	static(r.pod)
	r.earlierPod("web-2", "other", "agent-1")
	r.earlierPod("web", "foreign", "agent-2")
	r.done("s", runSandbox(0), false)
	// What appears later is the node's to keep apart: no further list is needed for it.
	r.runtime.ResetCalls()
	r.done("s2", runSandbox(1), false)
	if calls := r.runtime.Calls(); calls["ListPodSandbox"] != 1 || calls["ListContainers"] != 0 {
		t.Errorf("%v, want one list, of the pod's sandboxes", calls)
	}
}

func TestPodOfTheAPIServerWaitsForNoOther(t *testing.T) {
	r := newRig(t, nil)
	r.earlierPod("web", "earlier", "agent-1")
	r.done("s", runSandbox(0), false)
}
