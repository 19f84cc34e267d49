package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// The requests of operators: to restart pods, to drain the node, and to end that (ADR 049). A request is recorded, and
// its outcome comes as events behind Recorded.After.

// maxClient bounds the name that a client gives itself, in bytes.
const maxClient = 256

// Recorded is the response to a request that was recorded.
type Recorded struct {
	// After is a record before the request's.
	After uint64 `json:"after"`
}

// RestartRequest requests the restart of a pod, or of one of its containers.
type RestartRequest struct {
	Pod       string `json:"pod"`
	Namespace string `json:"namespace,omitempty"`
	// Container is one container; empty: all of them.
	Container string `json:"container,omitempty"`
	// Client is who requests it.
	Client string `json:"client,omitempty"`
}

// RestartResponse is what is being restarted.
type RestartResponse struct {
	Recorded
	Pod PodName `json:"pod"`
	// Container is the one container; empty: all of them.
	Container string `json:"container,omitempty"`
	// Instances are the ids of the containers' instances before, by container; empty for a container that never ran.
	// Without any, the pod begins another incarnation.
	Instances map[string]string `json:"instances,omitempty"`
}

// DrainRequest requests a drain of the node.
type DrainRequest struct {
	Client string `json:"client,omitempty"`
	// GraceSeconds is the longest grace period of a pod; nil: each pod's own.
	GraceSeconds *int64 `json:"graceSeconds,omitempty"`
	// Critical ends system-critical pods, too.
	Critical bool `json:"critical,omitempty"`
	// DryRun reports what would end, and records nothing.
	DryRun bool `json:"dryRun,omitempty"`
}

// UncordonRequest requests the end of a drain.
type UncordonRequest struct {
	Client string `json:"client,omitempty"`
}

// DrainStatus is the drain of the node as it stands.
type DrainStatus struct {
	Recorded
	// Drained reports whether pods wait for an uncordon. Complete reports that no pod is left to end.
	Drained  bool `json:"drained"`
	Complete bool `json:"complete"`
	// ShuttingDown reports that the machine shuts down: nothing of the drain happens meanwhile.
	ShuttingDown bool      `json:"shuttingDown,omitempty"`
	Client       string    `json:"client,omitempty"`
	Since        time.Time `json:"since,omitzero"`
	// Pods are those on the node that run, end, or were ended by the drain, in the order of their ends.
	Pods []DrainPod `json:"pods"`
}

// The states of DrainPod.
const (
	DrainWaits = "waits" // others end before it
	DrainEnds  = "ends"
	DrainEnded = "ended" // it is admitted again after the drain
	DrainStays = "stays" // system-critical
)

// DrainPod is one pod of a DrainStatus.
type DrainPod struct {
	PodName
	Priority int32  `json:"priority"`
	State    string `json:"state"`
	// GraceSeconds is its grace period in a drain; Until is the end of it, for a pod that ends.
	GraceSeconds int64     `json:"graceSeconds"`
	Until        time.Time `json:"until,omitzero"`
	// Waits is what it waits for while it ends, the oldest first.
	Waits []PodWait `json:"waits,omitempty"`
}

// record records an operator's request as a fact.
func (s *server) record(ctx context.Context, about messages.Ref, body proto.Message) (Recorded, error) {
	if s.Fact == nil {
		return Recorded{}, &Error{CodeUnavailable, "this agent takes no requests that change something"}
	}
	after := s.Journal.Last()
	if err := s.Fact(ctx, about, messages.NewEvent(body)); err != nil {
		return Recorded{}, &Error{CodeUnavailable, fmt.Sprintf("the request could not be recorded: %v", err)}
	}
	return Recorded{After: after}, nil
}

func checkClient(client string) error {
	if len(client) > maxClient {
		return badRequest("the client's name has %d bytes, at most %d", len(client), maxClient)
	}
	return nil
}

// restart records the restart of a pod.
func (s *server) restart(ctx context.Context, q RestartRequest) (*RestartResponse, error) {
	if err := checkClient(q.Client); err != nil {
		return nil, err
	}
	v, _, err := s.findPod(ctx, q.Pod, q.Namespace)
	if err != nil {
		return nil, err
	}
	out := &RestartResponse{
		Pod:       PodName{Namespace: v.pod.Namespace, Name: v.pod.Name, UID: v.ref.ID},
		Container: q.Container, Instances: map[string]string{},
	}
	if err := s.canRestart(ctx, v.ref, q.Container); err != nil {
		return nil, &Error{CodeConflict, fmt.Sprintf("cannot restart pod %s/%s: %v", out.Pod.Namespace, out.Pod.Name, err)}
	}
	if v.state.stage == journaletv1.PodStage_POD_STAGE_RUNNING {
		for _, c := range slices.Concat(v.pod.Status.InitContainerStatuses, v.pod.Status.ContainerStatuses) {
			if q.Container == "" || q.Container == c.Name {
				out.Instances[c.Name] = c.ContainerID
			}
		}
	}
	out.Recorded, err = s.record(ctx, v.ref, &journaletv1.RestartRequested{
		Uid: v.ref.ID, Container: q.Container, Client: q.Client,
	})
	return out, err
}

