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

// Admission runs the kubelet's admission handlers, for sysctls and the scheduler's predicates.
type Admission struct {
	handlers []lifecycle.PodAdmitHandler
	admitted []*v1.Pod
	// preempted holds the victims of the last pod, with their status.
	preempted map[*v1.Pod]v1.PodStatus
}

// NewAdmission returns the admission of an empty node, without preemption.
func NewAdmission(o Options) *Admission {
	here := nodeOf(o)
	find := func(context.Context, bool) (*v1.Node, error) { return here.DeepCopy(), nil }
	none := func(*framework.NodeInfo, *lifecycle.PodAdmitAttributes) error { return nil }
	sysctls, err := sysctl.NewAllowlist(append(sysctl.SafeSysctlAllowlist(context.Background()),
		o.AllowedUnsafeSysctls...))
	if err != nil {
		panic(fmt.Sprintf("the kubelet's list of sysctls: %v", err))
	}
	predicates := lifecycle.NewPredicateAdmitHandler(find, lifecycle.NewAdmissionFailureHandlerStub(), none)
	return &Admission{handlers: []lifecycle.PodAdmitHandler{sysctls, predicates, lifecycle.NewPodFeaturesAdmitHandler()}}
}

// NewPreemptingAdmission returns the admission of an empty node, where static pods preempt others.
func NewPreemptingAdmission(o Options) *Admission {
	d, here := &Admission{}, nodeOf(o)
	find := func(context.Context, bool) (*v1.Node, error) { return here.DeepCopy(), nil }
	none := func(*framework.NodeInfo, *lifecycle.PodAdmitAttributes) error { return nil }
	kill := func(pod *v1.Pod, _ bool, _ *int64, status func(*v1.PodStatus)) error {
		status(&pod.Status)
		d.preempted[pod] = pod.Status
		return nil
	}
	// The kubelet's order of pods is the order of a map, and it chooses between two equal victims.
	all := func() []*v1.Pod {
		return slices.SortedFunc(slices.Values(d.admitted), func(x, y *v1.Pod) int {
			return cmp.Or(cmp.Compare(*y.Spec.Priority, *x.Spec.Priority), cmp.Compare(x.UID, y.UID))
		})
	}
	handler := preemption.NewCriticalPodAdmissionHandler(all, kill, &record.FakeRecorder{})
	d.handlers = []lifecycle.PodAdmitHandler{lifecycle.NewPredicateAdmitHandler(find, handler, none)}
	return d
}

// AdmitPreempting is Admit that also returns the victims, sorted: "name: reason: message".
func (d *Admission) AdmitPreempting(pod *v1.Pod) (admitted bool, ended []string) {
	d.preempted = map[*v1.Pod]v1.PodStatus{}
	admitted = d.Admit(pod) == "admitted"
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

// Admit returns "admitted", or the reason and message of the pod's rejection.
func (d *Admission) Admit(pod *v1.Pod) string {
	for _, h := range d.handlers {
		attrs := &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: d.admitted, Operation: lifecycle.AddOperation}
		if r := h.Admit(context.Background(), attrs); !r.Admit {
			return fmt.Sprintf("%s: %s", r.Reason, r.Message)
		}
	}
	d.admitted = append(d.admitted, pod)
	return "admitted"
}
