package health

import (
	"github.com/journalet/journalet/actors/dispatch"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*Monitor) Name() string { return "runtime health" }

// Recover takes the health that was recorded last, so that only another one is reported.
func (m *Monitor) Recover(r fold.Recovered) {
	fold.EachOf(r, func(ref messages.Ref, a *dispatch.Actor) {
		m.last = a.Runtime().GetHealth()
		fold.PendingFacts(r, ref, func(e *journaletv1.Event) {
			if last := e.GetRuntimeHealthChanged(); last != nil {
				m.last = last
			}
		})
	})
}
