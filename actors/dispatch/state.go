package dispatch

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// maxGraceCalls bounds stops of containers under way at once. It only guards against a flood: such
// a call spends its time waiting.
const maxGraceCalls = 1024

// maxHookCalls bounds hooks under way at once where the state says nothing: the containers' own programs, of which the agent
// does not know what they take. Twice the pods that a node has by default (kubelet: maxPods 110), so that each may run one,
// and a few that hang keep no other from its turn.
const maxHookCalls = 220

// Actor is the decider that orders calls.
type Actor struct {
	state *journaletv1.RuntimeState
}

var _ actors.Decider = (*Actor)(nil)

// New makes the decider, with nothing requested. Until its health is told the runtime counts as not ready.
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
	if s.Pods == nil {
		s.Pods = map[string]*journaletv1.PodCalls{}
	}
	if s.StartingPods == nil {
		s.StartingPods = map[string]*journaletv1.StartingPod{}
	}
	return s
}

// State is the state, to be read only.
func (a *Actor) State() proto.Message { return a.state }

// Runtime is the state with its type.
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

// Timers holds the one timer of openings.go, while it runs.
func (a *Actor) Timers() *journaletv1.Timers { return a.state.GetTimers() }
