package source

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Actor is the decider over one source.
type Actor struct {
	state *journaletv1.SourceState
	// claims follows from state.
	claims claims
	// touched is what the last reading may have changed. It matters between the fold of a reading and the decision on it.
	touched touched
}

var _ actors.Decider = (*Actor)(nil)

// New makes the decider over the source with this name, with nothing read yet.
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

// State is the state, to be read only.
func (a *Actor) State() proto.Message { return a.state }

// Source is the state with its type.
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

// Digests is empty: a source does not look into manifests.
func (a *Actor) Digests() []string { return nil }

// Resolve is never called: a source does not look into manifests.
func (a *Actor) Resolve(string, *corev1.Pod) {}

// Timers is nil: a source waits for nothing.
func (a *Actor) Timers() *journaletv1.Timers { return nil }
