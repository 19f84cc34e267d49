package source

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Actor is the decider for one source.
type Actor struct {
	state *journaletv1.SourceState
	// claims are derived from state.
	claims claims
	// touched is what the last read may have changed. It is used between the fold of a read and the decision on it.
	touched touched
}

var _ actors.Decider = (*Actor)(nil)

// New returns the decider for the source with this name. It has read nothing yet.
func New(name string) *Actor {
	return &Actor{state: withMaps(&journaletv1.SourceState{Name: name}), claims: claims{}}
}

func withMaps(s *journaletv1.SourceState) *journaletv1.SourceState {
	if s.Files == nil {
		s.Files = map[string]*journaletv1.ManifestFile{}
	}
	if s.Pods == nil {
		s.Pods = map[string]*journaletv1.SourcePod{}
	}
	if s.Ignored == nil {
		s.Ignored = map[string]*journaletv1.IgnoredManifest{}
	}
	return s
}

// State returns the state, which the caller only reads.
func (a *Actor) State() proto.Message { return a.state }

// Source returns the state with its type.
func (a *Actor) Source() *journaletv1.SourceState { return a.state }

// Restore replaces the state.
func (a *Actor) Restore(b []byte) error {
	s := new(journaletv1.SourceState)
	if err := proto.Unmarshal(b, s); err != nil {
		return fmt.Errorf("restore source: %w", err)
	}
	a.state = withMaps(s)
	a.claims, a.touched = claimsOf(a.state), touched{}
	return nil
}

// Digests is empty: a source reads no manifests.
func (a *Actor) Digests() []string { return nil }

// Resolve is never called: a source reads no manifests.
func (a *Actor) Resolve(string, *corev1.Pod) {}

// Timers is nil: a source sets no timers.
func (a *Actor) Timers() *journaletv1.Timers { return nil }
