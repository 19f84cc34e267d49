package dispatch

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// maxGraceCalls bounds the stops of containers under way at once. It only guards against a flood: such a call mostly
// waits.
const maxGraceCalls = 1024

// Bounds of the hooks under way at once. They run the containers' own programs, whose cost the agent does not know and
// which may never end: a postStart hook has no deadline.
const (
	// ownHookCalls is how many hooks a pod may run whatever the other pods run. Most pods have fewer containers.
	ownHookCalls = 8
	// maxHookCalls bounds the hooks of all pods, those within ownHookCalls excepted. It is twice the pods that a node
	// runs by default (kubelet: maxPods 110).
	maxHookCalls = 220
)

// Actor is the decider on the order of calls.
type Actor struct {
	state *journaletv1.RuntimeState
}

var _ actors.Decider = (*Actor)(nil)

// New returns the decider, without any call. The runtime counts as not ready until its health is reported.
func New() *Actor { return &Actor{state: withMaps(new(journaletv1.RuntimeState))} }

func withMaps(s *journaletv1.RuntimeState) *journaletv1.RuntimeState {
	if s.Calls == nil {
		s.Calls = map[string]*journaletv1.Call{}
	}
	if s.Queues == nil {
		s.Queues = map[int32]*journaletv1.CallQueue{}
	}
	if s.Busy == nil {
		s.Busy = map[int32]uint32{}
	}
	if s.Hooks == nil {
		s.Hooks = map[string]uint32{}
	}
	if s.Pods == nil {
		s.Pods = map[string]*journaletv1.PodCalls{}
	}
	if s.StartingPods == nil {
		s.StartingPods = map[string]*journaletv1.StartingPod{}
	}
	return s
}

// State returns the state, which the caller only reads.
func (a *Actor) State() proto.Message { return a.state }

// Runtime returns the state with its type.
func (a *Actor) Runtime() *journaletv1.RuntimeState { return a.state }

// Restore replaces the state.
func (a *Actor) Restore(b []byte) error {
	s := new(journaletv1.RuntimeState)
	if err := proto.Unmarshal(b, s); err != nil {
		return fmt.Errorf("restore runtime: %w", err)
	}
	a.state = withMaps(s)
	return nil
}

// Digests is empty.
func (a *Actor) Digests() []string { return nil }

// Resolve is never called.
func (a *Actor) Resolve(string, *corev1.Pod) {}

// Timers returns the timers of starting.go and config.go that are set.
func (a *Actor) Timers() *journaletv1.Timers { return a.state.GetTimers() }
