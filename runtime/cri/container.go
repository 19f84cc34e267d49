package cri

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
)

// startContainer creates and starts a container, or continues where an earlier call of this intent ended.
func (c *call) startContainer(ctx context.Context, req *journaletv1.StartContainer) (*calls.Outcome, error) {
	pod, container, err := c.allocatedContainer(ctx, req)
	if err != nil {
		return nil, err
	}
	switch req.GetPart() {
	case journaletv1.StartPart_START_PART_CREATE:
		res, _, err := c.ensureContainer(ctx, pod, container, req)
		return res, err
	case journaletv1.StartPart_START_PART_START:
		return c.startCreated(ctx, req)
	}
	res, err := c.createAndStart(ctx, pod, container, req)
	if err == nil || !c.InDoubt || !isCanceledStart(err.Error()) {
		return res, err
	}
	// The agent died during this start, and the runtime canceled the start with it. The instance never ran. It is
	// replaced by one with the same number, so that the restart count counts restarts only.
	if _, err := c.removeContainer(ctx, res.GetContainerId()); err != nil {
		c.Log.Warn("a container whose start was canceled cannot be removed; it counts as an instance",
			"container", res.GetContainerId(), "error", c.Redact(messageOf(err)))
		return res, calls.Retryable(journaletv1.CallError_CALL_ERROR_START, messageOf(err))
	}
	c.InDoubt = false
	return c.createAndStart(ctx, pod, container, req)
}

// createAndStart is one attempt of startContainer.
func (c *call) createAndStart(
	ctx context.Context, pod *corev1.Pod, container *corev1.Container, req *journaletv1.StartContainer,
) (*calls.Outcome, error) {
	res, fresh, err := c.ensureContainer(ctx, pod, container, req)
	if err != nil {
		return res, err
	}
	return res, c.start(ctx, res.GetContainerId(), fresh)
}

// ensureContainer creates a container, or finds the container that this intent has already created. fresh reports
// whether this call created it.
func (c *call) ensureContainer(
	ctx context.Context, pod *corev1.Pod, container *corev1.Container, req *journaletv1.StartContainer,
) (res *calls.Outcome, fresh bool, err error) {
	id, err := c.createOrFind(ctx, func(ctx context.Context) (string, error) {
		id, err := c.create(ctx, pod, container, req)
		fresh = err == nil
		return id, err
	}, func(ctx context.Context) (string, error) {
		return c.findContainer(ctx, container.Name, req.GetAttempt())
	})
	if err != nil {
		return nil, false, createError(err)
	}
	res = &calls.Outcome{ContainerId: id, SandboxId: req.GetSandboxId()}
	logDir, err := c.opts.Volumes.CreateLogDir(pod.Namespace, pod.Name, c.UID, container.Name)
	if err == nil {
		err = c.linkLog(pod.Name, pod.Namespace, container.Name, id, logDir+"/"+logName(req.GetAttempt()))
	}
	if err != nil {
		// Only log shippers that follow links need it, so it does not fail the start.
		c.Log.Warn("the container has no log link", "container", id, "error", err)
	}
	return res, fresh, nil
}

// Texts in containerd's error for a start that it canceled because its client was gone.
const (
	canceledText = "context canceled"
	killedText   = "signal: killed" // containerd killed a program that it ran for the call
	noTaskText   = "failed to create containerd task"
)

// isCanceledStart reports whether a start failed only because its client was gone.
func isCanceledStart(why string) bool {
	return strings.Contains(why, canceledText) || strings.Contains(why, killedText)
}

// createError gives an error of the runtime its code.
func createError(err error) error {
	if calls.IsFailure(err) || isDoubt(err) {
		return err
	}
	return calls.Retryable(journaletv1.CallError_CALL_ERROR_CREATE, messageOf(err))
}

// create checks the container's dependencies and creates the container. An error that is not a failure is the
// runtime's.
func (c *call) create(
	ctx context.Context, pod *corev1.Pod, container *corev1.Container, req *journaletv1.StartContainer,
) (string, error) {
	sandboxIPs, err := c.checkSandbox(ctx, req.GetSandboxId())
	if err != nil {
		return "", err
	}
	img, err := c.imageOf(ctx, pod, container.Image, req.GetPulledForStart())
	if err != nil {
		return "", err
	}
	in := containerInput{
		pod: pod, container: container, attempt: req.GetAttempt(), intent: c.Intent,
		image: img, pulled: req.GetPulledVolumeImages(), podIPs: c.podIPs(pod, req.GetPodIps(), sandboxIPs),
		ids: req.GetUserNamespace(), target: req.GetTargetContainerId(), devices: req.GetDevices(),
		claimDevices: req.GetClaimDevices(),
		placement:    req.GetPlacement(),
	}
	if err := verifyNonRoot(in); err != nil {
		return "", calls.Fail(journaletv1.CallError_CALL_ERROR_CONFIG, err.Error())
	}
	// A pod that was created while pods got no cgroups has none yet.
	if err := c.ensureCgroup(ctx, pod, req.GetPlacement().GetPodExclusive()); err != nil {
		return "", err
	}
	logDir, err := c.opts.Volumes.CreateLogDir(pod.Namespace, pod.Name, c.UID, "")
	if err == nil {
		_, err = c.opts.Volumes.CreateLogDir(pod.Namespace, pod.Name, c.UID, container.Name)
	}
	if err != nil {
		return "", calls.Retryable(journaletv1.CallError_CALL_ERROR_VOLUME, err.Error())
	}
	// Before the mounts: a subPathExpr refers to variables.
	var values []string
	in.envs, values, err = c.environment(ctx, in, &in.budget)
	if c.Hide(values); err != nil {
		return "", configError(ctx, container, err)
	}
	if in.envs, err = withDeviceEnvs(in.envs, in.devices, &in.budget); err != nil {
		return "", calls.Fail(journaletv1.CallError_CALL_ERROR_CONFIG, err.Error())
	}
	if in.mounts, err = c.prepareMounts(ctx, in); err != nil {
		return "", err
	}
	if in.blocks, err = c.blockDevices(in); err != nil {
		return "", err
	}
	config, err := c.containerConfig(in)
	if err != nil {
		return "", configError(ctx, container, err)
	}
	// Some runtimes take the log directory and namespaces from this copy of the sandbox's configuration.
	sandbox, err := c.sandboxConfig(pod, req.GetUserNamespace(), 0, "", logDir)
	if err != nil {
		return "", calls.Fail(journaletv1.CallError_CALL_ERROR_CONFIG, err.Error())
	}
	resp, err := onceDrained(ctx, c, c.opts.Timeouts.Call, c.rt.CreateContainer, &runtimeapi.CreateContainerRequest{
		PodSandboxId: req.GetSandboxId(), Config: config, SandboxConfig: sandbox,
	})
	if err == nil && resp.GetContainerId() == "" {
		err = calls.Retryable(journaletv1.CallError_CALL_ERROR_INVALID_RESPONSE,
			"the runtime returned a container without an id")
	}
	return resp.GetContainerId(), err
}

