package cri

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// runSandbox creates a pod's sandbox, or finds the sandbox that this intent has already created.
func (c *call) runSandbox(ctx context.Context, req *journaletv1.RunSandbox) (*calls.Outcome, error) {
	pod, err := c.AllocatedPod(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := c.opts.Volumes.CreatePodDirs(c.UID); err != nil {
		return nil, calls.Retryable(journaletv1.CallError_CALL_ERROR_VOLUME, err.Error())
	}
	logDir, err := c.opts.Volumes.CreateLogDir(pod.Namespace, pod.Name, c.UID, "")
	if err != nil {
		return nil, calls.Retryable(journaletv1.CallError_CALL_ERROR_VOLUME, err.Error())
	}
	if err := c.ensureCgroup(ctx, pod, req.GetExclusiveCpus()); err != nil {
		return nil, err
	}
	config, err := c.sandboxConfig(pod, req.GetUserNamespace(), req.GetAttempt(), c.Intent, logDir)
	if err != nil {
		return nil, calls.Fail(journaletv1.CallError_CALL_ERROR_CONFIG, err.Error())
	}
	handler, err := c.handlerOf(pod)
	if err != nil {
		return nil, err
	}
	if err := c.checkFeatures(ctx, pod, handler); err != nil {
		return nil, err
	}
	if err := c.keepUserNamespace(pod, req.GetUserNamespace()); err != nil {
		return nil, err
	}
	if err := c.opts.Volumes.WriteResources(c.UID, req.GetGiven()); err != nil {
		return nil, calls.Retryable(journaletv1.CallError_CALL_ERROR_VOLUME, err.Error())
	}
	if err := c.checkOtherSandboxes(ctx, req.GetAttempt()); err != nil {
		return nil, err
	}
	id, err := c.createOrFind(ctx, func(ctx context.Context) (string, error) {
		if err := c.checkName(ctx, pod); err != nil {
			return "", err
		}
		resp, err := onceDrained(ctx, c, c.opts.Timeouts.Sandbox, c.rt.RunPodSandbox, &runtimeapi.RunPodSandboxRequest{
			Config: config, RuntimeHandler: handler,
		})
		if err == nil && resp.GetPodSandboxId() == "" {
			err = calls.Retryable(journaletv1.CallError_CALL_ERROR_INVALID_RESPONSE,
				"the runtime returned a sandbox without an id")
		}
		return resp.GetPodSandboxId(), err
	}, func(ctx context.Context) (string, error) { return c.findSandbox(ctx, req.GetAttempt()) })
	return &calls.Outcome{SandboxId: id}, err
}

// handlerOf returns the runtime handler of a pod, from its RuntimeClass at the API server, or from its manifest. A
// missing class may appear.
func (d *Driver) handlerOf(pod *corev1.Pod) (string, error) {
	if d.opts.RuntimeHandler != nil {
		handler, ok, err := d.opts.RuntimeHandler(pod)
		if err != nil {
			return "", calls.Retryable(journaletv1.CallError_CALL_ERROR_CONFIG, err.Error())
		}
		if ok {
			return handler, nil
		}
	}
	return pod.Annotations[manifest.RuntimeHandlerAnnotation], nil
}

// checkOtherSandboxes fails a first call while the pod has a sandbox of this attempt or a later one: the journal that
// knew it was lost, or lost its end, and the requester will observe the sandbox. An equal intent id proves nothing
// then, because a new journal counts from the beginning. It stops dead sandboxes of earlier attempts for the same
// reason: the requester may not know one of them, and it holds an address and host ports until it is stopped. One list
// call is cheap beside RunPodSandbox.
func (c *call) checkOtherSandboxes(ctx context.Context, attempt uint32) error {
	if c.InDoubt {
		return nil
	}
	var dead []string
	_, err := c.retryFind(ctx, func(ctx context.Context) (string, error) {
		list, err := c.sandboxesOfPod(ctx)
		dead = dead[:0]
		for _, s := range list {
			if s.GetMetadata().GetAttempt() >= attempt {
				return "", c.sandboxTaken(s)
			}
			if s.GetState() == runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
				dead = append(dead, s.GetId())
			}
		}
		return "", err
	})
	if err != nil {
		return err
	}
	for _, id := range dead {
		if err := c.stopPodSandbox(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) sandboxesOfPod(ctx context.Context) ([]*runtimeapi.PodSandbox, error) {
	resp, err := c.rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{LabelPodUID: c.UID}},
	})
	return resp.GetItems(), err
}