// canRestart returns why a request would do nothing.
func (s *server) canRestart(ctx context.Context, ref messages.Ref, container string) error {
	got := make(chan error, 1)
	if err := s.Host.Inspect(ctx, ref, func(d actors.Decider) {
		if a, ok := d.(*pod.Actor); ok {
			got <- a.CanRestart(container)
		}
	}); err != nil {
		return err
	}
	select {
	case err := <-got:
		return err
	default:
		return errors.New("its actor does not respond")
	}
}

// drain records a drain, or with DryRun reports what it would end.
func (s *server) drain(ctx context.Context, q DrainRequest) (*DrainStatus, error) {
	if err := checkClient(q.Client); err != nil {
		return nil, err
	}
	request := &journaletv1.DrainRequested{Client: q.Client, Critical: q.Critical}
	if g := q.GraceSeconds; g != nil {
		if *g < 0 {
			return nil, badRequest("the grace period is %d s: want 0 or more", *g)
		}
		request.Grace = durationpb.New(time.Duration(*g) * time.Second)
	}
	if q.DryRun {
		return s.drainStatus(ctx, request)
	}
	recorded, err := s.record(ctx, messages.Node, request)
	if err != nil {
		return nil, err
	}
	out, err := s.drainStatus(ctx, request)
	if err == nil {
		out.Recorded = recorded
	}
	return out, err
}

// uncordon records the end of a drain. The response names what is admitted again.
func (s *server) uncordon(ctx context.Context, q UncordonRequest) (*DrainStatus, error) {
	if err := checkClient(q.Client); err != nil {
		return nil, err
	}
	out, err := s.drainStatus(ctx, nil)
	if err != nil {
		return nil, err
	}
	if !out.Drained {
		return nil, &Error{CodeConflict, "the node is not drained: there is nothing to end"}
	}
	out.Recorded, err = s.record(ctx, messages.Node, &journaletv1.UncordonRequested{Client: q.Client})
	return out, err
}

// drainState reports the drain as it stands.
func (s *server) drainState(ctx context.Context, _ struct{}) (*DrainStatus, error) {
	return s.drainStatus(ctx, nil)
}

// drainStatus returns the drain as it stands, or as request would begin it.
func (s *server) drainStatus(ctx context.Context, request *journaletv1.DrainRequested) (*DrainStatus, error) {
	got := make(chan node.DrainPlan, 1)
	if err := s.Host.Inspect(ctx, messages.Node, func(d actors.Decider) {
		if a, ok := d.(*node.Actor); ok {
			got <- a.Plan(request)
		}
	}); err != nil {
		return nil, &Error{CodeUnavailable, fmt.Sprintf("the node's actor does not respond: %v", err)}
	}
	plan := <-got
	out := &DrainStatus{
		Drained: plan.Drained, Complete: plan.Complete, ShuttingDown: plan.ShuttingDown, Client: plan.Client,
		Since: plan.Since, Pods: []DrainPod{},
	}
	budget := waitBudget(actorsTimeout)
	for _, p := range plan.Pods {
		d := DrainPod{PodName: PodName{UID: p.UID}, Priority: p.Priority, State: p.State}
		d.Namespace, d.Name = p.Namespace, p.Name
		s.drainDetails(ctx, &d, request, &budget)
		out.Pods = append(out.Pods, d)
	}
	return out, ctx.Err()
}

// drainDetails adds what the pod's actor has. One that does not respond leaves it out.
func (s *server) drainDetails(ctx context.Context, d *DrainPod, q *journaletv1.DrainRequested, budget *waitBudget) {
	ctx, cancel := context.WithTimeout(ctx, budget.next())
	defer cancel()
	begun := time.Now()
	defer func() { *budget -= waitBudget(time.Since(begun)) }()
	got := make(chan pod.Ending, 1)
	if err := s.Host.Inspect(ctx, messages.Pod(d.UID), func(a actors.Decider) {
		if a, ok := a.(*pod.Actor); ok {
			got <- a.Ending()
		}
	}); err != nil {
		return
	}
	select {
	case e := <-got:
		grace := e.Grace
		if g := q.GetGrace(); g != nil && g.AsDuration() < grace {
			grace = g.AsDuration()
		}
		d.GraceSeconds, d.Until, d.Waits = int64(grace/time.Second), e.Until, podWaits(e.Waits)
	default:
	}
}
