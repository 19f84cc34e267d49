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

// Books are the kubelet's allocation manager, which says what pods have and which resizes have to wait.
type Books struct {
	manager allocation.Manager
	status  status.Manager
	pods    kubepod.Manager
	active  []types.UID
}

// withoutSwap is a container runtime of which nothing is asked but that.
type withoutSwap struct{ kubecontainer.Runtime }

func (withoutSwap) GetContainerSwapBehavior(*v1.Pod, *v1.Container) kubetypes.SwapBehavior {
	return kubetypes.NoSwap
}

// NewBooks makes the books of a node on which nothing runs.
func NewBooks(o Options) *Books {
	b := &Books{pods: kubepod.NewBasicPodManager()}
	b.status = status.NewManager(client{}, b.pods, workers{}, workers{})
	here := nodeOf(o)
	find := func(context.Context, bool) (*v1.Node, error) { return here.DeepCopy(), nil }
	none := func(*framework.NodeInfo, *lifecycle.PodAdmitAttributes) error { return nil }
	b.manager = allocation.NewInMemoryManager(klog.Background(), b.status, func(context.Context, *v1.Pod) {}, b.running, b.pods.GetPodByUID,
		config.NewSourcesReady(func(sets.Set[string]) bool { return true }), &record.FakeRecorder{})
	kill := func(pod *v1.Pod, _ bool, _ *int64, _ func(*v1.PodStatus)) error {
		b.remove(pod.UID)
		return nil
	}
	// In the kubelet the order of the pods is that of a map; which of two pods that are alike ends is left to it.
	all := func() []*v1.Pod {
		return slices.SortedFunc(slices.Values(b.manager.GetAllocatedPods()), func(x, y *v1.Pod) int {
			return cmp.Or(cmp.Compare(*y.Spec.Priority, *x.Spec.Priority), cmp.Compare(x.UID, y.UID))
		})
	}
	b.manager.AddPodAdmitHandlers(lifecycle.PodAdmitHandlers{
		allocation.NewPodResizesAdmitHandler(cm.NewFakeContainerManager(klog.Background()), withoutSwap{}, b.manager),
		lifecycle.NewPredicateAdmitHandler(find, preemption.NewCriticalPodAdmissionHandler(all, kill, &record.FakeRecorder{}), none),
	})
	return b
}

func (b *Books) running() []*v1.Pod {
	var list []*v1.Pod
	for _, uid := range b.active {
		if p, ok := b.pods.GetPodByUID(uid); ok {
			list = append(list, p)
		}
	}
	return list
}

// Add asks for a pod; false if it does not fit.
func (b *Books) Add(pod *v1.Pod) bool {
	ok, _, _ := b.manager.AddPod(context.Background(), b.running(), pod)
	if ok {
		b.pods.AddPod(pod)
		b.active = append(b.active, pod.UID)
	}
	return ok
}

// Resize gives a pod another manifest, as HandlePodUpdates does.
func (b *Books) Resize(pod *v1.Pod) {
	b.pods.UpdatePod(pod)
	if _, other := b.manager.UpdatePodFromAllocation(pod); !other {
		b.status.ClearPodResizePendingCondition(pod.UID, metrics.DeferredResizeResolutionReverted)
		return
	}
	b.manager.PushPendingResize(klog.Background(), pod.UID)
	b.retry()
}

// End ends a pod, as HandlePodRemoves does.
func (b *Books) End(uid types.UID) {
	b.remove(uid)
	b.retry()
}

func (b *Books) remove(uid types.UID) {
	if p, ok := b.pods.GetPodByUID(uid); ok {
		b.pods.RemovePod(p)
	}
	b.active = slices.DeleteFunc(b.active, func(other types.UID) bool { return other == uid })
	b.manager.RemovePod(klog.Background(), uid)
}

// retry tries what is pending as often as the kubelet would: what has shrunk frees resources, and it tries again.
func (b *Books) retry() {
	for range len(b.active) + 1 {
		b.manager.RetryPendingResizes(context.Background(), allocation.TriggerReasonPodUpdated)
	}
}

// Has is what a pod's only container requests, and why its resize waits.
func (b *Books) Has(uid types.UID) string {
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
