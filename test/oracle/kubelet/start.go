package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

// Outcome is the result of an action of the kubelet.
type Outcome struct {
	// Reason is its error, such as CreateContainerConfigError; empty after success.
	Reason  string
	Message string
}

// AddPod adds a pod to the kubelet's volume manager, and creates the pod's directories.
func (k *Kubelet) AddPod(pod *v1.Pod) error {
	k.vols.pods[pod.UID] = pod
	dir := filepath.Join(k.vols.root, "pods", string(pod.UID))
	for _, sub := range []string{"volumes", "plugins", "containers"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o750); err != nil {
			return fmt.Errorf("create the pod's directories: %w", err)
		}
	}
	return nil
}

// Sync syncs a pod once, and returns the outcomes by container name; "" is the sandbox's.
func (k *Kubelet) Sync(ctx context.Context, pod *v1.Pod) (map[string]Outcome, error) {
	if err := k.AddPod(pod); err != nil {
		return nil, err
	}
	seen, err := k.Status(ctx, pod)
	if err != nil {
		return nil, fmt.Errorf("status of the pod: %w", err)
	}
	// As in the kubelet's SyncPod: containers get the reported addresses.
	status := generateAPIPodStatus(k.kl, ctx, pod, seen, false)
	seen.IPs = nil
	for _, ip := range status.PodIPs {
		seen.IPs = append(seen.IPs, ip.IP)
	}
	k.SetStatus(pod, status)
	k.runtime.InitializeActuatedPod(klog.Background(), pod)
	out := map[string]Outcome{}
	restarting := slices.ContainsFunc(status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.AllContainersRestarting && c.Status == v1.ConditionTrue
	})
	result := k.runtime.SyncPod(ctx, pod, seen, nil, k.backOff, restarting)
	for _, r := range result.SyncResults {
		name := fmt.Sprint(r.Target)
		if r.Action == kubecontainer.CreatePodSandbox {
			name = ""
		}
		o := Outcome{Message: r.Message}
		if r.Error != nil {
			o.Reason = r.Error.Error()
		}
		out[name] = o
	}
	if result.SyncError != nil {
		out[""] = Outcome{Reason: "SyncError", Message: result.SyncError.Error()}
	}
	return out, nil
}