// podIPs returns the pod's addresses: the request's, or the sandbox's own if the container starts before the sandbox
// was observed.
func (c *call) podIPs(pod *corev1.Pod, requested, sandbox []string) []string {
	switch {
	case len(requested) > 0:
		return requested
	case pod.Spec.HostNetwork:
		if ips, err := c.nodeIPs(); err == nil {
			return ips
		}
		return c.opts.Network.HostIPs
	}
	return sandbox
}

// nodeIPs returns the addresses that pods get as the node's.
func (d *Driver) nodeIPs() ([]string, error) {
	if d.opts.Network.NodeIPs == nil {
		return d.opts.Network.HostIPs, nil
	}
	return d.opts.Network.NodeIPs()
}

// checkSandbox returns the addresses of a sandbox. It fails unless the sandbox is ready for containers.
func (c *call) checkSandbox(ctx context.Context, id string) ([]string, error) {
	resp, err := retry(ctx, c, "PodSandboxStatus", c.opts.Timeouts.Call, c.rt.PodSandboxStatus,
		&runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	gone := func(why string) ([]string, error) {
		return nil, calls.Retryable(journaletv1.CallError_CALL_ERROR_SANDBOX_GONE, fmt.Sprintf("sandbox %s %s", id, why))
	}
	switch {
	case isNotFound(err):
		return gone("is gone")
	case err != nil:
		return nil, err
	case resp.GetStatus().GetState() != runtimeapi.PodSandboxState_SANDBOX_READY:
		return gone("is not ready")
	}
	return PodIPs(resp.GetStatus().GetNetwork(), c.opts.Network.HostIPs), nil
}

// findContainer finds the container that carries this intent. Another container with its name and attempt fails the
// call.
func (c *call) findContainer(ctx context.Context, name string, attempt uint32) (string, error) {
	resp, err := c.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: map[string]string{LabelPodUID: c.UID}},
	})
	if err != nil {
		return "", err
	}
	other := ""
	for _, container := range resp.GetContainers() {
		m := container.GetMetadata()
		switch {
		case container.GetAnnotations()[AnnotationIntent] == c.Intent:
			return container.GetId(), nil
		case m.GetName() == name && m.GetAttempt() == attempt:
			other = container.GetId()
		}
	}
	return "", attemptTaken(other, "container", attempt)
}

// start starts a created container. Unless this call created it (fresh), it inspects the container first: the container
// may have run already, or an earlier start may still be under way, and start waits for its end.
func (c *call) start(ctx context.Context, id string, fresh bool) error {
	earlierEnd := c.clock.Now().Add(c.opts.Timeouts.ReservedName)
	var last error
	attempts := 0
	for b := c.backOff(); ; {
		if !fresh {
			started, err := c.hasStarted(ctx, id)
			if err != nil || started {
				return err
			}
		}
		if attempts == maxAttempts || last != nil && !isDoubt(last) && c.clock.Now().After(earlierEnd) {
			return calls.Retryable(journaletv1.CallError_CALL_ERROR_START,
				fmt.Sprintf("the runtime did not start the container; the last attempt ended in: %s", messageOf(last)))
		}
		_, err := onceDrained(ctx, c, c.opts.Timeouts.Call, c.rt.StartContainer,
			&runtimeapi.StartContainerRequest{ContainerId: id})
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case isDoubt(err):
			attempts++
		case fresh:
			return c.refusedStart(ctx, id, messageOf(err))
		}
		c.Log.Log(ctx, b.level, "start in doubt; inspecting the container",
			"container", id, "error", c.Redact(messageOf(err)))
		last, fresh = err, false
		if err := b.wait(ctx); err != nil {
			return err
		}
	}
}

// hasStarted reports whether a container is past CREATED. It fails if the container's start has failed.
func (c *call) hasStarted(ctx context.Context, id string) (bool, error) {
	st, err := c.containerStatus(ctx, id)
	if isNotFound(err) {
		return false, notRun(fmt.Sprintf("container %s was removed before its start", id))
	}
	if err != nil {
		return false, err
	}
	if st.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED && st.GetStartedAt() == 0 {
		return false, failedStart(st, exitReason(st))
	}
	return st.GetState() != runtimeapi.ContainerState_CONTAINER_CREATED, nil
}
