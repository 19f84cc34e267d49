package dra

import (
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*Claims) Name() string { return "claims" }

// Recover takes the claims of all pods.
func (c *Claims) Recover(r fold.Recovered) {
	fold.EachOf(r, func(ref messages.Ref, a *pod.Actor) {
		c.Seed(ref.ID, a.Pod().GetClaims())
		r.Pending(ref, func(rec *journaletv1.Record) { c.SeedPending(ref.ID, rec) })
	})
}

// Name implements drivers.Driver.
func (*Health) Name() string { return "health of DRA devices" }

// Recover takes the claims of all pods and the health that was recorded of their devices.
func (h *Health) Recover(r fold.Recovered) {
	fold.EachOf(r, func(ref messages.Ref, a *pod.Actor) {
		h.Seed(ref.ID, a.Pod().GetClaims())
		r.Pending(ref, h.Stored)
	})
}
