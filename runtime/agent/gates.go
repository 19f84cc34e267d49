package agent

import (
	"context"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/pod/gate"
)

// newGates makes the driver that reads the conditions of readiness gates.
func (a *agent) newGates() *gate.Driver {
	return gate.New(gate.Options{
		RootDir: a.cfg.RootDir, Log: a.log,
		Sink: func(ctx context.Context, r *journaletv1.ReadinessGatesRead) error {
			return a.host.Fact(ctx, messages.Pod(r.GetUid()), &journaletv1.Event{Kind: &journaletv1.Event_ReadinessGatesRead{ReadinessGatesRead: r}})
		},
	})
}

// seedGates gives the driver what was read of a pod before.
func (a *agent) seedGates(r *host.Recovered, ref messages.Ref, d *pod.Actor) {
	types, said := d.Gates()
	a.gates.Seed(ref.ID, types, said)
	r.Open(ref, func(rec *journaletv1.Record) {
		if read := rec.GetFact().GetReadinessGatesRead(); read != nil {
			a.gates.SeedPending(read)
		}
	})
}
