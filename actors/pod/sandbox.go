package pod

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Why a pod's containers cannot start, as the kubelet words it (pkg/kubelet/types: PodSandboxNotReady...).
const (
	reasonNoSandbox     = "PodSandboxNotReady"
	messageNoSandbox    = "no pod sandbox exists"
	messageDeadSandbox  = "pod sandbox is not ready"
	messageOtherNetwork = "network namespace mode changed and sandbox needs to be recreated"
)

// sandboxLacks tells why the pod has no sandbox for containers to run in; empty if it has one.
func (a *Actor) sandboxLacks() string {
	told := a.state.Conditions[string(corev1.PodReadyToStartContainers)]
	switch {
	case a.state.GetStage() >= cleaning && told != nil && !told.GetStatus():
		// That its sandboxes go one by one is no news of a pod that is cleared away.
		return told.GetMessage()
	case a.state.GetSandboxId() != "" && a.otherNetwork():
		return messageOtherNetwork
	case a.state.GetSandboxId() != "" && a.state.GetStage() < terminated:
		return ""
	case len(a.state.GetObserved().GetSandboxes()) == 0 && a.state.GetSandboxId() == "":
		return messageNoSandbox
	}
	return messageDeadSandbox
}

// otherNetwork tells whether the pod's sandbox was made for another hostNetwork than the manifest has now.
func (a *Actor) otherNetwork() bool {
	if a.manifest == nil {
		return false
	}
	for _, x := range a.state.GetObserved().GetSandboxes() {
		if x.GetId() == a.state.GetSandboxId() {
			return x.HostNetwork != nil && x.GetHostNetwork() != a.manifest.Spec.HostNetwork
		}
	}
	return false
}

// reasonOtherNetwork is the stop reason of a container that is to run again in the pod's next sandbox, whatever its own policy
// says of how it ended. Journals have messageOtherNetwork, after which the policy decided.
const reasonOtherNetwork = messageOtherNetwork + ", it is started again"

// networkReason is why a container is stopped that runs in the sandbox of another network. As with the kubelet, a pod that
// is never restarted ends with that sandbox.
func (a *Actor) networkReason() string {
	if a.manifest.Spec.RestartPolicy == corev1.RestartPolicyNever {
		return messageOtherNetwork
	}
	return reasonOtherNetwork
}

// leaveSandbox ends what runs in the pod's sandbox, and the sandbox: the next one takes its place.
func (d *step) leaveSandbox() error {
	busy := d.calling(func(r *journaletv1.CallRequested) bool { return r.GetStartContainer() != nil })
	for _, name := range slices.Sorted(maps.Keys(d.state.Containers)) {
		cur := d.state.Containers[name].GetCurrent()
		if !alive(cur) || d.wasStopped(cur) {
			continue
		}
		busy = true
		if d.calling(forContainer(name)) || d.waitsForOthers(name) {
			continue
		}
		if err := d.stop(cur, d.networkReason()); err != nil {
			return err
		}
	}
	if busy {
		return nil
	}
	_, err := d.stopSandboxes(d.holds)
	return err
}
