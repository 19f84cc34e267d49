package cri

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// startContainer makes and starts a container, or goes on from where an earlier call of this intent left it.
func (c *call) startContainer(ctx context.Context, req *journaletv1.StartContainer) (result, error) {
	pod, container, err := c.sized(ctx, req)
	if err != nil {
		return result{}, err
	}
	switch req.GetPart() {
	case journaletv1.StartPart_START_PART_CREATE:
		res, _, err := c.makeContainer(ctx, pod, container, req)
		return res, err
	case journaletv1.StartPart_START_PART_START:
		return c.startMade(ctx, req)
	}
	res, err := c.makeAndStart(ctx, pod, container, req)
	if err == nil || !c.inDoubt || !isCutShort(err.Error()) {
		return res, err
	}
	// The agent died while it waited for this start, and the runtime gave the start up with it. The instance never ran:
	// it makes room for another with the same number, so that the restart count tells restarts only.
	if _, err := c.removeContainer(ctx, res.containerID); err != nil {
		c.log.Warn("a container whose start was cut short cannot be removed; it counts as an instance", "container", res.containerID, "error", messageOf(err))
		return res, retryable(journaletv1.CallError_CALL_ERROR_START, messageOf(err))
	}
	c.inDoubt = false
	return c.makeAndStart(ctx, pod, container, req)
}

// makeAndStart is one try of startContainer.
func (c *call) makeAndStart(ctx context.Context, pod *corev1.Pod, container *corev1.Container, req *journaletv1.StartContainer) (result, error) {
	res, fresh, err := c.makeContainer(ctx, pod, container, req)
	if err != nil {
		return res, err
	}
	return res, c.start(ctx, res.containerID, fresh)
}

// makeContainer makes a container, or finds the one that this intent made; fresh tells which.
func (c *call) makeContainer(ctx context.Context, pod *corev1.Pod, container *corev1.Container, req *journaletv1.StartContainer) (res result, fresh bool, err error) {
	id, err := c.discover(ctx, func(ctx context.Context) (string, error) {
		id, err := c.create(ctx, pod, container, req)
		fresh = err == nil
		return id, err
	}, func(ctx context.Context) (string, bool, error) {
		return c.lookForContainer(ctx, container.Name, req.GetAttempt())
	})
	if err != nil {
		return result{}, false, createError(err)
	}
	res = result{containerID: id, sandboxID: req.GetSandboxId()}
	logDir, err := c.opts.Volumes.MakeLogDir(pod.Namespace, pod.Name, c.uid, container.Name)
	if err == nil {
		err = c.linkLog(pod.Name, pod.Namespace, container.Name, id, logDir+"/"+logName(req.GetAttempt()))
	}
	if err != nil {
		// Only log shippers that follow links miss it; the container is worth more.
		c.log.Warn("container without a log link", "container", id, "error", err)
	}
	return res, fresh, nil
}

// Words by which containerd tells how far a start came that it gave up because its caller went away.
const (
	cutShort  = "context canceled"
	cutKilled = "signal: killed" // a program that it ran for the caller was killed with the call
	notYetRun = "failed to create containerd task"
)

// isCutShort tells of the words about a start that failed whether it did so only because who asked for it went away.
func isCutShort(why string) bool {
	return strings.Contains(why, cutShort) || strings.Contains(why, cutKilled)
}

func findContainer(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// createError gives errors of the runtime their code. A sandbox that is gone can only be replaced.
func createError(err error) error {
	if isFailure(err) || isDoubt(err) {
		return err
	}
	return retryable(journaletv1.CallError_CALL_ERROR_CREATE, messageOf(err))
}

// create checks what the container needs and makes it. Errors that are no failure are the runtime's.
func (c *call) create(ctx context.Context, pod *corev1.Pod, container *corev1.Container, req *journaletv1.StartContainer) (string, error) {
	sandboxIPs, err := c.checkSandbox(ctx, req.GetSandboxId())
	if err != nil {
		return "", err
	}
	img, err := c.imageOf(ctx, container, req.GetPulledForStart())
	if err != nil {
		return "", err
	}
	in := containerInput{
		pod: pod, container: container, attempt: req.GetAttempt(), intent: c.intent,
		image: img, podIPs: c.podIPs(pod, req.GetPodIps(), sandboxIPs),
	}
	if err := verifyNonRoot(in); err != nil {
		return "", fail(journaletv1.CallError_CALL_ERROR_CONFIG, err.Error())
	}
	// A pod that was created while pods got no cgroups has none yet.
	if err := c.ensureCgroup(ctx, pod); err != nil {
		return "", err
	}
	logDir, err := c.opts.Volumes.MakeLogDir(pod.Namespace, pod.Name, c.uid, "")
	if err == nil {
		_, err = c.opts.Volumes.MakeLogDir(pod.Namespace, pod.Name, c.uid, container.Name)
	}
	if err != nil {
		return "", retryable(journaletv1.CallError_CALL_ERROR_VOLUME, err.Error())
	}
	if in.mounts, err = c.makeMounts(in); err != nil {
		return "", err
	}
	config, err := c.containerConfig(in)
	if err != nil {
		return "", fail(journaletv1.CallError_CALL_ERROR_CONFIG, err.Error())
	}
	// The sandbox's config goes along: some runtimes take the log folder and namespaces from this copy.
	sandbox, err := c.sandboxConfig(pod, 0, "", logDir)
	if err != nil {
		return "", fail(journaletv1.CallError_CALL_ERROR_CONFIG, err.Error())
	}
	resp, err := unhurried(ctx, c, c.opts.Timeouts.Call, func(ctx context.Context) (*runtimeapi.CreateContainerResponse, error) {
		return c.rt.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
			PodSandboxId: req.GetSandboxId(), Config: config, SandboxConfig: sandbox,
		})
	})
	if err == nil && resp.GetContainerId() == "" {
		return "", retryable(journaletv1.CallError_CALL_ERROR_INVALID_RESPONSE, "the runtime made a container without an id")
	}
	return resp.GetContainerId(), err
}

