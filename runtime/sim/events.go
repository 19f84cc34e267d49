package sim

import (
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Bounds of the event stream.
const (
	maxEventSubscribers = 16
	// maxQueuedEvents is how far a subscriber may fall behind before it is cut off.
	maxQueuedEvents = 1_000
	// maxHeldEvents and eventHoldTime bound what is kept for the next subscriber while nobody subscribes. containerd
	// holds events for 5 minutes.
	maxHeldEvents = 1_000
	eventHoldTime = 5 * time.Minute
)

type eventHub struct {
	subscribers []*subscriber
	held        []heldEvent
}

type subscriber struct {
	ch  chan *cri.ContainerEventResponse // closed when the subscriber is cut off
	err error                            // why, set before ch is closed
}

type heldEvent struct {
	event *cri.ContainerEventResponse
	until time.Time
}

// GetContainerEvents streams events from now on, beginning with those held while there was no subscriber.
func (s *runtimeService) GetContainerEvents(
	_ *cri.GetEventsRequest, stream cri.RuntimeService_GetContainerEventsServer,
) error {
	sub, err := s.r.subscribe()
	if err != nil {
		return err
	}
	defer s.r.unsubscribe(sub)
	for {
		select {
		case e, ok := <-sub.ch:
			if !ok {
				return sub.err
			}
			if err := stream.Send(e); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

// Subscribers is the number of open event streams.
func (r *Runtime) Subscribers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events.subscribers)
}

func (r *Runtime) subscribe() (*subscriber, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events.subscribers) >= maxEventSubscribers {
		return nil, status.Errorf(codes.ResourceExhausted, "%d event streams are open; close one", maxEventSubscribers)
	}
	sub := &subscriber{ch: make(chan *cri.ContainerEventResponse, maxQueuedEvents)}
	now := r.clock.Now()
	for _, h := range r.events.held {
		if now.Before(h.until) {
			sub.ch <- h.event // fits: maxHeldEvents <= maxQueuedEvents
		}
	}
	r.events.held = nil
	r.events.subscribers = append(r.events.subscribers, sub)
	return sub, nil
}

func (r *Runtime) unsubscribe(sub *subscriber) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events.remove(sub)
}

func (h *eventHub) remove(sub *subscriber) {
	h.subscribers = slices.DeleteFunc(h.subscribers, func(s *subscriber) bool { return s == sub })
}

// dropAll cuts every subscriber off and loses what is held.
func (h *eventHub) dropAll() {
	for _, s := range h.subscribers {
		s.err = status.Error(codes.Unavailable, "the runtime has crashed")
		close(s.ch)
	}
	h.subscribers, h.held = nil, nil
}

// publish sends an event about a container, or about a sandbox when id is the sandbox's own, with the statuses of the
// whole pod as they are now. r.mu is held.
func (r *Runtime) publish(id, sandboxID string, kind cri.ContainerEventType) {
	r.log.Debug("event", "kind", kind.String(), "id", id, "sandbox", sandboxID)
	if r.server.down || r.server.closed {
		return
	}
	e := &cri.ContainerEventResponse{ContainerId: id, ContainerEventType: kind, CreatedAt: r.stamp()}
	if s := r.state.sandboxes[sandboxID]; s != nil {
		e.PodSandboxStatus = s.status()
	}
	for _, c := range r.containersOf(sandboxID) {
		e.ContainersStatuses = append(e.ContainersStatuses, r.containerStatus(c))
	}
	for _, s := range slices.Clone(r.events.subscribers) {
		select {
		case s.ch <- e:
		default:
			s.err = status.Errorf(codes.ResourceExhausted,
				"event stream is %d events behind; list, then subscribe again", maxQueuedEvents)
			close(s.ch)
			r.events.remove(s)
		}
	}
	if len(r.events.subscribers) == 0 {
		if len(r.events.held) >= maxHeldEvents {
			r.events.held = slices.Delete(r.events.held, 0, 1)
		}
		r.events.held = append(r.events.held, heldEvent{e, r.clock.Now().Add(eventHoldTime)})
	}
}
