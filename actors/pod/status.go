package pod

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/messages/journaletv1"
)

// A readiness gate names a condition that is set from outside the agent: in a file beside the pod (ADR 011), or in the
// status of a pod of the API server. runtime/pod/gate reads it for as long as the pod may become ready.

// reasonGates is why a pod is not ready although its containers are (pkg/kubelet/status).
const reasonGates = "ReadinessGatesNotReady"

// gatesReady reports whether every readiness gate's condition is there and true, in the kubelet's words.
func (a *Actor) gatesReady() (ok bool, reason, message string) {
	var unready []string
	for _, gate := range a.manifest.Spec.ReadinessGates {
		switch c := a.gate(string(gate.ConditionType)); {
		case c == nil:
			unready = append(unready, fmt.Sprintf(
				"corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case c.GetStatus() != string(corev1.ConditionTrue):
			unready = append(unready, fmt.Sprintf(
				"the status of pod readiness gate %q is not \"True\", but %s", gate.ConditionType, c.GetStatus()))
		}
	}
	if len(unready) > 0 {
		return false, reasonGates, strings.Join(unready, ", ")
	}
	return true, "", ""
}

// Why a pod's containers cannot start, as the kubelet words it (pkg/kubelet/types: PodSandboxNotReady...).
const (
	reasonNoSandbox    = "PodSandboxNotReady"
	messageNoSandbox   = "no pod sandbox exists"
	messageDeadSandbox = "pod sandbox is not ready"
)

const (
	pending      = journaletv1.PodPhase_POD_PHASE_PENDING
	runningPhase = journaletv1.PodPhase_POD_PHASE_RUNNING
	succeeded    = journaletv1.PodPhase_POD_PHASE_SUCCEEDED
	failed       = journaletv1.PodPhase_POD_PHASE_FAILED
)

// conditionTypes are the conditions that a pod reports, in the kubelet's order.
var conditionTypes = []corev1.PodConditionType{
	corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
}

// reportStatus emits PodStatusChanged if the status differs from what was last reported.
func (d *step) reportStatus() {
	d = &step{actor: d.certain(), in: d.in, now: d.now, emit: d.emit}
	s := d.state
	c := &journaletv1.PodStatusChanged{Phase: d.phase(), Reason: s.GetReason(), Message: s.GetMessage()}
	changed := c.GetPhase() != s.GetPhase()
	for _, cond := range d.conditions(c.GetPhase()) {
		old := s.Conditions[cond.GetType()]
		if old == nil || old.GetStatus() != cond.GetStatus() || old.GetReason() != cond.GetReason() ||
			old.GetMessage() != cond.GetMessage() {
			c.Conditions = append(c.Conditions, cond)
			changed = true
		}
	}
	for _, t := range slices.Sorted(maps.Keys(s.Conditions)) {
		is := func(c *journaletv1.Condition) bool { return c.GetType() == t }
		if isResize(t) && !slices.ContainsFunc(d.resizeConditions(), is) {
			c.RemovedConditions = append(c.RemovedConditions, t)
			changed = true
		}
	}
	for spec := range containers.All(d.manifest) {
		r := d.record(spec.Name)
		c.Restarts += restartCount(r)
		if !d.runsToCompletion(spec) && !d.isEphemeral(spec.Name) && d.ready(spec) {
			c.Ready++
		}
		w := d.waiting(spec)
		if w.GetReason() == r.GetWaiting().GetReason() && w.GetMessage() == r.GetWaiting().GetMessage() {
			continue
		}
		if c.Waiting == nil {
			c.Waiting = map[string]*journaletv1.ContainerWaiting{}
		}
		if w == nil {
			w = new(journaletv1.ContainerWaiting)
		}
		c.Waiting[spec.Name] = w
		changed = true
	}
	if !changed {
		return
	}
	d.decide(c)
}

// restartCount returns how often a container was restarted. Instances that did not run are no restarts where the policy
// knows none; for all others it is the attempt number, as with the kubelet.
func restartCount(r *journaletv1.ContainerRecord) uint32 {
	return max(restarts(r), r.GetReportedRestarts())
}

// restarts returns how often a container was restarted, by the attempt number of its newest instance.
func restarts(r *journaletv1.ContainerRecord) uint32 {
	n := r.GetCurrent().GetAttempt()
	return n - min(n, r.GetInstancesNotRun())
}

// terminalPhase returns the phase of a pod that will run nothing again (kubelet: Succeeded if every main container
// ended with 0, else Failed). Main containers of an earlier sandbox do not count if an init container has failed since.
func (a *Actor) terminalPhase() journaletv1.PodPhase {
	if a.state.GetRejected() || a.state.GetFails() || a.initFailed() {
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

// phase returns the phase as the kubelet's getPhase does.
func (a *Actor) phase() journaletv1.PodPhase {
	switch a.state.GetStage() {
	case unknown, admitting:
		return pending
	case terminated, cleaning, finished:
		if a.KeepsStatus() && a.state.GetPhase() != journaletv1.PodPhase_POD_PHASE_UNSPECIFIED {
			return a.state.GetPhase()
		}
		return a.terminalPhase()
	}
	if a.state.GetFails() || a.initFailed() {
		return failed
	}
	var run, stopped, waits int
	for i := range a.containers() {
		c := &a.containers()[i]
		switch r := a.record(c.Name); {
		case isRunning(r) && (a.noMoreStarts() || postStarted(c, r)):
			run++
		case exited(r.GetCurrent()), a.last(r) != nil:
			stopped++
		default:
			waits++
		}
	}
	if waits > 0 || run+stopped == 0 || a.initializing() {
		return pending
	}
	return runningPhase
}

// isRunning reports whether a container was observed to run.
func isRunning(r *journaletv1.ContainerRecord) bool {
	return running(r.GetCurrent()) && r.GetCurrent().GetStartedAt() != nil
}

// initializing reports whether the init containers keep the pod pending. A sidecar that is restarted does not, once the
// pod was initialized in its sandbox. One that has never run does.
func (a *Actor) initializing() bool {
	for i := range a.initContainers() {
		c := &a.initContainers()[i]
		r := a.record(c.Name)
		ended := exited(r.GetCurrent()) || !isRunning(r) && a.last(r) != nil
		switch {
		case !isSidecar(c):
			if !ended && !a.presumedDone(c) {
				return true
			}
		case isRunning(r):
			if !a.started(c) && !a.initialized() {
				return true
			}
		case !ended:
			return true
		}
	}
	return false
}

// conditions returns the pod's conditions without their times.
func (a *Actor) conditions(p journaletv1.PodPhase) []*journaletv1.Condition {
	var all []*journaletv1.Condition
	for _, t := range conditionTypes {
		all = append(all, a.condition(t, p))
	}
	all = append(all, a.restartingAll(p)...)
	return append(append(all, a.resizeConditions()...), a.disruption()...)
}

func (a *Actor) condition(t corev1.PodConditionType, p journaletv1.PodPhase) *journaletv1.Condition {
	c := &journaletv1.Condition{Type: string(t), Status: true}
	switch t {
	case corev1.PodReadyToStartContainers:
		c.Message = a.sandboxProblem()
		if c.Status = c.Message == ""; !c.Status {
			c.Reason = reasonNoSandbox
		}
	case corev1.PodInitialized:
		c.Status, c.Reason, c.Message = a.initialization(p)
	case corev1.PodReady, corev1.ContainersReady:
		c.Status, c.Reason, c.Message = a.readiness(p)
		if t == corev1.PodReady && c.GetStatus() {
			c.Status, c.Reason, c.Message = a.gatesReady()
		}
	}
	return c
}

// initialization reports whether the pod is initialized, and if not, why. A pod that was initialized stays so, also
// while its init containers run again in a new sandbox: the kubelet keeps the condition (1.36 and later).
func (a *Actor) initialization(p journaletv1.PodPhase) (ok bool, reason, message string) {
	if p == succeeded {
		return true, "PodCompleted", ""
	}
	var incomplete []string
	for i := range a.initContainers() {
		c := &a.initContainers()[i]
		if isSidecar(c) && !a.started(c) || !isSidecar(c) && !a.initCompleted(c) {
			incomplete = append(incomplete, c.Name)
		}
	}
	was := a.state.Conditions[string(corev1.PodInitialized)].GetStatus()
	if len(incomplete) == 0 || was || a.anyMainSeen() {
		return true, "", ""
	}
	return false, "ContainersNotInitialized",
		fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(incomplete, " "))
}

// anyMainSeen reports whether a main container was observed to run, in whatever sandbox.
func (a *Actor) anyMainSeen() bool {
	for i := range a.containers() {
		if r := a.record(a.containers()[i].Name); isRunning(r) || exited(r.GetCurrent()) {
			return true
		}
	}
	return false
}

// readiness reports whether all containers are ready, and if not, why.
func (a *Actor) readiness(p journaletv1.PodPhase) (ok bool, reason, message string) {
	switch p {
	case succeeded:
		return false, "PodCompleted", ""
	case failed:
		return false, "PodFailed", ""
	}
	var unready []string
	for c := range a.all() {
		if !a.runsToCompletion(c) && !a.ready(c) {
			unready = append(unready, c.Name)
		}
	}
	if len(unready) > 0 || a.manifest == nil {
		return false, "ContainersNotReady", fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
	}
	return true, "", ""
}

// restartingAll returns the condition of a pod with a rule that restarts all containers.
func (a *Actor) restartingAll(p journaletv1.PodPhase) []*journaletv1.Condition {
	if !slices.ContainsFunc(slices.Collect(a.all()), mayRestartAll) {
		return nil
	}
	c := &journaletv1.Condition{Type: string(corev1.AllContainersRestarting)}
	switch {
	case p == succeeded:
		c.Reason = "PodCompleted"
	case p == failed:
		c.Reason = "PodFailed"
	case a.state.GetAllContainersRestarting() != nil:
		c.Status, c.Reason, c.Message = true, reasonRestartingAll, messageRestartingAll
	}
	return []*journaletv1.Condition{c}
}

// disruption returns the condition of a victim of preemption, and of a pod that the node ended.
func (a *Actor) disruption() []*journaletv1.Condition {
	message := messageDisruption
	switch s := a.state; {
	case s.GetEndedByNode():
		message = s.GetMessage()
	case !s.GetPreempted():
		return nil
	}
	return []*journaletv1.Condition{{
		Type: string(corev1.DisruptionTarget), Status: true, Reason: corev1.PodReasonTerminationByKubelet, Message: message,
	}}
}

// sandboxProblem returns why the pod has no sandbox for containers, empty if it has one.
func (a *Actor) sandboxProblem() string {
	reported := a.state.Conditions[string(corev1.PodReadyToStartContainers)]
	switch {
	case a.state.GetStage() >= cleaning && reported != nil && !reported.GetStatus():
		// While a pod is cleaned up the removal of one sandbox after the other is not reported.
		return reported.GetMessage()
	case a.state.GetSandboxId() != "" && a.state.GetStage() < terminated:
		return ""
	case len(a.state.GetObserved().GetSandboxes()) == 0 && a.state.GetSandboxId() == "":
		return messageNoSandbox
	}
	return messageDeadSandbox
}

// sortedConditions returns the conditions in the order of conditionTypes, then any other by name.
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

// certain returns the pod as far as it is certain: without instances that are observed to have ended without running
// while their start is under way. Whether such an instance ran is known when the start has its outcome. A report from
// before might have to be withdrawn.
func (a *Actor) certain() *Actor {
	var uncertain []string
	for _, name := range slices.Sorted(maps.Keys(a.state.GetContainers())) {
		r := a.state.Containers[name]
		if cur := r.GetCurrent(); exited(cur) && cur.GetStartedAt() == nil && a.calling(startOfNewest(r)) {
			uncertain = append(uncertain, name)
		}
	}
	if len(uncertain) == 0 {
		return a
	}
	k := *a
	k.state = proto.CloneOf(a.state)
	for _, name := range uncertain {
		r := k.state.Containers[name]
		// Its restart may have been reported when it was observed as created: see evolveNotRun.
		r.ReportedRestarts = max(r.GetReportedRestarts(), restarts(r))
		r.Current, r.Last = r.GetLast(), nil
	}
	return &k
}
