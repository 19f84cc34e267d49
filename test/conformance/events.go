package conformance

import (
	"context"
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// events follows one pod through its life. Events of other pods pass by unread.
func (s *suite) events(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	stream, err := s.runtime.GetContainerEvents(ctx, &cri.GetEventsRequest{})
	if err != nil {
		t.Fatalf("GetContainerEvents: %v", err)
	}
	p := s.newPod(t)
	next := func(id string, want cri.ContainerEventType) *cri.ContainerEventResponse {
		t.Helper()
		for {
			e, err := stream.Recv()
			if err != nil {
				t.Fatalf("waiting for %s of %s: %v", want, id, err)
			}
			if e.GetContainerId() != id {
				continue
			}
			if e.GetContainerEventType() != want {
				t.Fatalf("event of %s is %s, want %s", id, e.GetContainerEventType(), want)
			}
			if e.GetCreatedAt() == 0 {
				t.Error("an event carries no time")
			}
			return e
		}
	}
	equal(t, "sandbox state in its first event", next(p.id, cri.ContainerEventType_CONTAINER_CREATED_EVENT).GetPodSandboxStatus().GetState(), cri.PodSandboxState_SANDBOX_READY)
	next(p.id, cri.ContainerEventType_CONTAINER_STARTED_EVENT)

	id := p.create(t, p.containerConfig("main", forever()...))
	e := next(id, cri.ContainerEventType_CONTAINER_CREATED_EVENT)
	s.inEvent(t, e, p, id, cri.ContainerState_CONTAINER_CREATED)
	if _, err := s.runtime.StartContainer(call(t), &cri.StartContainerRequest{ContainerId: id}); err != nil {
		t.Fatalf("StartContainer: %v", err)
	}
	e = next(id, cri.ContainerEventType_CONTAINER_STARTED_EVENT)
	s.inEvent(t, e, p, id, cri.ContainerState_CONTAINER_RUNNING)
	s.stopContainer(t, id, 0)
	e = next(id, cri.ContainerEventType_CONTAINER_STOPPED_EVENT)
	equal(t, "exit code in the event", s.inEvent(t, e, p, id, cri.ContainerState_CONTAINER_EXITED).GetExitCode(), 137)
	if _, err := s.runtime.RemoveContainer(call(t), &cri.RemoveContainerRequest{ContainerId: id}); err != nil {
		t.Fatalf("RemoveContainer: %v", err)
	}
	e = next(id, cri.ContainerEventType_CONTAINER_DELETED_EVENT)
	equal(t, "statuses in the last event", len(e.GetContainersStatuses()), 0)

	ends := p.start(t, p.containerConfig("ends", script("sleep 0.2; exit 4")...))
	next(ends, cri.ContainerEventType_CONTAINER_CREATED_EVENT)
	next(ends, cri.ContainerEventType_CONTAINER_STARTED_EVENT)
	e = next(ends, cri.ContainerEventType_CONTAINER_STOPPED_EVENT)
	equal(t, "exit code in the event", s.inEvent(t, e, p, ends, cri.ContainerState_CONTAINER_EXITED).GetExitCode(), 4)

	if _, err := s.runtime.StopPodSandbox(call(t), &cri.StopPodSandboxRequest{PodSandboxId: p.id}); err != nil {
		t.Fatalf("StopPodSandbox: %v", err)
	}
	e = next(p.id, cri.ContainerEventType_CONTAINER_STOPPED_EVENT)
	equal(t, "sandbox state in its event", e.GetPodSandboxStatus().GetState(), cri.PodSandboxState_SANDBOX_NOTREADY)
	if _, err := s.runtime.RemovePodSandbox(call(t), &cri.RemovePodSandboxRequest{PodSandboxId: p.id}); err != nil {
		t.Fatalf("RemovePodSandbox: %v", err)
	}
	next(p.id, cri.ContainerEventType_CONTAINER_DELETED_EVENT)
}

// inEvent finds a container's status in an event about its pod.
func (s *suite) inEvent(t *testing.T, e *cri.ContainerEventResponse, p *pod, id string, want cri.ContainerState) *cri.ContainerStatus {
	t.Helper()
	equal(t, "sandbox in the event", e.GetPodSandboxStatus().GetId(), p.id)
	for _, st := range e.GetContainersStatuses() {
		if st.GetId() == id {
			equal(t, "state in the event "+e.GetContainerEventType().String(), st.GetState(), want)
			return st
		}
	}
	t.Errorf("event %s of %s carries no status of it", e.GetContainerEventType(), id)
	return nil
}