// findSandbox finds the sandbox that carries this intent. A sandbox that is not ready fails the call, and its id is
// returned with the error: containerd keeps one of a call that it canceled because its client was gone, and a sandbox
// that has died since is of no more use. Another sandbox of this attempt or a later one fails the call too.
func (c *call) findSandbox(ctx context.Context, attempt uint32) (string, error) {
	list, err := c.sandboxesOfPod(ctx)
	if err != nil {
		return "", err
	}
	var other *runtimeapi.PodSandbox
	for _, s := range list {
		switch {
		case s.GetAnnotations()[AnnotationIntent] == c.Intent && s.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY:
			return s.GetId(), calls.Retryable(journaletv1.CallError_CALL_ERROR_SANDBOX_GONE,
				fmt.Sprintf("sandbox %s was canceled while the runtime created it, or has died since", s.GetId()))
		case s.GetAnnotations()[AnnotationIntent] == c.Intent:
			return s.GetId(), nil
		case s.GetMetadata().GetAttempt() >= attempt:
			other = s
		}
	}
	return "", c.sandboxTaken(other)
}

// sandboxTaken returns the failure of a call whose attempt, or a later one, another sandbox of the pod has; nil for no
// sandbox. A sandbox of another agent, such as a kubelet with another root directory, is never touched (ADR 006).
func (c *call) sandboxTaken(s *runtimeapi.PodSandbox) error {
	if s == nil || c.opts.Owner.Owns(s) {
		return attemptTaken(s.GetId(), "sandbox", s.GetMetadata().GetAttempt())
	}
	return calls.Retryable(journaletv1.CallError_CALL_ERROR_RUNTIME, fmt.Sprintf(
		"the pod has sandbox %[1]s of another agent, such as a kubelet; remove it with what runs in it: crictl rmp -f %[1]s",
		s.GetId()))
}

// attemptTaken returns the failure of a call whose attempt another object has; nil if other is "".
func attemptTaken(other, what string, attempt uint32) error {
	if other == "" {
		return nil
	}
	return calls.Retryable(journaletv1.CallError_CALL_ERROR_RUNTIME,
		fmt.Sprintf("%s %s has attempt %d and was created by another call", what, other, attempt))
}

// stopPodSandbox stops a sandbox; a sandbox that is gone counts as stopped. When the agent stops, the call may end:
// containerd kills the network plugins of a call whose client has gone, and a plugin that is killed between two of its
// steps leaves rules that it does not find the next time.
func (c *call) stopPodSandbox(ctx context.Context, id string) error {
	timeout, req := c.opts.Timeouts.Call, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}
	_, err := retryFunc(ctx, c, "StopPodSandbox", timeout,
		func(ctx context.Context) (*runtimeapi.StopPodSandboxResponse, error) {
			return onceDrained(ctx, c, timeout, c.rt.StopPodSandbox, req)
		})
	if isNotFound(err) {
		return nil
	}
	return err
}

func (c *call) stopSandbox(ctx context.Context, id string) (*calls.Outcome, error) {
	if err := c.stopPodSandbox(ctx, id); err != nil {
		return nil, err
	}
	c.releaseCgroup()
	return &calls.Outcome{SandboxId: id}, nil
}

// removeSandbox stops a sandbox, removes its containers with their logs, then the sandbox. A runtime removes the
// containers together with the sandbox, but leaves the logs.
func (c *call) removeSandbox(ctx context.Context, id string) (*calls.Outcome, error) {
	if _, err := c.stopSandbox(ctx, id); err != nil {
		return nil, err
	}
	list, err := retry(ctx, c, "ListContainers", c.opts.Timeouts.Call, c.rt.ListContainers,
		&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: id}})
	if err != nil {
		return nil, err
	}
	for _, container := range list.GetContainers() {
		if _, err := c.removeContainer(ctx, container.GetId()); err != nil {
			return nil, fmt.Errorf("remove container %s of the sandbox: %w", container.GetId(), err)
		}
	}
	_, err = retry(ctx, c, "RemovePodSandbox", c.opts.Timeouts.Call, c.rt.RemovePodSandbox,
		&runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	if err != nil && !isNotFound(err) {
		return nil, err
	}
	return &calls.Outcome{SandboxId: id}, nil
}
