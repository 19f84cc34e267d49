package node

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Actor is the decider on admission.
type Actor struct {
	state *journaletv1.NodeState
	// addresses and victims are derived from state. victims are the preempted pods that have not terminated.
	addresses addresses
	victims   map[string]bool
	// requested are the manifests of requests that are not decided yet, by UID, as far as they were seen or resolved;
	// answered are the pods that the last NodeObserved was read for.
	requested map[string]*corev1.Pod
	answered  []string
}

var _ actors.Decider = (*Actor)(nil)

// New returns the decider. No pod is admitted yet.
func New() *Actor {
	return &Actor{
		state: withMaps(new(journaletv1.NodeState)), addresses: addresses{}, victims: map[string]bool{},
		requested: map[string]*corev1.Pod{},
	}
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
	if s.Timers == nil {
		s.Timers = new(journaletv1.Timers)
	}
	if s.Pressure == nil {
		s.Pressure = new(journaletv1.NodePressure)
	}
	if s.Used == nil {
		s.Used = new(journaletv1.PodDemand)
	}
	return s
}

// State returns the state, which the caller only reads.
func (a *Actor) State() proto.Message { return a.state }

// Node returns the state with its type.
func (a *Actor) Node() *journaletv1.NodeState { return a.state }

// Restore replaces the state.
func (a *Actor) Restore(b []byte) error {
	s := new(journaletv1.NodeState)
	if err := proto.Unmarshal(b, s); err != nil {
		return fmt.Errorf("restore node: %w", err)
	}
	a.state = withMaps(s)
	a.addresses, a.victims = addressesOf(a.state), victimsOf(a.state)
	a.requested, a.answered = map[string]*corev1.Pod{}, nil
	return nil
}

func victimsOf(s *journaletv1.NodeState) map[string]bool {
	victims := map[string]bool{}
	for _, uid := range slices.Sorted(maps.Keys(s.Pods)) {
		if p := s.Pods[uid]; p.GetPreempted() && !p.GetTerminated() {
			victims[uid] = true
		}
	}
	return victims
}

// Digests are the manifests of pods that wait for a read of the Node. All others were decided on, as far as their
// manifest matters, when they requested it.
func (a *Actor) Digests() []string {
	var all []string
	for _, uid := range a.waitingFor(a.state.GetNodeReadId()) {
		if q := a.waitingRequest(uid); q != nil {
			all = append(all, q.GetDigest())
		}
	}
	return all
}

// Resolve takes a manifest that Digests names.
func (a *Actor) Resolve(digest string, manifest *corev1.Pod) {
	for _, uid := range a.waitingFor(a.state.GetNodeReadId()) {
		if a.waitingRequest(uid).GetDigest() == digest {
			a.requested[uid] = manifest
		}
	}
}

// Timers returns the timers that are set.
func (a *Actor) Timers() *journaletv1.Timers { return a.state.GetTimers() }
