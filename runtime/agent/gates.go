package agent

import (
	"context"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/pod/gate"
)

// newGates creates the driver that reads the conditions of readiness gates.
func (a *agent) newGates() *gate.Driver {
	return gate.New(gate.Options{
		RootDir: a.cfg.RootDir, Log: a.log,
		Sink: func(ctx context.Context, r *journaletv1.ReadinessGatesRead) error {
			e := messages.NewEvent(r)
			return a.host.Fact(ctx, messages.Pod(r.GetUid()), e)
		},
	})
}

// seedGates gives the driver a pod's readiness gates and their last conditions.
func (a *agent) seedGates(r *host.Recovered, ref messages.Ref, d *pod.Actor) {
	types, conditions := d.Gates()
	a.gates.Seed(ref.ID, types, conditions)
	r.Pending(ref, func(rec *journaletv1.Record) {
		if read := rec.GetFact().GetReadinessGatesRead(); read != nil {
			a.gates.SeedPending(read)
		}
	})
}
