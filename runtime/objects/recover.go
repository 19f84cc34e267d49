package objects

import (
	podactor "github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*Store) Name() string { return "objects" }

// Recover takes what all pods refer to, and what each was given last.
func (s *Store) Recover(r fold.Recovered) {
	fold.EachOf(r, func(ref messages.Ref, a *podactor.Actor) {
		p := a.Pod()
		s.Seed(p.GetPod(), p.GetObjectRefs(), p.GetObjects())
		fold.PendingFacts(r, ref, func(e *journaletv1.Event) {
			if read := e.GetObjectsRead(); read != nil {
				s.SeedPending(read)
			}
		})
	})
}