// podIPs are the pod's addresses: those asked for, or the sandbox's own when the pod is started before its sandbox was
// observed.
func (c *call) podIPs(pod *corev1.Pod, asked, sandbox []string) []string {
	switch {
	case len(asked) > 0:
		return asked
	case pod.Spec.HostNetwork:
		return c.opts.HostIPs
	}
	return sandbox
}

// checkSandbox tells whether containers can be made in a sandbox, and its addresses.
func (c *call) checkSandbox(ctx context.Context, id string) ([]string, error) {
	resp, err := settle(ctx, c, "PodSandboxStatus", c.opts.Timeouts.Call, func(ctx context.Context) (*runtimeapi.PodSandboxStatusResponse, error) {
		return c.rt.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	})
	gone := func(why string) ([]string, error) {
		return nil, retryable(journaletv1.CallError_CALL_ERROR_SANDBOX_GONE, fmt.Sprintf("sandbox %s %s", id, why))
	}
	switch {
	case isNotFound(err):
		return gone("is gone")
	case err != nil:
		return nil, err
	case resp.GetStatus().GetState() != runtimeapi.PodSandboxState_SANDBOX_READY:
		return gone("is not ready")
	}
	var ips []string
	if network := resp.GetStatus().GetNetwork(); network.GetIp() != "" {
		ips = append(ips, network.GetIp())
		for _, more := range network.GetAdditionalIps() {
			ips = append(ips, more.GetIp())
		}
	}
	return ips, nil
}

// lookForContainer finds the container that carries this intent. Another one that holds its name and attempt ends the call.
func (c *call) lookForContainer(ctx context.Context, name string, attempt uint32) (string, bool, error) {
	resp, err := c.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: map[string]string{LabelPodUID: c.uid}},
	})
	if err != nil {
		return "", false, err
	}
	twin := ""
	for _, container := range resp.GetContainers() {
		m := container.GetMetadata()
		switch {
		case container.GetAnnotations()[AnnotationIntent] == c.intent:
			return container.GetId(), true, nil
		case m.GetName() == name && m.GetAttempt() == attempt:
			twin = container.GetId()
		}
	}
	return "", false, c.heldBy(twin, "container", attempt)
}

// start starts a created container. One that is not fresh from this call is looked at first: it may have run already,
// or a start of before is still under way, whose end is waited for.
func (c *call) start(ctx context.Context, id string, fresh bool) error {
	twinEnd := c.clock.Now().Add(c.opts.Timeouts.Twin)
	var last error
	performed := 0
	for b := c.backOff(); ; {
		if !fresh {
			started, err := c.hasStarted(ctx, id)
			if err != nil || started {
				return err
			}
		}
		if performed == maxPerforms || last != nil && !isDoubt(last) && c.clock.Now().After(twinEnd) {
			return retryable(journaletv1.CallError_CALL_ERROR_START,
				fmt.Sprintf("the runtime did not start it, the last attempt ended in: %s", messageOf(last)))
		}
		_, err := unhurried(ctx, c, c.opts.Timeouts.Call, func(ctx context.Context) (*runtimeapi.StartContainerResponse, error) {
			return c.rt.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
		})
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case isDoubt(err):
			performed++
		case fresh:
			return retryable(journaletv1.CallError_CALL_ERROR_START, messageOf(err))
		}
		c.log.Log(ctx, b.level, "start in doubt; looking at the container", "container", id, "error", messageOf(err))
		last, fresh = err, false
		if err := b.wait(ctx); err != nil {
			return err
		}
	}
}

// hasStarted tells whether a container has got beyond CREATED; it fails if the container's start has failed.
func (c *call) hasStarted(ctx context.Context, id string) (bool, error) {
	st, err := c.statusOf(ctx, id)
	if isNotFound(err) {
		return false, retryable(journaletv1.CallError_CALL_ERROR_NOT_DONE, fmt.Sprintf("container %s is gone before it was started", id))
	}
	if err != nil {
		return false, err
	}
	if st.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED && st.GetStartedAt() == 0 {
		return false, retryable(journaletv1.CallError_CALL_ERROR_START, strings.Trim(st.GetReason()+": "+st.GetMessage(), ": "))
	}
	return st.GetState() != runtimeapi.ContainerState_CONTAINER_CREATED, nil
}
