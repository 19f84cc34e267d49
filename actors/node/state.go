package node

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Actor is the decider of admission.
type Actor struct {
	state *journaletv1.NodeState
	// ips follows from state.
	ips addresses
}

var _ actors.Decider = (*Actor)(nil)

// New makes the decider, with nobody admitted.
func New() *Actor {
	return &Actor{state: withMaps(new(journaletv1.NodeState)), ips: addresses{}}
}

func withMaps(s *journaletv1.NodeState) *journaletv1.NodeState {
	if s.Pods == nil {
		s.Pods = map[string]*journaletv1.AdmittedPod{}
	}
	if s.Names == nil {
		s.Names = map[string]string{}
	}
	if s.Waiting == nil {
		s.Waiting = map[string]*journaletv1.WaitingPods{}
	}
	if s.HostPorts == nil {
		s.HostPorts = map[string]string{}
	}
	if s.WaitsFor == nil {
		s.WaitsFor = map[string]string{}
	}
	if s.Uids == nil {
		s.Uids = map[string]*journaletv1.UidClaims{}
	}
	if s.Resizes == nil {
		s.Resizes = map[string]*journaletv1.WaitingResize{}
	}
	if s.Used == nil {
		s.Used = new(journaletv1.PodDemand)
	}
	return s
}

// State is the state, to be read only.
func (a *Actor) State() proto.Message { return a.state }

// Node is the state with its type.
func (a *Actor) Node() *journaletv1.NodeState { return a.state }

// Restore replaces the state.
func (a *Actor) Restore(b []byte) error {
	s := new(journaletv1.NodeState)
	if err := proto.Unmarshal(b, s); err != nil {
		return fmt.Errorf("restore node: %w", err)
	}
	a.state = withMaps(s)
	a.ips = addressesOf(a.state)
	return nil
}

// Digests is empty: what a pod demands is in its question.
func (a *Actor) Digests() []string { return nil }

// Resolve is never called.
func (a *Actor) Resolve(string, *corev1.Pod) {}

// Timers is nil: the node waits for nothing.
func (a *Actor) Timers() *journaletv1.Timers { return nil }
