package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// maxHookOutputBytes bounds what of a hook's output is told. The kubelet tells all of it; a journal is no place for that.
const maxHookOutputBytes = 1 << 10

// runHook runs a lifecycle hook to its end, or for as long as it may take. It is at least once: in doubt it is run again.
// A hook whose container has ended has failed with CALL_ERROR_NOT_DONE, one that failed otherwise with CALL_ERROR_HOOK.
func (c *call) runHook(ctx context.Context, req *journaletv1.RunHook) (result, error) {
	res := result{containerID: req.GetContainerId()}
	pod, err := c.manifest(ctx, req.GetDigest())
	if err != nil {
		return res, err
	}
	container := findContainer(pod, req.GetContainer())
	handler := handlerOf(container, req.GetKind())
	if handler == nil {
		return res, fail(journaletv1.CallError_CALL_ERROR_CONFIG,
			fmt.Sprintf("the manifest %s has no such hook for container %q", req.GetDigest(), req.GetContainer()))
	}
	within, cancel := ctx, context.CancelFunc(func() {})
	if req.GetTimeout() != nil {
		within, cancel = c.withTimeout(ctx, req.GetTimeout().AsDuration())
	}
	defer cancel()
	h := hook{call: c, req: req, pod: pod, container: container}
	message, err := h.run(within, handler)
	switch {
	case err == nil:
		return res, nil
	case ctx.Err() != nil:
		return res, ctx.Err()
	case within.Err() != nil:
		message = fmt.Sprintf("%s (it may take %s)", message, req.GetTimeout().AsDuration().Round(time.Millisecond))
	}
	code := journaletv1.CallError_CALL_ERROR_HOOK
	if ended, err := h.hasEnded(ctx); err == nil && ended {
		code = journaletv1.CallError_CALL_ERROR_NOT_DONE
	}
	if ctx.Err() != nil {
		return res, ctx.Err()
	}
	return res, fail(code, message)
}

// withTimeout is context.WithTimeout by the driver's clock.
func (c *call) withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if d <= 0 {
		cancel()
		return ctx, cancel
	}
	stop := c.clock.AfterFunc(d, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

func handlerOf(c *corev1.Container, kind journaletv1.HookKind) *corev1.LifecycleHandler {
	switch {
	case c == nil || c.Lifecycle == nil:
		return nil
	case kind == journaletv1.HookKind_HOOK_KIND_POST_START:
		return c.Lifecycle.PostStart
	case kind == journaletv1.HookKind_HOOK_KIND_PRE_STOP:
		return c.Lifecycle.PreStop
	}
	return nil
}

// hook is one run of a hook.
type hook struct {
	*call
	req       *journaletv1.RunHook
	pod       *corev1.Pod
	container *corev1.Container
}

// run does what the handler says. The message of a failure is worded as the kubelet's.
func (h *hook) run(ctx context.Context, handler *corev1.LifecycleHandler) (message string, err error) {
	about := fmt.Sprintf("for Container %q in Pod %q failed", h.container.Name, fmt.Sprintf("%s_%s(%s)", h.pod.Name, h.pod.Namespace, h.pod.UID))
	switch {
	case handler.Exec != nil:
		var output string
		if output, err = h.exec(ctx, handler.Exec.Command); err != nil {
			message = fmt.Sprintf("Exec lifecycle hook (%v) %s - error: %s, message: %q", handler.Exec.Command, about, clipTo(messageOf(err), maxHookOutputBytes), output)
		}
	case handler.HTTPGet != nil:
		if err = h.get(ctx, handler.HTTPGet); err != nil {
			message = fmt.Sprintf("HTTP lifecycle hook (%s) %s - error: %v", handler.HTTPGet.Path, about, err)
		}
	case handler.Sleep != nil:
		if err = Wait(ctx, h.clock, time.Duration(handler.Sleep.Seconds)*time.Second); err != nil {
			message = fmt.Sprintf("Sleep lifecycle hook (%d) %s - error: container terminated before sleep hook finished", handler.Sleep.Seconds, about)
		}
	default:
		err = errors.New("invalid handler")
		message = "Cannot run handler: this version knows exec, httpGet and sleep"
	}
	return message, err
}

// exec runs a command in the container and gives the beginning of its output. While the runtime is away it is tried again.
func (h *hook) exec(ctx context.Context, command []string) (string, error) {
	began := h.clock.Now()
	resp, err := settleExec(ctx, h.call, func(ctx context.Context) (*runtimeapi.ExecSyncResponse, error) {
		req := &runtimeapi.ExecSyncRequest{ContainerId: h.req.GetContainerId(), Cmd: command}
		if h.req.GetTimeout() != nil {
			left := h.req.GetTimeout().AsDuration() - h.clock.Now().Sub(began)
			req.Timeout = max(1, int64((left+time.Second-1)/time.Second))
		}
		return h.rt.ExecSync(ctx, req)
	})
	if err != nil {
		return "", err
	}
	output := clipTo(string(slices.Concat(resp.GetStdout(), resp.GetStderr())), maxHookOutputBytes)
	if code := resp.GetExitCode(); code != 0 {
		return output, fmt.Errorf("command '%s' exited with %d: %s", strings.Join(command, " "), code, clipTo(string(resp.GetStderr()), maxHookOutputBytes))
	}
	return output, nil
}

// settleExec makes a call again that found no runtime, until the context ends. It has no deadline of its own: the hook may
// take as long as its container lives, if nobody said otherwise.
func settleExec[T any](ctx context.Context, c *call, f func(context.Context) (T, error)) (T, error) {
	for b := c.backOff(); ; {
		v, err := f(ctx)
		if err == nil || !isAway(err) || ctx.Err() != nil {
			return v, err
		}
		c.log.Log(ctx, b.level, "no runtime to run a hook; trying again", "error", messageOf(err))
		if err := b.wait(ctx); err != nil {
			return v, err
		}
	}
}

// hasEnded tells whether the hook's container runs no more.
func (h *hook) hasEnded(ctx context.Context) (bool, error) {
	resp, err := settle(ctx, h.call, "ContainerStatus", h.opts.Timeouts.Look, func(ctx context.Context) (*runtimeapi.ContainerStatusResponse, error) {
		return h.rt.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: h.req.GetContainerId()})
	})
	if isNotFound(err) {
		return true, nil
	}
	return resp.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_EXITED, err
}
