package cri

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
)

// stopContainer stops a container within its grace period. A repeated call gets the rest of the grace period: a runtime
// whose client is gone may stop waiting and never send SIGKILL.
func (c *call) stopContainer(ctx context.Context, req *journaletv1.StopContainer) (*calls.Outcome, error) {
	grace := max(req.GetGrace().AsDuration(), 0)
	end := c.clock.Now().Add(grace)
	for b := c.backOff(); ; {
		// Never more than the grace period, even if the clock was set back.
		left := min(max(end.Sub(c.clock.Now()), 0), grace)
		_, err := once(ctx, c, left+c.opts.Timeouts.Call, c.rt.StopContainer, &runtimeapi.StopContainerRequest{
			ContainerId: req.GetContainerId(), Timeout: int64((left + time.Second - 1) / time.Second),
		})
		if err == nil || isNotFound(err) {
			return &calls.Outcome{ContainerId: req.GetContainerId()}, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !isDoubt(err) {
			return &calls.Outcome{ContainerId: req.GetContainerId()}, err
		}
		c.Log.Log(ctx, b.level, "no response to a stop; retrying with the rest of the grace period",
			"container", req.GetContainerId(), "error", messageOf(err))
		if err := b.wait(ctx); err != nil {
			return nil, err
		}
	}
}
