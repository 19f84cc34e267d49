package kubelet

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"

	"github.com/journalet/journalet/test/oracle/fakecri"
)

// maxSyncs bounds how often a pod is synced before it is taken never to come to rest.
const maxSyncs = 20

// Settle syncs a pod until the kubelet has nothing more to do for it.
func (k *Kubelet) Settle(ctx context.Context, pod *v1.Pod) error {
	for range maxSyncs {
		before := len(k.fake.Calls())
		status, err := k.APIStatus(ctx, pod, false)
		if err != nil {
			return err
		}
		if status.Phase == v1.PodSucceeded || status.Phase == v1.PodFailed {
			// A pod in a terminal phase is ended by the kubelet's pod worker: its SyncPod says so, and SyncTerminatingPod follows.
			k.Remember(pod, status)
			if err := k.End(ctx, pod); err != nil {
				return err
			}
			return k.collect(ctx)
		}
		if _, err := k.Sync(ctx, pod); err != nil {
			return err
		}
		if len(k.fake.Calls()) == before {
			return k.collect(ctx)
		}
	}
	return ErrRestless
}

// ErrRestless tells that the kubelet goes on and on with a pod.
var ErrRestless = fmt.Errorf("the pod does not come to rest within %d syncs", maxSyncs)

// collect clears away what the kubelet's garbage collection would, which runs every minute: of each container it keeps
// the newest dead instance.
func (k *Kubelet) collect(ctx context.Context) error {
	policy := kubecontainer.GCPolicy{MaxPerPodContainer: 1, MaxContainers: -1}
	if err := k.runtime.GarbageCollect(ctx, policy, true, false); err != nil {
		return fmt.Errorf("collect garbage: %w", err)
	}
	return nil
}

// End ends a pod, as the kubelet does with one that is removed or has come to a terminal phase.
func (k *Kubelet) End(ctx context.Context, pod *v1.Pod) error {
	seen, err := k.Status(ctx, pod)
	if err != nil {
		return fmt.Errorf("status of the pod: %w", err)
	}
	if err := k.runtime.KillPod(ctx, pod, kubecontainer.ConvertPodStatusToRunningPod(fakecri.Name, seen), nil); err != nil {
		return fmt.Errorf("end the pod: %w", err)
	}
	return nil
}

// BackOff is how long the kubelet makes a container wait from the end of its last run.
func (k *Kubelet) BackOff(pod *v1.Pod, container *v1.Container) time.Duration {
	return k.backOff.Get(kuberuntime.GetBackoffKey(pod, container))
}
