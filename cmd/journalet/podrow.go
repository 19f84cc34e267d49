package main

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/runtime/history/describe"
)

// podSummary is a pod in one row, as in `kubectl get pods`.
type podSummary struct {
	ready, total int
	status       string
	restarts     int
	lastRestart  time.Time
}

// summarize derives a pod's status as kubectl does: from the pod's own reason, then from an init container that is not
// done, then from its containers, where the first one wins.
func summarize(p *corev1.Pod) podSummary {
	s := podSummary{total: len(p.Spec.Containers), status: string(p.Status.Phase)}
	if p.Status.Reason != "" {
		s.status = p.Status.Reason
	}
	initializing := s.initContainers(p)
	if !initializing || condition(p, corev1.PodInitialized) {
		s.containers(p)
	}
	switch {
	case p.Status.Reason == node.ReasonDrained:
		// Its containers wait, or were stopped, for this alone.
		s.status = node.ReasonDrained
	case p.Status.Reason == describe.ReasonQuarantined:
		// It comes before the containers' states: the agent does not react to them any more.
		s.status = describe.ReasonQuarantined
	case p.DeletionTimestamp != nil && p.Status.Reason == "NodeLost":
		s.status = string(corev1.PodUnknown)
	case p.DeletionTimestamp != nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed:
		s.status = "Terminating"
	}
	return s
}

// initContainers sums up the init containers and reports whether one of them is not done.
func (s *podSummary) initContainers(p *corev1.Pod) bool {
	sidecar := map[string]bool{}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecar[c.Name] = true
			s.total++
		}
	}
	blocked := false
	for i := range p.Status.InitContainerStatuses {
		c := &p.Status.InitContainerStatuses[i]
		if !blocked || sidecar[c.Name] {
			s.count(c)
		}
		if blocked {
			continue
		}
		switch t, w := c.State.Terminated, c.State.Waiting; {
		case t != nil && t.ExitCode == 0:
		case sidecar[c.Name] && c.Started != nil && *c.Started:
			if c.Ready {
				s.ready++
			}
		case t != nil:
			s.status, blocked = "Init:"+terminationReason(t), true
		case w != nil && w.Reason != "" && w.Reason != "PodInitializing":
			s.status, blocked = "Init:"+w.Reason, true
		default:
			s.status, blocked = fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers)), true
		}
	}
	return blocked
}

// containers sums up the main containers. Restarts of sidecars count; restarts of completed init containers do not.
func (s *podSummary) containers(p *corev1.Pod) {
	s.restarts, s.lastRestart = 0, time.Time{}
	for i := range p.Status.InitContainerStatuses {
		for j := range p.Spec.InitContainers {
			c := &p.Spec.InitContainers[j]
			if c.Name == p.Status.InitContainerStatuses[i].Name && c.RestartPolicy != nil &&
				*c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
				s.count(&p.Status.InitContainerStatuses[i])
			}
		}
	}
	runs := false
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &p.Status.ContainerStatuses[i]
		s.count(c)
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.status = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			s.status = terminationReason(c.State.Terminated)
		case c.Ready && c.State.Running != nil:
			runs = true
			s.ready++
		}
	}
	if s.status == "Completed" && runs {
		s.status = "NotReady"
		if condition(p, corev1.PodReady) {
			s.status = string(corev1.PodRunning)
		}
	}
}

func (s *podSummary) count(c *corev1.ContainerStatus) {
	s.restarts += int(c.RestartCount)
	if t := c.LastTerminationState.Terminated; t != nil && t.FinishedAt.After(s.lastRestart) {
		s.lastRestart = t.FinishedAt.Time
	}
}

// terminationReason returns how a container ended, in one word.
func terminationReason(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// restartsText returns "3 (5s ago)", or the bare number if the time of the last restart is unknown.
func (s *podSummary) restartsText(now time.Time) string {
	if s.restarts == 0 || s.lastRestart.IsZero() {
		return strconv.Itoa(s.restarts)
	}
	return fmt.Sprintf("%d (%s ago)", s.restarts, duration.HumanDuration(now.Sub(s.lastRestart)))
}

// age formats the time since t as kubectl does.
func age(now time.Time, t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// podName returns a pod's name, or its UID if it is an orphan without a name.
func podName(p *corev1.Pod) string {
	if p.Name == "" {
		return string(p.UID)
	}
	return p.Name
}
