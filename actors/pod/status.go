package pod

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	pending   = journaletv1.PodPhase_POD_PHASE_PENDING
	runs      = journaletv1.PodPhase_POD_PHASE_RUNNING
	succeeded = journaletv1.PodPhase_POD_PHASE_SUCCEEDED
	failed    = journaletv1.PodPhase_POD_PHASE_FAILED
)

// conditionTypes are the conditions that a pod reports, in the order of the kubelet's.
var conditionTypes = []corev1.PodConditionType{
	corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
}

// tellStatus decides a PodStatusChanged if what the pod reports is not what it last told.
func (d *step) tellStatus() error {
	s := d.state
	c := &journaletv1.PodStatusChanged{Phase: d.phase(), Reason: s.GetReason(), Message: s.GetMessage()}
	changed := c.GetPhase() != s.GetPhase()
	for _, cond := range d.conditions(c.GetPhase()) {
		old := s.Conditions[cond.GetType()]
		if old == nil || old.GetStatus() != cond.GetStatus() || old.GetReason() != cond.GetReason() || old.GetMessage() != cond.GetMessage() {
			c.Conditions = append(c.Conditions, cond)
			changed = true
		}
	}
	for i := range d.containers() {
		spec := &d.manifest.Spec.Containers[i]
		r := d.record(spec.Name)
		c.Restarts += restarts(r)
		if d.ready(spec) {
			c.Ready++
		}
		w := d.waiting(spec)
		if w.GetReason() == r.GetWaiting().GetReason() && w.GetMessage() == r.GetWaiting().GetMessage() {
			continue
		}
		if c.Waiting == nil {
			c.Waiting = map[string]*journaletv1.Waiting{}
		}
		if w == nil {
			w = new(journaletv1.Waiting)
		}
		c.Waiting[spec.Name] = w
		changed = true
	}
	if !changed {
		return nil
	}
	return d.emit(&journaletv1.Event{Kind: &journaletv1.Event_PodStatusChanged{PodStatusChanged: c}})
}

func (a *Actor) containers() []corev1.Container {
	if a.manifest == nil {
		return nil
	}
	return a.manifest.Spec.Containers
}

// restarts is the number of times that a container was started again.
func restarts(r *journaletv1.ContainerRecord) uint32 { return r.GetCurrent().GetAttempt() }

// terminalPhase is the phase of a pod of which nothing will run again
// (kubelet: Succeeded if every container ended with 0, else Failed).
func (a *Actor) terminalPhase() journaletv1.PodPhase {
	if a.state.GetRejected() {
		return failed
	}
	for i := range a.containers() {
		cur := a.record(a.containers()[i].Name).GetCurrent()
		if !exited(cur) || cur.GetExitCode() != 0 {
			return failed
		}
	}
	return succeeded
}

// phase is the kubelet's getPhase for a pod without init containers.
func (a *Actor) phase() journaletv1.PodPhase {
	switch a.state.GetStage() {
	case unknown, admitting:
		return pending
	case terminated, cleaning, finished:
		return a.terminalPhase()
	}
	var run, stopped, waits int
	for i := range a.containers() {
		c := &a.containers()[i]
		r := a.record(c.Name)
		switch cur := r.GetCurrent(); {
		case running(cur) && cur.GetStartedAt() != nil:
			run++
		case exited(cur), r.GetLast() != nil:
			stopped++
		default:
			waits++
		}
	}
	if waits > 0 || run+stopped == 0 {
		return pending
	}
	return runs
}

// conditions are the pod's conditions without their times.
func (a *Actor) conditions(p journaletv1.PodPhase) []*journaletv1.Condition {
	var all []*journaletv1.Condition
	for _, t := range conditionTypes {
		all = append(all, a.condition(t, p))
	}
	return all
}

func (a *Actor) condition(t corev1.PodConditionType, p journaletv1.PodPhase) *journaletv1.Condition {
	c := &journaletv1.Condition{Type: string(t), Status: true}
	switch t {
	case corev1.PodReadyToStartContainers:
		c.Status = a.state.GetSandboxId() != "" && a.state.GetStage() < terminated
	case corev1.PodInitialized:
		if p == succeeded {
			c.Reason = "PodCompleted"
		}
	case corev1.PodReady, corev1.ContainersReady:
		c.Status, c.Reason, c.Message = a.readiness(p)
	}
	return c
}

// readiness tells whether all containers are ready, and if not, why.
func (a *Actor) readiness(p journaletv1.PodPhase) (ok bool, reason, message string) {
	switch p {
	case succeeded:
		return false, "PodCompleted", ""
	case failed:
		return false, "PodFailed", ""
	}
	var unready []string
	for i := range a.containers() {
		if c := &a.containers()[i]; !a.ready(c) {
			unready = append(unready, c.Name)
		}
	}
	if len(unready) > 0 || a.manifest == nil {
		return false, "ContainersNotReady", fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
	}
	return true, "", ""
}

// sortedConditions lists the conditions in the order of their types above, then any other by name.
func sortedConditions(m map[string]*journaletv1.Condition) []*journaletv1.Condition {
	var all []*journaletv1.Condition
	for _, t := range conditionTypes {
		if c := m[string(t)]; c != nil {
			all = append(all, c)
		}
	}
	for _, t := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(conditionTypes, corev1.PodConditionType(t)) {
			all = append(all, m[t])
		}
	}
	return all
}
