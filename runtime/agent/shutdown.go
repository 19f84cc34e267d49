package agent

import (
	"context"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/shutdown"
)

// newShutdown returns the driver that delays shutdowns; nil if none is configured, or if nothing runs that could end.
func (a *agent) newShutdown() *shutdown.Driver {
	if simulated(a.cfg) {
		return nil
	}
	if len(a.cfg.Shutdown.Groups()) == 0 {
		a.withdrawDropIn()
		return nil
	}
	return shutdown.New(shutdown.Options{
		Dial: shutdown.Dial, Period: a.cfg.Shutdown.Delay(), RootDir: a.absoluteRoot(), BootID: a.facts.BootID,
		Log: a.log,
		Record: func(ctx context.Context, s *journaletv1.ShutdownSignaled) error {
			return a.host.Fact(ctx, messages.Node, messages.NewEvent(s))
		},
	})
}

// withdrawTimeout bounds the removal of logind's drop-in.
const withdrawTimeout = 5 * time.Second

// withdrawDropIn removes the drop-in of a run that delayed shutdowns: this one does not.
func (a *agent) withdrawDropIn() {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	switch removed, err := shutdown.Withdraw(ctx, shutdown.Dial, "", a.absoluteRoot()); {
	case err != nil:
		a.log.Warn("logind's drop-in of an earlier configuration stays in effect", "removed", removed, "error", err)
	case removed:
		a.log.Info("removed logind's drop-in: no delay of shutdowns is configured")
	}
}
