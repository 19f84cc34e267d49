package kubelet

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/sysctl"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Door decides who is admitted, as the kubelet does with its handlers for sysctls and for what the scheduler's predicates
// say. Nobody is preempted.
type Door struct {
	handlers []lifecycle.PodAdmitHandler
	admitted []*v1.Pod
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
