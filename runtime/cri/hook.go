package cri

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/plain"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cri/reap"
)

// maxHookMessageBytes bounds the whole message of a failed hook in the journal. The kubelet's has all of the output.
const maxHookMessageBytes = 1 << 10

// runHook runs a lifecycle hook to its end, or a little beyond its timeout. Hooks run at least once: a hook in doubt
// runs again. It fails with CALL_ERROR_NOT_DONE if the container has exited, otherwise with CALL_ERROR_HOOK.
func (c *call) runHook(ctx context.Context, req *journaletv1.RunHook) (*calls.Outcome, error) {
	res := &calls.Outcome{ContainerId: req.GetContainerId()}
	pod, err := c.Manifest(ctx, req.GetDigest())
	if err != nil {
		return res, err
	}
	container := containers.Find(pod, req.GetContainer())
	handler := handlerOf(container, req.GetKind())
	if handler == nil {
		return res, calls.Fail(journaletv1.CallError_CALL_ERROR_CONFIG,
			fmt.Sprintf("the manifest %s has no such hook for container %q", req.GetDigest(), req.GetContainer()))
	}
	within, cancel := ctx, context.CancelFunc(func() {})
	if req.GetTimeout() != nil {
		within, cancel = c.withTimeout(ctx, mostOf(req))
	}
	defer cancel()
	h := hook{call: c, req: req, pod: pod, container: container}
	message, err := h.run(within, handler)
	suffix := ""
	switch {
	case err == nil:
		return res, nil
	case ctx.Err() != nil:
		return res, ctx.Err()
	case within.Err() != nil:
		suffix = fmt.Sprintf(" (timeout %s)", req.GetTimeout().AsDuration().Round(time.Millisecond))
	}
	message = plain.Cut(c.Redact(message), maxHookMessageBytes-len(suffix)) + suffix
	code := journaletv1.CallError_CALL_ERROR_HOOK
	if exited, err := h.hasExited(ctx); err == nil && exited {
		code = journaletv1.CallError_CALL_ERROR_NOT_DONE
	}
	if ctx.Err() != nil {
		return res, ctx.Err()
	}
	return res, calls.Fail(code, message)
}

// mostOf returns how long a hook with a timeout may take in all: the stop of its container has begun when the timeout
// is over, and takes the minimum at least. The kubelet leaves the hook running until the container is killed.
func mostOf(req *journaletv1.RunHook) time.Duration {
	if timeout := req.GetTimeout().AsDuration(); timeout > 0 {
		return timeout + actors.MinimumGrace
	}
	return 0
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

// fullName returns a pod's name, namespace and UID, as the kubelet formats them in messages.
func fullName(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}

// hook is one run of a hook.
type hook struct {
	*call
	req       *journaletv1.RunHook
	pod       *corev1.Pod
	container *corev1.Container
}

// run executes the handler. The message of a failure is worded as the kubelet's, but without the command, or the path
// and query, since these may contain secrets.
func (h *hook) run(ctx context.Context, handler *corev1.LifecycleHandler) (message string, err error) {
	about := fmt.Sprintf("for Container %q in Pod %q failed", h.container.Name, fullName(h.pod))
	switch {
	case handler.Exec != nil:
		var output string
		if output, err = h.exec(ctx, handler.Exec.Command); err != nil {
			message = fmt.Sprintf("Exec lifecycle hook %s - error: %s", about, messageOf(err))
			if output != "" {
				message += fmt.Sprintf(", message: %q", output)
			}
		}
	case handler.HTTPGet != nil:
		if err = h.get(ctx, handler.HTTPGet); err != nil {
			message = fmt.Sprintf("HTTP lifecycle hook %s - error: %v", about, withoutURL(err))
		}
	case handler.Sleep != nil:
		if err = clock.Wait(ctx, h.clock, time.Duration(handler.Sleep.Seconds)*time.Second); err != nil {
			message = fmt.Sprintf("Sleep lifecycle hook (%d) %s - error: container terminated before sleep hook finished",
				handler.Sleep.Seconds, about)
		}
	default:
		err = errors.New("invalid handler")
		message = "Cannot run handler: this version supports exec, httpGet and sleep"
	}
	return message, err
}

// exec runs a command in the container and returns the beginning of its output. It retries while the runtime is
// unavailable. A request without a timeout has no deadline: the hook may run as long as its container. Only its output
// may not: 10 s after its first process, what that has left is ended.
func (h *hook) exec(ctx context.Context, command []string) (string, error) {
	began := h.clock.Now()
	for b := h.backOff(); ; {
		left := time.Duration(0)
		if h.req.GetTimeout() != nil {
			left = max(1, mostOf(h.req)-h.clock.Now().Sub(began))
		}
		resp, err := h.opts.Reaper.Exec(ctx, h.rt, h.req.GetContainerId(), command, left,
			reap.Kind{Always: true, Drain: left == 0})
		switch {
		case err == nil:
			return outputOf(resp)
		case !isUnavailable(err) || ctx.Err() != nil:
			return "", err
		}
		h.Log.Log(ctx, b.level, "the runtime is unavailable for a hook; retrying", "error", messageOf(err))
		if err := b.wait(ctx); err != nil {
			return "", err
		}
	}
}

// outputOf returns the beginning of a command's output, and an error if its exit code is not 0.
func outputOf(resp *runtimeapi.ExecSyncResponse) (string, error) {
	output := plain.Cut(string(slices.Concat(resp.GetStdout(), resp.GetStderr())), maxHookMessageBytes)
	if code := resp.GetExitCode(); code != 0 {
		return output, fmt.Errorf("the command exited with %d", code)
	}
	return output, nil
}

// withoutURL returns the cause of a failed request, without its URL.
func withoutURL(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// hasExited reports whether the hook's container has exited or is gone.
func (h *hook) hasExited(ctx context.Context) (bool, error) {
	st, err := h.containerStatus(ctx, h.req.GetContainerId())
	if isNotFound(err) {
		return true, nil
	}
	return st.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED, err
}
