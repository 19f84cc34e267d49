package cri

import (
	"context"
	"fmt"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
)

// startCreated starts a container that an earlier call created, at most once: a start in doubt is resolved by
// inspecting the container, and never sent again (ADR 015).
func (c *call) startCreated(ctx context.Context, req *journaletv1.StartContainer) (*calls.Outcome, error) {
	id := req.GetContainerId()
	res := &calls.Outcome{ContainerId: id, SandboxId: req.GetSandboxId()}
	if c.InDoubt {
		return res, c.resolveStart(ctx, id)
	}
	// The container has not run, so a lost sandbox or container can be created again.
	if _, err := c.checkSandbox(ctx, req.GetSandboxId()); err != nil {
		return nil, err
	}
	_, err := onceDrained(ctx, c, c.opts.Timeouts.Call, c.rt.StartContainer,
		&runtimeapi.StartContainerRequest{ContainerId: id})
	switch {
	case err == nil:
		return res, nil
	case ctx.Err() != nil:
		return res, ctx.Err()
	case isNotFound(err):
		return nil, notRun(fmt.Sprintf("container %s was removed before its start", id))
	case isDoubt(err):
		c.Log.Warn("start in doubt; inspecting the container", "container", id, "error", c.Redact(messageOf(err)))
		return res, c.resolveStart(ctx, id)
	}
	return res, c.refusedStart(ctx, id, messageOf(err))
}

// exitReason returns "reason: message" of an exited container.
func exitReason(st *runtimeapi.ContainerStatus) string {
	return strings.Trim(st.GetReason()+": "+st.GetMessage(), ": ")
}

func notRun(why string) error { return calls.Retryable(journaletv1.CallError_CALL_ERROR_NOT_DONE, why) }

func lostStart(why string) error { return calls.Fail(journaletv1.CallError_CALL_ERROR_START_LOST, why) }

// resolveStart determines the outcome of a start without a response. The runtime may still be working on it, so a
// container that is only created gets Timeouts.Drain; then the start counts as lost. Errors: NOT_DONE if certainly
// nothing ran (the container is removed then), START_LOST if that is uncertain, START if the runtime reports why the
// start failed.
func (c *call) resolveStart(ctx context.Context, id string) error {
	end := c.clock.Now().Add(c.opts.Timeouts.Drain)
	for b := c.backOff(); ; {
		st, err := c.containerStatus(ctx, id)
		switch {
		case isNotFound(err):
			return lostStart(fmt.Sprintf("container %s was removed while its start was in doubt", id))
		case err != nil:
			return err
		case st.GetState() == runtimeapi.ContainerState_CONTAINER_CREATED:
			if c.clock.Now().After(end) {
				return lostStart("the runtime reports the container as created, and its start was in doubt")
			}
		case st.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED && st.GetStartedAt() == 0:
			return c.neverStarted(ctx, id, st)
		default:
			return nil
		}
		if err := b.wait(ctx); err != nil {
			return err
		}
	}
}

// neverStarted returns the error of a container that exited without having started. It removes the container if
// certainly nothing ran.
func (c *call) neverStarted(ctx context.Context, id string, st *runtimeapi.ContainerStatus) error {
	why := exitReason(st)
	switch {
	case !isCanceledStart(why):
		return failedStart(st, why)
	case !strings.Contains(why, noTaskText):
		return lostStart(why)
	}
	if _, err := c.removeContainer(ctx, id); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// containerd 2.4 refuses the removal if the container still has a task: a process may run in the task.
		return lostStart(why + "; and it cannot be removed: " + messageOf(err))
	}
	return notRun(why)
}
