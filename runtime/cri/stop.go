package cri

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// stopContainer stops a container within its grace period. A repeated call gets the rest of the grace period: a runtime
// whose client is gone may stop waiting and never send SIGKILL.
func (c *call) stopContainer(ctx context.Context, req *journaletv1.StopContainer) (result, error) {
	grace := max(req.GetGrace().AsDuration(), 0)
	end := c.clock.Now().Add(grace)
	for b := c.backOff(); ; {
		// Never more than the grace period, even if the clock was set back.
		left := min(max(end.Sub(c.clock.Now()), 0), grace)
		_, err := once(ctx, c, left+c.opts.Timeouts.Call, c.rt.StopContainer, &runtimeapi.StopContainerRequest{
			ContainerId: req.GetContainerId(), Timeout: int64((left + time.Second - 1) / time.Second),
		})
		if err == nil || isNotFound(err) {
			return result{containerID: req.GetContainerId()}, nil
		}
		if ctx.Err() != nil {
			return result{}, ctx.Err()
		}
		if !isDoubt(err) {
			return result{containerID: req.GetContainerId()}, err
		}
		c.log.Log(ctx, b.level, "no response to a stop; retrying with the rest of the grace period",
			"container", req.GetContainerId(), "error", messageOf(err))
		if err := b.wait(ctx); err != nil {
			return result{}, err
		}
	}
}
