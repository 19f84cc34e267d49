package main

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/journalet/journalet/runtime/api/query"
)

// podSummary is a pod in one row, as `kubectl get pods` sums it up.
type podSummary struct {
	ready, total int
	status       string
	restarts     int
	lastRestart  time.Time
}

// summarize reads a pod's status in kubectl's way: the pod's own reason, then what holds up its init
// containers, then what is the matter with its containers, the first one winning.
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
	case p.Status.Reason == query.ReasonQuarantined:
		// Nobody acts on what the containers say any more: that is the thing to know.
		s.status = query.ReasonQuarantined
	case p.DeletionTimestamp != nil && p.Status.Reason == "NodeLost":
		s.status = string(corev1.PodUnknown)
	case p.DeletionTimestamp != nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed:
		s.status = "Terminating"
	}
	return s
}

// initContainers looks at the init containers and tells whether one of them holds up the pod.
func (s *podSummary) initContainers(p *corev1.Pod) bool {
	sidecar := map[string]bool{}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecar[c.Name] = true
			s.total++
		}
	}
	held := false
	for i := range p.Status.InitContainerStatuses {
		c := &p.Status.InitContainerStatuses[i]
		if !held || sidecar[c.Name] {
			s.count(c)
		}
		if held {
			continue
		}
		switch t, w := c.State.Terminated, c.State.Waiting; {
		case t != nil && t.ExitCode == 0:
		case sidecar[c.Name] && c.Started != nil && *c.Started:
			if c.Ready {
				s.ready++
			}
		case t != nil:
			s.status, held = "Init:"+ended(t), true
		case w != nil && w.Reason != "" && w.Reason != "PodInitializing":
			s.status, held = "Init:"+w.Reason, true
		default:
			s.status, held = fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers)), true
		}
	}
	return held
}

// containers looks at the main containers. Restarts of init containers that have done their work are
// not counted any more; those of sidecars are.
func (s *podSummary) containers(p *corev1.Pod) {
	s.restarts, s.lastRestart = 0, time.Time{}
	for i := range p.Status.InitContainerStatuses {
		for j := range p.Spec.InitContainers {
			c := &p.Spec.InitContainers[j]
			if c.Name == p.Status.InitContainerStatuses[i].Name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
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
			s.status = ended(c.State.Terminated)
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

// ended is how a container ended, in one word.
func ended(t *corev1.ContainerStateTerminated) string {
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

// restartsText is "3 (5s ago)", or the bare number if nothing is known of the last one.
func (s *podSummary) restartsText(now time.Time) string {
	if s.restarts == 0 || s.lastRestart.IsZero() {
		return strconv.Itoa(s.restarts)
	}
	return fmt.Sprintf("%d (%s ago)", s.restarts, duration.HumanDuration(now.Sub(s.lastRestart)))
}

// age is how long ago a time was, in kubectl's words.
func age(now time.Time, t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// podName is a pod's name; a pod that no source has named has only its UID.
func podName(p *corev1.Pod) string {
	if p.Name == "" {
		return string(p.UID)
	}
	return p.Name
}
