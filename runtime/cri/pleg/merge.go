package pleg

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
)

// listed is the result of the list calls for one pod: object id to state.
type listed map[string]objectState

type objectState struct {
	sandbox   journaletv1.SandboxState
	container journaletv1.ContainerState
}

// same reports whether an observation has all listed objects, in a state that is no older.
func (l listed) same(o *journaletv1.PodObserved) bool {
	if len(l) != len(o.GetSandboxes())+len(o.GetContainers()) {
		return false
	}
	for _, s := range o.GetSandboxes() {
		if got, ok := l[s.GetId()]; !ok || got.sandbox != s.GetState() {
			return false
		}
	}
	for _, c := range o.GetContainers() {
		if got, ok := l[c.GetId()]; !ok || Advance(c.GetState(), got.container) != c.GetState() {
			return false
		}
	}
	return true
}

// group groups this agent's objects by pod.
func (p *PLEG) group(sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) map[string]listed {
	out := map[string]listed{}
	add := func(x cri.Object, id string, s objectState) {
		uid := x.GetLabels()[cri.LabelPodUID]
		if uid == "" || !p.opts.Owner.Owns(x) {
			return
		}
		if out[uid] == nil {
			out[uid] = listed{}
		}
		out[uid][id] = s
	}
	for _, s := range sandboxes {
		add(s, s.GetId(), objectState{sandbox: sandboxState(s.GetState())})
	}
	for _, c := range containers {
		add(c, c.GetId(), objectState{container: containerState(c.GetState())})
	}
	return out
}

func sandboxState(s runtimeapi.PodSandboxState) journaletv1.SandboxState {
	if s == runtimeapi.PodSandboxState_SANDBOX_READY {
		return journaletv1.SandboxState_SANDBOX_STATE_READY
	}
	return journaletv1.SandboxState_SANDBOX_STATE_NOT_READY
}

func containerState(s runtimeapi.ContainerState) journaletv1.ContainerState {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return journaletv1.ContainerState_CONTAINER_STATE_CREATED
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return journaletv1.ContainerState_CONTAINER_STATE_RUNNING
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return journaletv1.ContainerState_CONTAINER_STATE_EXITED
	}
	return journaletv1.ContainerState_CONTAINER_STATE_UNKNOWN
}

// Advance returns the state that follows from an earlier and a current observation. An exited container stays exited,
// and a container that has run never returns to created: such a state was read earlier. A runtime may report a state as
// unknown and know it again later.
func Advance(before, now journaletv1.ContainerState) journaletv1.ContainerState {
	const (
		created = journaletv1.ContainerState_CONTAINER_STATE_CREATED
		exited  = journaletv1.ContainerState_CONTAINER_STATE_EXITED
	)
	if before == exited || before > created && now == created {
		return before
	}
	return now
}

// IsEmpty reports whether an observation has no sandbox and no container.
func IsEmpty(o *journaletv1.PodObserved) bool {
	return len(o.GetSandboxes())+len(o.GetContainers()) == 0
}

// Differs reports whether two observations differ, except for their time.
func Differs(a, b *journaletv1.PodObserved) bool {
	if len(a.GetSandboxes()) != len(b.GetSandboxes()) || len(a.GetContainers()) != len(b.GetContainers()) {
		return true
	}
	for i, s := range a.GetSandboxes() {
		if !proto.Equal(s, b.GetSandboxes()[i]) {
			return true
		}
	}
	for i, c := range a.GetContainers() {
		if !proto.Equal(c, b.GetContainers()[i]) {
			return true
		}
	}
	return false
}

// Sort sorts an observation, so that equal states give equal observations.
func Sort(o *journaletv1.PodObserved) {
	slices.SortFunc(o.Sandboxes, func(a, b *journaletv1.SandboxObservation) int {
		return cmp.Or(cmp.Compare(a.GetAttempt(), b.GetAttempt()), cmp.Compare(a.GetId(), b.GetId()))
	})
	slices.SortFunc(o.Containers, func(a, b *journaletv1.ContainerObservation) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetAttempt(), b.GetAttempt()),
			cmp.Compare(a.GetId(), b.GetId()))
	})
}

func timeOf(nanos int64) *timestamppb.Timestamp {
	if nanos <= 0 {
		return nil
	}
	return timestamppb.New(time.Unix(0, nanos))
}
