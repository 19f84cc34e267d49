package image

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// firstBackOff and maxBackOff bound the delay between two pulls for one pod and image.
	// kubelet: imageBackOff, 10 s doubling to 300 s.
	firstBackOff = 10 * time.Second
	maxBackOff   = 300 * time.Second
)

// Actor is the decider on images: their pulls and their removal.
type Actor struct {
	state *journaletv1.ImageState
}

var _ actors.Decider = (*Actor)(nil)

// New returns the decider. No pull is requested yet.
func New() *Actor { return &Actor{state: withMaps(new(journaletv1.ImageState))} }

func withMaps(s *journaletv1.ImageState) *journaletv1.ImageState {
	if s.Waits == nil {
		s.Waits = map[string]*journaletv1.ImageWait{}
	}
	if s.Pulls == nil {
		s.Pulls = map[string]*journaletv1.Pull{}
	}
	if s.Intents == nil {
		s.Intents = map[string]string{}
	}
	if s.Pulled == nil {
		s.Pulled = map[string]*journaletv1.PulledImage{}
	}
	if s.Images == nil {
		s.Images = map[string]*journaletv1.ImageRecord{}
	}
	if s.OperatorPulls == nil {
		s.OperatorPulls = map[string]*journaletv1.OperatorPullRequested{}
	}
	if s.OperatorRemovals == nil {
		s.OperatorRemovals = map[string]*journaletv1.ImageRemovalRequested{}
	}
	if s.Removals == nil {
		s.Removals = map[string]string{}
	}
	if s.Timers == nil {
		s.Timers = new(journaletv1.Timers)
	}
	return s
}

// State returns the state, which the caller only reads.
func (a *Actor) State() proto.Message { return a.state }

// Images returns the typed state, to be read only.
func (a *Actor) Images() *journaletv1.ImageState { return a.state }

// Restore replaces the state.
func (a *Actor) Restore(b []byte) error {
	s := new(journaletv1.ImageState)
	if err := proto.Unmarshal(b, s); err != nil {
		return fmt.Errorf("restore image: %w", err)
	}
	a.state = withMaps(s)
	return nil
}

// Digests is empty.
func (a *Actor) Digests() []string { return nil }

// Resolve is never called.
func (a *Actor) Resolve(string, *corev1.Pod) {}

// Timers returns the back-offs under way, and the timer of the maximum age.
func (a *Actor) Timers() *journaletv1.Timers { return a.state.GetTimers() }

func key(uid, image string) string { return uid + " " + image }
