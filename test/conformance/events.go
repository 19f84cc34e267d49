package conformance

import (
	"context"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// connectTimeout is how long the first event of a pod may take.
	connectTimeout = 5 * time.Second
	// maxUnread is how many events may wait for the test. containerd keeps the events of five minutes while nobody
	// subscribes, and a subscriber that stops reading stops every call that reports an event.
	maxUnread = 100_000
)

// events checks the events of one pod from its creation to its removal. It ignores the events of other pods.
func (s *suite) events(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	stream, err := s.runtime.GetContainerEvents(ctx, &cri.GetEventsRequest{})
	if err != nil {
		t.Fatalf("GetContainerEvents: %v", err)
	}
	events := make(chan *cri.ContainerEventResponse, maxUnread)
	go func() {
		defer close(events)
		for {
			e, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	s.connected(t, events)
	p := s.newPod(t)
	next := func(id string, want cri.ContainerEventType) *cri.ContainerEventResponse {
		t.Helper()
		for e := range events {
			if e.GetContainerId() != id {
				continue
			}
			if e.GetContainerEventType() != want {
				t.Fatalf("event of %s is %s, want %s", id, e.GetContainerEventType(), want)
			}
			if e.GetCreatedAt() == 0 {
				t.Error("an event has no time")
			}
			return e
		}
		t.Fatalf("the stream ended before %s of %s", want, id)
		return nil
	}
	e := next(p.id, cri.ContainerEventType_CONTAINER_CREATED_EVENT)
	equal(t, "sandbox state in its first event", e.GetPodSandboxStatus().GetState(), cri.PodSandboxState_SANDBOX_READY)
	next(p.id, cri.ContainerEventType_CONTAINER_STARTED_EVENT)

	id := p.create(t, p.containerConfig("main", forever()...))
	e = next(id, cri.ContainerEventType_CONTAINER_CREATED_EVENT)
	s.inEvent(t, e, p, id, cri.ContainerState_CONTAINER_CREATED)
	must(t, s.runtime.StartContainer, &cri.StartContainerRequest{ContainerId: id})
	e = next(id, cri.ContainerEventType_CONTAINER_STARTED_EVENT)
	s.inEvent(t, e, p, id, cri.ContainerState_CONTAINER_RUNNING)
	s.stopContainer(t, id, 0)
	e = next(id, cri.ContainerEventType_CONTAINER_STOPPED_EVENT)
	exited := cri.ContainerState_CONTAINER_EXITED
	equal(t, "exit code in the event", s.inEvent(t, e, p, id, exited).GetExitCode(), 137)
	must(t, s.runtime.RemoveContainer, &cri.RemoveContainerRequest{ContainerId: id})
	e = next(id, cri.ContainerEventType_CONTAINER_DELETED_EVENT)
	equal(t, "statuses in the last event", len(e.GetContainersStatuses()), 0)

	ends := p.start(t, p.containerConfig("ends", script("sleep 0.2; exit 4")...))
	next(ends, cri.ContainerEventType_CONTAINER_CREATED_EVENT)
	next(ends, cri.ContainerEventType_CONTAINER_STARTED_EVENT)
	e = next(ends, cri.ContainerEventType_CONTAINER_STOPPED_EVENT)
	equal(t, "exit code in the event", s.inEvent(t, e, p, ends, exited).GetExitCode(), 4)

	must(t, s.runtime.StopPodSandbox, &cri.StopPodSandboxRequest{PodSandboxId: p.id})
	e = next(p.id, cri.ContainerEventType_CONTAINER_STOPPED_EVENT)
	equal(t, "sandbox state in its event", e.GetPodSandboxStatus().GetState(), cri.PodSandboxState_SANDBOX_NOTREADY)
	must(t, s.runtime.RemovePodSandbox, &cri.RemovePodSandboxRequest{PodSandboxId: p.id})
	next(p.id, cri.ContainerEventType_CONTAINER_DELETED_EVENT)
}

// connected creates pods until the stream has an event of one: a runtime may take the subscription after the call has
// returned, and sends what happened before to other subscribers only.
func (s *suite) connected(t *testing.T, events <-chan *cri.ContainerEventResponse) {
	t.Helper()
	for range 10 {
		id := s.newPod(t).id
		late := time.After(connectTimeout)
		for seen := true; seen; {
			select {
			case e, open := <-events:
				if !open {
					t.Fatal("the stream ended before its first event")
				}
				if e.GetContainerId() == id {
					return
				}
			case <-late:
				seen = false
			}
		}
	}
	t.Fatalf("no event of ten pods within %s each", connectTimeout)
}

// inEvent returns a container's status in an event of its pod.
func (s *suite) inEvent(
	t *testing.T, e *cri.ContainerEventResponse, p *pod, id string, want cri.ContainerState,
) *cri.ContainerStatus {
	t.Helper()
	equal(t, "sandbox in the event", e.GetPodSandboxStatus().GetId(), p.id)
	for _, st := range e.GetContainersStatuses() {
		if st.GetId() == id {
			equal(t, "state in the event "+e.GetContainerEventType().String(), st.GetState(), want)
			return st
		}
	}
	t.Errorf("event %s of container %s has no status of it", e.GetContainerEventType(), id)
	return nil
}
