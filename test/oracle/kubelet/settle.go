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

// maxSyncs bounds the syncs until a pod has to settle.
const maxSyncs = 20

// Settle syncs a pod until a sync makes no call, then collects garbage.
func (k *Kubelet) Settle(ctx context.Context, pod *v1.Pod) error {
	for range maxSyncs {
		before := len(k.fake.Calls())
		status, err := k.APIStatus(ctx, pod, false)
		if err != nil {
			return err
		}
		if status.Phase == v1.PodSucceeded || status.Phase == v1.PodFailed {
			// The kubelet's pod worker ends a pod in a terminal phase: SyncPod reports it, and SyncTerminatingPod follows.
			k.SetStatus(pod, status)
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
	return ErrUnsettled
}

// ErrUnsettled is the error of a pod that does not settle.
var ErrUnsettled = fmt.Errorf("the pod does not settle within %d syncs", maxSyncs)

// collect runs the kubelet's garbage collection, which runs every minute. It keeps the newest dead instance of each
// container.
func (k *Kubelet) collect(ctx context.Context) error {
	policy := kubecontainer.GCPolicy{MaxPerPodContainer: 1, MaxContainers: -1}
	if err := k.runtime.GarbageCollect(ctx, policy, true, false); err != nil {
		return fmt.Errorf("collect garbage: %w", err)
	}
	return nil
}

// End ends a pod, as the kubelet does with a removed one, and with one in a terminal phase.
func (k *Kubelet) End(ctx context.Context, pod *v1.Pod) error {
	seen, err := k.Status(ctx, pod)
	if err != nil {
		return fmt.Errorf("status of the pod: %w", err)
	}
	if err := k.runtime.KillPod(ctx, pod, kubecontainer.ConvertPodStatusToRunningPod(fakecri.Name, seen),
		nil); err != nil {
		return fmt.Errorf("end the pod: %w", err)
	}
	return nil
}

// BackOff returns the back-off of a container from the end of its last run.
func (k *Kubelet) BackOff(pod *v1.Pod, container *v1.Container) time.Duration {
	return k.backOff.Get(kuberuntime.GetBackoffKey(pod, container))
}
