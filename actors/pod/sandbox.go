package pod

import (
	corev1 "k8s.io/api/core/v1"
)

// Why a pod's containers cannot start, as the kubelet words it (pkg/kubelet/types: PodSandboxNotReady...).
const (
	reasonNoSandbox    = "PodSandboxNotReady"
	messageNoSandbox   = "no pod sandbox exists"
	messageDeadSandbox = "pod sandbox is not ready"
)

// sandboxLacks tells why the pod has no sandbox for containers to run in; empty if it has one.
func (a *Actor) sandboxLacks() string {
	told := a.state.Conditions[string(corev1.PodReadyToStartContainers)]
	switch {
	case a.state.GetStage() >= cleaning && told != nil && !told.GetStatus():
		// That its sandboxes go one by one is no news of a pod that is cleared away.
		return told.GetMessage()
	case a.state.GetSandboxId() != "" && a.state.GetStage() < terminated:
		return ""
	case len(a.state.GetObserved().GetSandboxes()) == 0 && a.state.GetSandboxId() == "":
		return messageNoSandbox
	}
	return messageDeadSandbox
}
