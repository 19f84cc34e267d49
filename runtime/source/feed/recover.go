package feed

import (
	"github.com/journalet/journalet/actors/source"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// A Recovering is a driver of a source that takes what was recorded of the source.
type Recovering interface {
	// Seed adds the source's state in the journal, SeedPending a fact that the state does not have yet.
	Seed(state *journaletv1.SourceState)
	SeedPending(fact *journaletv1.ManifestsRead)
}

// Recover gives a driver what was recorded of the source with this name.
func Recover(r fold.Recovered, name string, d Recovering) {
	fold.EachOf(r, func(ref messages.Ref, a *source.Actor) {
		if ref != messages.Source(name) {
			return
		}
		d.Seed(a.Source())
		fold.PendingFacts(r, ref, func(e *journaletv1.Event) {
			if fact := e.GetManifestsRead(); fact != nil {
				d.SeedPending(fact)
			}
		})
	})
}
