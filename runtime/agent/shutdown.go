package agent

import (
	"context"

	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/shutdown"
)

// newShutdown returns the driver that delays shutdowns; nil if none is configured, or if nothing runs that could end.
func (a *agent) newShutdown() *shutdown.Driver {
	if len(a.cfg.Shutdown.Groups()) == 0 || simulated(a.cfg) {
		return nil
	}
	return shutdown.New(shutdown.Options{
		Dial: shutdown.Dial, Period: a.cfg.Shutdown.Delay(), Log: a.log,
		Record: func(ctx context.Context, s *journaletv1.ShutdownSignaled) error {
			return a.host.Fact(ctx, messages.Node, messages.NewEvent(s))
		},
	})
}

// seedShutdown gives the driver the shutdown that was recorded last. One of an earlier boot is over.
func (a *agent) seedShutdown(r *host.Recovered, ref messages.Ref, d *node.Actor) {
	if a.shutdown == nil {
		return
	}
	active, complete := d.ShuttingDown(a.facts.BootID)
	r.Pending(ref, func(rec *journaletv1.Record) {
		if s := rec.GetFact().GetShutdownSignaled(); s != nil {
			active, complete = s.GetActive(), false
		}
	})
	a.shutdown.Seed(active, complete)
}
