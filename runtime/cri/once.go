package cri

import (
	"context"
	"fmt"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// startMade starts a container that an earlier call made, at most once: a start of which nobody knows whether it took place
// is looked up and never made again (ADR 015).
func (c *call) startMade(ctx context.Context, req *journaletv1.StartContainer) (result, error) {
	id := req.GetContainerId()
	res := result{containerID: id, sandboxID: req.GetSandboxId()}
	if c.inDoubt {
		return res, c.settleStart(ctx, id)
	}
	// Nothing of it has run so far, so a sandbox that is gone, or the container itself, can be made anew.
	if _, err := c.checkSandbox(ctx, req.GetSandboxId()); err != nil {
		return result{}, err
	}
	_, err := unhurried(ctx, c, c.opts.Timeouts.Call, func(ctx context.Context) (*runtimeapi.StartContainerResponse, error) {
		return c.rt.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	})
	switch {
	case err == nil:
		return res, nil
	case ctx.Err() != nil:
		return res, ctx.Err()
	case isNotFound(err):
		return result{}, notRun(fmt.Sprintf("container %s is gone before it was started", id))
	case isDoubt(err):
		c.log.Warn("start in doubt; looking at the container", "container", id, "error", messageOf(err))
		return res, c.settleStart(ctx, id)
	}
	return res, retryable(journaletv1.CallError_CALL_ERROR_START, messageOf(err))
}

func notRun(why string) error { return retryable(journaletv1.CallError_CALL_ERROR_NOT_DONE, why) }

func lostStart(why string) error { return fail(journaletv1.CallError_CALL_ERROR_START_LOST, why) }

// settleStart tells what became of a start whose answer is lost. A runtime may still be at it, so one that has not begun
// is given time; then it counts as lost. Errors: NOT_DONE where it is certain that nothing ran (the container is removed),
// START_LOST where it is not, START where the runtime says what was wrong with the container.
func (c *call) settleStart(ctx context.Context, id string) error {
	// As long as a call may go on whose caller has turned away.
	end := c.clock.Now().Add(c.opts.Timeouts.Drain)
	for b := c.backOff(); ; {
		st, err := c.statusOf(ctx, id)
		switch {
		case isNotFound(err):
			return lostStart(fmt.Sprintf("container %s is gone, and its start was in doubt", id))
		case err != nil:
			return err
		case st.GetState() == runtimeapi.ContainerState_CONTAINER_CREATED:
			if c.clock.Now().After(end) {
				return lostStart("the runtime shows the container as created, and its start was in doubt")
			}
		case st.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED && st.GetStartedAt() == 0:
			return c.failedStart(ctx, id, st)
		default:
			return nil
		}
		if err := b.wait(ctx); err != nil {
			return err
		}
	}
}

// failedStart tells what a container that ended without having started says of its start.
func (c *call) failedStart(ctx context.Context, id string, st *runtimeapi.ContainerStatus) error {
	why := strings.Trim(st.GetReason()+": "+st.GetMessage(), ": ")
	switch {
	case !isCutShort(why):
		return retryable(journaletv1.CallError_CALL_ERROR_START, why)
	case !strings.Contains(why, notYetRun):
		return lostStart(why)
	}
	if _, err := c.removeContainer(ctx, id); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// containerd 2.4 refuses it where a task of the container is left, in which something may run.
		return lostStart(why + "; and it cannot be removed: " + messageOf(err))
	}
	return notRun(why)
}

func (c *call) statusOf(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	resp, err := settle(ctx, c, "ContainerStatus", c.opts.Timeouts.Look, func(ctx context.Context) (*runtimeapi.ContainerStatusResponse, error) {
		return c.rt.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	})
	return resp.GetStatus(), err
}
