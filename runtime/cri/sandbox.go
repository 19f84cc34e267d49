package cri

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// runSandbox makes a pod's sandbox, or finds the one that this intent made before.
func (c *call) runSandbox(ctx context.Context, req *journaletv1.RunSandbox) (result, error) {
	pod, err := c.allocated(ctx, req)
	if err != nil {
		return result{}, err
	}
	if err := c.opts.Volumes.MakePodDirs(c.uid); err != nil {
		return result{}, retryable(journaletv1.CallError_CALL_ERROR_VOLUME, err.Error())
	}
	logDir, err := c.opts.Volumes.MakeLogDir(pod.Namespace, pod.Name, c.uid, "")
	if err != nil {
		return result{}, retryable(journaletv1.CallError_CALL_ERROR_VOLUME, err.Error())
	}
	if err := c.ensureCgroup(ctx, pod); err != nil {
		return result{}, err
	}
	config, err := c.sandboxConfig(pod, req.GetAttempt(), c.intent, logDir)
	if err != nil {
		return result{}, fail(journaletv1.CallError_CALL_ERROR_CONFIG, err.Error())
	}
	if err := c.noLaterSandbox(ctx, req.GetAttempt()); err != nil {
		return result{}, err
	}
	id, err := c.discover(ctx, func(ctx context.Context) (string, error) {
		resp, err := unhurried(ctx, c, c.opts.Timeouts.Sandbox, func(ctx context.Context) (*runtimeapi.RunPodSandboxResponse, error) {
			return c.rt.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: pod.Annotations[manifest.RuntimeHandlerAnnotation]})
		})
		if err == nil && resp.GetPodSandboxId() == "" {
			return "", retryable(journaletv1.CallError_CALL_ERROR_INVALID_RESPONSE, "the runtime made a sandbox without an id")
		}
		return resp.GetPodSandboxId(), err
	}, func(ctx context.Context) (string, bool, error) { return c.lookForSandbox(ctx, req.GetAttempt()) })
	return result{sandboxID: id}, err
}

// noLaterSandbox fails a call that is made for the first time while the pod has a sandbox of this attempt or a later one: the
// journal that knew of it was lost, or its end was, and who asked will see it. That it carries the same intent tells nothing
// then: a new journal counts from the beginning. The look costs little beside what it precedes.
func (c *call) noLaterSandbox(ctx context.Context, attempt uint32) error {
	if c.inDoubt {
		return nil
	}
	_, _, err := c.lookUntilAnswered(ctx, func(ctx context.Context) (string, bool, error) {
		list, err := c.sandboxesOfPod(ctx)
		for _, s := range list {
			if s.GetMetadata().GetAttempt() >= attempt {
				return "", false, c.heldBy(s.GetId(), "sandbox", s.GetMetadata().GetAttempt())
			}
		}
		return "", false, err
	})
	return err
}

func (c *call) sandboxesOfPod(ctx context.Context) ([]*runtimeapi.PodSandbox, error) {
	resp, err := c.rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{LabelPodUID: c.uid}},
	})
	return resp.GetItems(), err
}

// lookForSandbox finds the sandbox that carries this intent. One that is not ready ends the call, which names it all the same:
// containerd keeps such a one of a call that it gave up because its caller went away, and one that died since is no better.
// Another one that holds the attempt, or a later one, ends the call too.
func (c *call) lookForSandbox(ctx context.Context, attempt uint32) (string, bool, error) {
	list, err := c.sandboxesOfPod(ctx)
	if err != nil {
		return "", false, err
	}
	twin := ""
	for _, s := range list {
		switch {
		case s.GetAnnotations()[AnnotationIntent] == c.intent && s.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY:
			return s.GetId(), false, retryable(journaletv1.CallError_CALL_ERROR_SANDBOX_GONE,
				fmt.Sprintf("sandbox %s was given up while it was made, or has died since", s.GetId()))
		case s.GetAnnotations()[AnnotationIntent] == c.intent:
			return s.GetId(), true, nil
		case s.GetMetadata().GetAttempt() >= attempt:
			twin = s.GetId()
		}
	}
	return "", false, c.heldBy(twin, "sandbox", attempt)
}

// heldBy is the failure of a call whose attempt another object holds; nil if none does.
func (c *call) heldBy(twin, what string, attempt uint32) error {
	if twin == "" {
		return nil
	}
	return retryable(journaletv1.CallError_CALL_ERROR_RUNTIME,
		fmt.Sprintf("%s %s holds attempt %d and was made by another call", what, twin, attempt))
}

func (c *call) stopSandbox(ctx context.Context, id string) (result, error) {
	_, err := settle(ctx, c, "StopPodSandbox", c.opts.Timeouts.Call, func(ctx context.Context) (*runtimeapi.StopPodSandboxResponse, error) {
		return c.rt.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	})
	if err != nil && !isNotFound(err) {
		return result{}, err
	}
	c.releaseCgroup()
	return result{sandboxID: id}, nil
}

// removeSandbox stops a sandbox, removes its containers with their logs, then the sandbox. Runtimes remove the
// containers along with the sandbox by themselves, but know nothing of the logs.
func (c *call) removeSandbox(ctx context.Context, id string) (result, error) {
	if _, err := c.stopSandbox(ctx, id); err != nil {
		return result{}, err
	}
	list, err := settle(ctx, c, "ListContainers", c.opts.Timeouts.Call, func(ctx context.Context) (*runtimeapi.ListContainersResponse, error) {
		return c.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: id}})
	})
	if err != nil {
		return result{}, err
	}
	for _, container := range list.GetContainers() {
		if _, err := c.removeContainer(ctx, container.GetId()); err != nil {
			return result{}, fmt.Errorf("remove container %s of the sandbox: %w", container.GetId(), err)
		}
	}
	_, err = settle(ctx, c, "RemovePodSandbox", c.opts.Timeouts.Call, func(ctx context.Context) (*runtimeapi.RemovePodSandboxResponse, error) {
		return c.rt.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	})
	if err != nil && !isNotFound(err) {
		return result{}, err
	}
	return result{sandboxID: id}, nil
}
