package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Node agents find a container's pod by these labels.
const (
	podNameLabel      = "io.kubernetes.pod.name"
	podNamespaceLabel = "io.kubernetes.pod.namespace"
)

// callTimeout bounds one call of the runtime.
const callTimeout = time.Minute

// runtime is the container runtime, as another client of it.
type runtime struct{ cri.RuntimeServiceClient }

func dial(endpoint string) (runtime, error) {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	return runtime{cri.NewRuntimeServiceClient(conn)}, err
}

// containers returns the running containers of a namespace by their pods' names.
func (r runtime) containers(ctx context.Context, namespace string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := r.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
		LabelSelector: map[string]string{podNamespaceLabel: namespace},
		State:         &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING},
	}})
	out := map[string]string{}
	for _, c := range list.GetContainers() {
		out[c.GetLabels()[podNameLabel]] = c.GetId()
	}
	return out, err
}

// kill kills a container behind the agent's back, and returns when it has ended.
func (r runtime) kill(ctx context.Context, id string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := r.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: id}); err != nil {
		return time.Time{}, err
	}
	status, err := r.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id})
	if err == nil && status.GetStatus().GetFinishedAt() == 0 {
		err = errors.New("the runtime reports no end of a killed container")
	}
	return time.Unix(0, status.GetStatus().GetFinishedAt()), err
}

// stops are the times at which the runtime has reported that containers have stopped, by their ids: no agent that
// listens to it can know earlier.
type stops struct {
	mu sync.Mutex
	at map[string]time.Time
}

// stops begins to follow the runtime's events, until ctx ends.
func (r runtime) stops(ctx context.Context) (*stops, error) {
	events, err := r.GetContainerEvents(ctx, &cri.GetEventsRequest{})
	if err != nil {
		return nil, err
	}
	s := &stops{at: map[string]time.Time{}}
	go func() {
		for {
			e, err := events.Recv()
			if err != nil {
				return
			}
			if e.GetContainerEventType() == cri.ContainerEventType_CONTAINER_STOPPED_EVENT {
				s.mu.Lock()
				s.at[e.GetContainerId()] = time.Now()
				s.mu.Unlock()
			}
		}
	}()
	return s, nil
}

// stoppedAt returns when a container stopped, zero if it has not.
func (s *stops) stoppedAt(id string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at[id]
}

// wipe removes every pod.
func (b *bench) wipe(ctx context.Context) error {
	list, err := b.runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	return each(len(list.GetItems()), func(i int) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		id := list.GetItems()[i].GetId()
		_, err := b.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id})
		_, err2 := b.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
		return errors.Join(err, err2)
	})
}
