package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/preemption"
	"k8s.io/kubernetes/pkg/kubelet/sysctl"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Door decides who is admitted, as the kubelet does with its handlers for sysctls and for what the scheduler's predicates
// say. Nobody is preempted.
type Door struct {
	handlers []lifecycle.PodAdmitHandler
	admitted []*v1.Pod
	// preempted are the pods that ended for the one that asked last, with the status they get.
	preempted map[*v1.Pod]v1.PodStatus
}

// NewDoor makes the door of a node on which nothing runs.
func NewDoor(o Options) *Door {
	here := nodeOf(o)
	find := func(context.Context, bool) (*v1.Node, error) { return here.DeepCopy(), nil }
	none := func(*framework.NodeInfo, *lifecycle.PodAdmitAttributes) error { return nil }
	sysctls, err := sysctl.NewAllowlist(sysctl.SafeSysctlAllowlist(context.Background()))
	if err != nil {
		panic(fmt.Sprintf("the kubelet's list of sysctls: %v", err))
	}
	return &Door{handlers: []lifecycle.PodAdmitHandler{
		sysctls, lifecycle.NewPredicateAdmitHandler(find, lifecycle.NewAdmissionFailureHandlerStub(), none), lifecycle.NewPodFeaturesAdmitHandler(),
	}}
}

// NewPreemptingDoor makes the door of a node on which static pods end others for themselves.
func NewPreemptingDoor(o Options) *Door {
	d, here := &Door{}, nodeOf(o)
	find := func(context.Context, bool) (*v1.Node, error) { return here.DeepCopy(), nil }
	none := func(*framework.NodeInfo, *lifecycle.PodAdmitAttributes) error { return nil }
	kill := func(pod *v1.Pod, _ bool, _ *int64, status func(*v1.PodStatus)) error {
		status(&pod.Status)
		d.preempted[pod] = pod.Status
		return nil
	}
	// In the kubelet the order of the pods is that of a map; which of two pods that are alike ends is left to it.
	all := func() []*v1.Pod {
		return slices.SortedFunc(slices.Values(d.admitted), func(x, y *v1.Pod) int {
			return cmp.Or(cmp.Compare(*y.Spec.Priority, *x.Spec.Priority), cmp.Compare(x.UID, y.UID))
		})
	}
	handler := preemption.NewCriticalPodAdmissionHandler(all, kill, &record.FakeRecorder{})
	d.handlers = []lifecycle.PodAdmitHandler{lifecycle.NewPredicateAdmitHandler(find, handler, none)}
	return d
}

// AskForRoom is Ask that tells, sorted, who ended for the pod as well: "name: reason: message".
func (d *Door) AskForRoom(pod *v1.Pod) (admitted bool, ended []string) {
	d.preempted = map[*v1.Pod]v1.PodStatus{}
	admitted = d.Ask(pod) == "admitted"
	d.admitted = slices.DeleteFunc(d.admitted, func(p *v1.Pod) bool {
		s, gone := d.preempted[p]
		if gone {
			ended = append(ended, fmt.Sprintf("%s: %s: %s", p.Name, s.Reason, s.Message))
		}
		return gone
	})
	slices.Sort(ended)
	return admitted, ended
}

// Ask puts a pod before the door, and gives the answer: "admitted", or the reason and the words of its rejection.
func (d *Door) Ask(pod *v1.Pod) string {
	for _, h := range d.handlers {
		attrs := &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: d.admitted, Operation: lifecycle.AddOperation}
		if r := h.Admit(context.Background(), attrs); !r.Admit {
			return fmt.Sprintf("%s: %s", r.Reason, r.Message)
		}
	}
	d.admitted = append(d.admitted, pod)
	return "admitted"
}
