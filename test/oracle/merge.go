package oracle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/runtime/cluster/podstatus"
	"github.com/journalet/journalet/test/oracle/kubelet"
	"github.com/journalet/journalet/test/oracle/pods"
)

// mergeCase is a pod's own status and the API server's.
type mergeCase struct {
	Pod      *corev1.Pod      `json:"pod"`
	Is, Want corev1.PodStatus `json:",omitempty"`
	MayRun   bool             `json:"mayRun,omitempty"`
}

// generateMerge returns a pod with two statuses that differ as time, other writers and lost journals make them.
func generateMerge(m *pods.Generator) string {
	p := m.Small()
	c := mergeCase{MayRun: m.Chance(50)}
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].RestartPolicy, p.Spec.Containers[i].RestartPolicyRules = nil, nil
	}
	for _, s := range []*corev1.PodStatus{&c.Is, &c.Want} {
		s.Phase = pods.Pick(m, corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed)
		s.Reason = pods.Pick(m, "", "", "Evicted", "DeadlineExceeded")
		for _, kind := range []corev1.PodConditionType{
			corev1.PodScheduled, corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized, corev1.PodResizePending,
			corev1.PodReadyToStartContainers, corev1.DisruptionTarget, corev1.AllContainersRestarting, "example.com/gate",
		} {
			if m.Chance(60) {
				s.Conditions = append(s.Conditions, corev1.PodCondition{
					Type: kind, Status: pods.Pick(m, corev1.ConditionTrue, corev1.ConditionFalse),
					Reason: pods.Pick(m, "", "A", "B"),
				})
			}
		}
		for _, spec := range p.Spec.InitContainers {
			s.InitContainerStatuses = append(s.InitContainerStatuses, statusOf(m, spec.Name))
		}
		for _, spec := range p.Spec.Containers {
			s.ContainerStatuses = append(s.ContainerStatuses, statusOf(m, spec.Name))
		}
	}
	if c.Is.Phase == corev1.PodSucceeded || c.Is.Phase == corev1.PodFailed {
		c.Want.Phase, c.Want.Reason = c.Is.Phase, c.Is.Reason // the kubelet sees to it before
	}
	return podAnd(p, nil) + strings.Replace(toYAML(c), "pod: null\n", "", 1)
}

func statusOf(m *pods.Generator, name string) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: name}
	switch m.N(3) {
	case 0:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	case 1:
		s.State.Running = &corev1.ContainerStateRunning{}
	default:
		s.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: pods.Pick[int32](m, 0, 1, 42)}
	}
	return s
}

// compareMerges compares what is sent of a status to the API server.
func compareMerges(c *testCase) {
	var in mergeCase
	if yaml.Unmarshal([]byte(c.text), &in) != nil || in.Pod == nil ||
		len(in.Want.ContainerStatuses) != len(in.Pod.Spec.Containers) ||
		len(in.Is.ContainerStatuses) != len(in.Pod.Spec.Containers) ||
		len(in.Want.InitContainerStatuses) != len(in.Pod.Spec.InitContainers) ||
		len(in.Is.InitContainerStatuses) != len(in.Pod.Spec.InitContainers) {
		return
	}
	view := in.Pod.DeepCopy()
	view.Status = in.Want
	ours := podstatus.Merge(podstatus.Input{
		View: view, Is: &in.Is, MayRun: in.MayRun, Now: metav1.NewTime(time.Unix(1e9, 0)),
	})
	theirs, err := kubelet.MergeStatus(in.Pod, in.Is, in.Want, in.MayRun)
	if err != nil {
		c.count("withheld")
		if in.MayRun {
			c.differs("illegal transition", ended(in.Is, *ours), true)
		}
		return
	}
	if in.MayRun {
		what := "revived"
		if in.Is.Phase == corev1.PodSucceeded || in.Is.Phase == corev1.PodFailed {
			what = "revived in a terminal phase"
		}
		c.differs(what, kinds(*ours), kinds(in.Want))
	} else {
		init, main := kubelet.Due(in.Pod, in.Want)
		c.differs("ends", ends(ours.InitContainerStatuses[:init])+endsIf(main, ours.ContainerStatuses), "")
	}
	c.differs("phase", ours.Phase, theirs.Phase)
	c.differs("reason", ours.Reason, theirs.Reason)
	c.differs("conditions", conditionsOf(*ours), conditionsOf(theirs))
}

// ended reports whether a container that has ended in one status has the same state in another.
func ended(is, to corev1.PodStatus) bool {
	for i, list := range [][]corev1.ContainerStatus{is.InitContainerStatuses, is.ContainerStatuses} {
		other := to.InitContainerStatuses
		if i == 1 {
			other = to.ContainerStatuses
		}
		for _, s := range list {
			at := slices.IndexFunc(other, func(o corev1.ContainerStatus) bool { return o.Name == s.Name })
			if s.State.Terminated != nil && at >= 0 && other[at].State.Terminated != nil &&
				other[at].State.Terminated.ExitCode == s.State.Terminated.ExitCode {
				return true
			}
		}
	}
	return false
}

func kinds(s corev1.PodStatus) string {
	var out []string
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		out = append(out, fmt.Sprint(c.Name, c.State.Waiting != nil, c.State.Running != nil, c.State.Terminated != nil))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// ends names containers without an end.
func ends(list []corev1.ContainerStatus) (out string) {
	for _, s := range list {
		if s.State.Terminated == nil {
			out += " " + s.Name
		}
	}
	return out
}

func endsIf(due bool, list []corev1.ContainerStatus) string {
	if !due {
		return ""
	}
	return ends(list)
}

func conditionsOf(s corev1.PodStatus) string {
	var out []string
	for _, c := range s.Conditions {
		out = append(out, fmt.Sprint(c.Type, "=", c.Status, " ", c.Reason))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
