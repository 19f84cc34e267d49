package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
	kubepod "k8s.io/kubernetes/pkg/kubelet/pod"
	"k8s.io/kubernetes/pkg/kubelet/preemption"
	"k8s.io/kubernetes/pkg/kubelet/status"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Allocations is the kubelet's allocation manager, which decides what pods have and which resizes wait.
type Allocations struct {
	manager allocation.Manager
	status  status.Manager
	pods    kubepod.Manager
	active  []types.UID
}

// withoutSwap is a container runtime that can only report its swap behaviour.
type withoutSwap struct{ kubecontainer.Runtime }

func (withoutSwap) GetContainerSwapBehavior(*v1.Pod, *v1.Container) kubetypes.SwapBehavior {
	return kubetypes.NoSwap
}

// NewAllocations returns the allocation manager of an empty node.
func NewAllocations(o Options) *Allocations {
	b := &Allocations{pods: kubepod.NewBasicPodManager()}
	b.status = status.NewManager(client{}, b.pods, workers{}, workers{})
	here := nodeOf(o)
	find := func(context.Context, bool) (*v1.Node, error) { return here.DeepCopy(), nil }
	none := func(*framework.NodeInfo, *lifecycle.PodAdmitAttributes) error { return nil }
	b.manager = allocation.NewInMemoryManager(klog.Background(), b.status, func(context.Context, *v1.Pod) {}, b.running,
		b.pods.GetPodByUID, config.NewSourcesReady(func(sets.Set[string]) bool { return true }), &record.FakeRecorder{})
	kill := func(pod *v1.Pod, _ bool, _ *int64, _ func(*v1.PodStatus)) error {
		b.remove(pod.UID)
		return nil
	}
	// The kubelet's order of pods is the order of a map, and it chooses between two equal victims.
	all := func() []*v1.Pod {
		return slices.SortedFunc(slices.Values(b.manager.GetAllocatedPods()), func(x, y *v1.Pod) int {
			return cmp.Or(cmp.Compare(*y.Spec.Priority, *x.Spec.Priority), cmp.Compare(x.UID, y.UID))
		})
	}
	preempt := preemption.NewCriticalPodAdmissionHandler(all, kill, &record.FakeRecorder{})
	b.manager.AddPodAdmitHandlers(lifecycle.PodAdmitHandlers{
		allocation.NewPodResizesAdmitHandler(cm.NewFakeContainerManager(klog.Background()), withoutSwap{}, b.manager),
		lifecycle.NewPredicateAdmitHandler(find, preempt, none),
	})
	return b
}

func (b *Allocations) running() []*v1.Pod {
	var list []*v1.Pod
	for _, uid := range b.active {
		if p, ok := b.pods.GetPodByUID(uid); ok {
			list = append(list, p)
		}
	}
	return list
}

// Add requests the admission of a pod, and returns false if it does not fit.
func (b *Allocations) Add(pod *v1.Pod) bool {
	ok, _, _ := b.manager.AddPod(context.Background(), b.running(), pod)
	if ok {
		b.pods.AddPod(pod)
		b.active = append(b.active, pod.UID)
	}
	return ok
}

// Resize updates a pod's manifest, as HandlePodUpdates does.
func (b *Allocations) Resize(pod *v1.Pod) {
	b.pods.UpdatePod(pod)
	if _, other := b.manager.UpdatePodFromAllocation(pod); !other {
		b.status.ClearPodResizePendingCondition(pod.UID, metrics.DeferredResizeResolutionReverted)
		return
	}
	b.manager.PushPendingResize(klog.Background(), pod.UID)
	b.retry()
}

// End ends a pod, as HandlePodRemoves does.
func (b *Allocations) End(uid types.UID) {
	b.remove(uid)
	b.retry()
}

func (b *Allocations) remove(uid types.UID) {
	if p, ok := b.pods.GetPodByUID(uid); ok {
		b.pods.RemovePod(p)
	}
	b.active = slices.DeleteFunc(b.active, func(other types.UID) bool { return other == uid })
	b.manager.RemovePod(klog.Background(), uid)
}

// retry retries pending resizes as often as the kubelet does: it tries again after each pod that has shrunk.
func (b *Allocations) retry() {
	for range len(b.active) + 1 {
		b.manager.RetryPendingResizes(context.Background(), allocation.TriggerReasonPodUpdated)
	}
}

// Has describes what a pod's only container is allocated, and why its resize waits.
func (b *Allocations) Has(uid types.UID) string {
	p, ok := b.pods.GetPodByUID(uid)
	if !ok {
		return "gone"
	}
	r, _ := b.manager.GetContainerResourceAllocation(uid, p.Spec.Containers[0].Name)
	text := fmt.Sprintf("%dm, %d bytes", r.Requests.Cpu().MilliValue(), r.Requests.Memory().Value())
	for _, c := range b.status.GetPodResizeConditions(uid) {
		if c.Type == v1.PodResizePending {
			text += fmt.Sprintf("; %s: %s", c.Reason, c.Message)
		}
	}
	return text
}
