package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// podHistory is what the judge knows of one pod by UID, whatever the agent's state says.
type podHistory struct {
	// gone: nothing of it may be made any more, until its source adds it again.
	gone bool
	// source is the one that added it and has not forgotten it, empty for none.
	source string
	// manifest is the manifest that it is to run: of this incarnation, as its source updated it last.
	manifest *corev1.Pod
	createdAt time.Time
	// restarts are restart counts by container.
	restarts map[string]uint32
	// ran are the containers that ran, by name and attempt; began counts runs of those that may run but once.
	ran, onceRuns map[string]int
	// once are the instances, by id, that are to run but once, with the key of began; counted are those that began counts.
	once    map[string]string
	counted map[string]bool
	// instances counts what was made, by sandbox and name.
	instances map[string]int
	// started and doneWell hold, by sandbox and name, what was started and what ended with 0.
	started, succeeded map[string]bool
	// created holds, in the same form, what was made, whether it ever ran or not.
	created map[string]bool
	// restartedAll: all its containers began again in a sandbox once.
	restartedAll bool
	// shown are the containers, by id, that the journal tells of; forgotten what the runtime forgot.
	shown     map[string]bool
	forgotten []*container
	// endRequested is when the end of an instance was asked for, by id; endsAt when that of the pod was; -1: not.
	endRequested map[string]time.Duration
	endsAt   time.Duration
	// grace is the least that any manifest or reason gave its containers to end.
	grace time.Duration
	reported  reportedStatus
	// recentStarts are the last moments at which each container was started.
	recentStarts map[string][]time.Duration
	// share is what the node gave it, and asks what it asked for; holds tells whether it is still counted.
	share, requestedShare share
	holdsShare       bool
	// ports are the host ports that it was given, and portsAsked those that it asked for.
	ports, requestedPorts []hostPort
	// admittedAs is the manifest that it was admitted with.
	admittedAs *corev1.Pod
	// admittedAt is when the node let it in.
	admittedAt time.Duration
	// requestedAs are the manifests of its incarnations' questions, by AdmissionRequested.question.
	requestedAs map[uint64]*corev1.Pod
	// incarnation is AdmissionRequested.question of its newest life, letIn that of the last admission.
	incarnation, admittedIncarnation uint64
	// preempting is the question for which others end, 0 for none.
	preempting uint64
	// requests are the manifests that it was put before the node with, in order.
	requests []admissionRequest
	// openCalls are its calls that have no outcome yet.
	openCalls []*intent
}

func (j *judge) history(uid string) *podHistory {
	h := j.pods[uid]
	if h == nil {
		h = &podHistory{
			restarts: map[string]uint32{}, ran: map[string]int{}, onceRuns: map[string]int{}, started: map[string]bool{}, succeeded: map[string]bool{},
			once: map[string]string{}, counted: map[string]bool{}, requestedAs: map[uint64]*corev1.Pod{},
			created: map[string]bool{}, instances: map[string]int{}, recentStarts: map[string][]time.Duration{},
			endRequested: map[string]time.Duration{}, shown: map[string]bool{}, endsAt: -1, grace: time.Hour,
		}
		j.pods[uid] = h
	}
	return h
}

// forgetRecords forgets what was read off records.
func (h *podHistory) forgetRecords() {
	h.source = ""
	h.gone, h.manifest, h.endsAt, h.grace, h.reported, h.openCalls = false, nil, -1, time.Hour, reportedStatus{}, nil
	h.requests = nil
	clear(h.endRequested)
	clear(h.shown)
}

// ofOneSource: no two sources have a pod of one UID at once.
func (j *judge) ofOneSource(author messages.Ref, uid string, h *podHistory) {
	if h.source != "" && h.source != author.ID {
		j.broken(oneSource, uid, "source %s tells of it, and source %s has it", author.ID, h.source)
	}
	h.source = author.ID
}

// onUpdate takes note of what the source wants.
func (h *podHistory) onUpdate(s *sim, at time.Duration, u *journaletv1.PodUpdated) {
	m := s.manifests.byDigest[u.GetPod().GetDigest()]
	switch {
	case u.GetOperation() == journaletv1.PodOperation_POD_OPERATION_ADD:
		h.gone, h.endsAt, h.grace, h.reported = false, -1, time.Hour, reportedStatus{}
		for _, counted := range []map[string]int{h.ran, h.onceRuns} {
			clear(counted)
		}
		clear(h.once)
		h.manifest = m
	case u.GetOperation() == journaletv1.PodOperation_POD_OPERATION_REMOVE, !h.holdsShare, !isUpdate(h.manifest, m):
		h.terminates(at)
		return
	default:
		h.manifest = m
	}
	if m == nil {
		return
	}
	if g := m.Spec.TerminationGracePeriodSeconds; g != nil {
		h.grace = min(h.grace, time.Duration(*g)*time.Second)
	}
	for _, list := range [][]corev1.Container{m.Spec.InitContainers, m.Spec.Containers} {
		for i := range list {
			for _, p := range []*corev1.Probe{list[i].StartupProbe, list[i].LivenessProbe} {
				if p != nil && p.TerminationGracePeriodSeconds != nil {
					h.grace = min(h.grace, time.Duration(*p.TerminationGracePeriodSeconds)*time.Second)
				}
			}
		}
	}
}

// terminates takes note that the pod ends.
func (h *podHistory) terminates(at time.Duration) {
	if h.endsAt < 0 {
		h.endsAt = max(at, 0) // the clock may have been set forward since
	}
}

// onCallRequested takes note of when the end of an instance was first asked for.
func (h *podHistory) onCallRequested(at time.Duration, c *journaletv1.CallRequested) {
	id := c.GetStopContainer().GetContainerId()
	if k := c.GetRunHook(); k.GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP {
		id = k.GetContainerId()
	}
	if _, ok := h.endRequested[id]; id != "" && !ok {
		h.endRequested[id] = at
	}
	if k := c.GetStopContainer(); k.GetReason() == string(corev1.ContainerRestartRuleActionRestartAllContainers) {
		h.endRequested[id] = at - time.Hour // it has no grace
	}
	switch k := c.GetWork().(type) {
	case *journaletv1.CallRequested_StopContainer:
		// What the agent ended by itself may run again.
		h.mayRunAgain(k.StopContainer.GetContainer())
	case *journaletv1.CallRequested_RunHook:
		if k.RunHook.GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP {
			// Its end begins with the hook (ADR 011), and is the agent's although it may die by itself before the stop.
			h.mayRunAgain(k.RunHook.GetContainer())
		}
	}
}

// onAllRestarting: all containers begin again in the sandbox that is there, as if it were a new one. What was lost of the journal may have told
// more than is left.
func (h *podHistory) onAllRestarting() {
	for _, facts := range []map[string]bool{h.started, h.succeeded, h.created} {
		clear(facts)
	}
	clear(h.instances)
	clear(h.onceRuns)
	clear(h.once)
	h.restartedAll = true
}

// mayRunAgain forgets how often a container ran that is to run but once.
func (h *podHistory) mayRunAgain(container string) {
	maps.DeleteFunc(h.onceRuns, func(key string, _ int) bool { return strings.HasPrefix(key, container+" ") })
	maps.DeleteFunc(h.once, func(_, key string) bool { return strings.HasPrefix(key, container+" ") })
}

// sandboxCreated: one sandbox at a time, and its intent first. What a runtime does for an agent that is dead, or has given up
// waiting, comes at its own time, and nobody can keep it from it; nor can who looked before it came.
func (j *judge) sandboxCreated(o *objects, x *sandbox, gone bool, looked time.Duration) {
	j.intentDurable(x.intent)
	if gone {
		return
	}
	if h := j.history(x.uid); h.gone {
		j.broken(noneOfGonePods, x.uid, "sandbox %s is made", x.id)
	}
	for _, other := range o.sandboxes {
		if late := other.late > 0 && other.late >= looked; !late && (other.ready || !other.stopped) {
			j.broken(oneSandbox, x.uid, "sandbox %s is made beside %s (ready %t, stopped %t)", x.id, other.id, other.ready, other.stopped)
		}
	}
}

// containerCreated: an instance is made once, for an intent that is stored and a pod that is there.
func (j *judge) containerCreated(c *container, gone bool) {
	j.intentDurable(c.intent)
	j.createdAsAdmitted(c)
	h := j.history(c.uid)
	h.created[c.inSandbox(c.name)] = true
	h.instances[c.inSandbox(c.name)]++
	if runsOnceOnly(c.manifest, c.spec) {
		h.once[c.id] = c.onceKey()
	}
	if h.gone && !gone {
		j.broken(noneOfGonePods, c.uid, "container %s is made", c.id)
	}
	if h.ran[fmt.Sprint(c.name, " ", c.attempt)] > 0 && !j.journalLost {
		j.broken(newAttempts, c.uid, "%s attempt %d", c.name, c.attempt)
	}
}

// cutShort: the runtime gave a start up whose process was there for a moment. The next instance may have the same number.
func (j *judge) cutShort(c *container) {
	delete(j.history(c.uid).ran, fmt.Sprint(c.name, " ", c.attempt))
}

// containerStarted: never two instances at once, in order, and not again what runs once.
func (j *judge) containerStarted(o *objects, c *container) {
	j.instances++
	h := j.history(c.uid)
	h.ran[fmt.Sprint(c.name, " ", c.attempt)]++
	for _, other := range o.containers {
		if other != c && other.name == c.name && other.alive() {
			j.broken(oneInstance, c.uid, "%s starts beside %s", c.id, other.id)
		}
	}
	if n := h.countRun(c); n > 1 && !j.journalLost {
		j.broken(onceMeansOnce, c.uid, "%s starts a %d. time", c.name, n)
	}
	j.sharesFit(o)
	j.portsDistinct(o)
	j.spaced(h, c)
	j.inOrder(h, c)
	h.started[c.inSandbox(c.name)] = true
}

// maxStarts is how often a container may start within a minute: at once, and then with waits of 5 s at least, but for what
// takes a new sandbox or another definition.
const maxStarts = 20

// spaced: a container that crashes is not started again without end.
func (j *judge) spaced(h *podHistory, c *container) {
	all := append(h.recentStarts[c.name], j.sim.clock.uptime)
	if len(all) > maxStarts {
		if all = all[1:]; all[len(all)-1]-all[0] < time.Minute {
			j.broken(backOffKept, c.uid, "%s was started %d times within %s", c.name, maxStarts, all[len(all)-1]-all[0])
		}
	}
	h.recentStarts[c.name] = all
}

func (c *container) inSandbox(name string) string { return c.sandbox + " " + name }

// neverRestarts tells whether the policy of a container does not start it again.
func neverRestarts(m *corev1.Pod, c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy == corev1.ContainerRestartPolicyNever
	}
	return m.Spec.RestartPolicy == corev1.RestartPolicyNever
}

// runsOnceOnly tells whether a container is to run but once. One with rules may run again, and one whose pod prefers a second run to none.
func runsOnceOnly(m *corev1.Pod, c *corev1.Container) bool {
	return neverRestarts(m, c) && len(c.RestartPolicyRules) == 0 && m.Annotations[pod.AnnotationStartGuarantee] != pod.AtLeastOnce
}

// onceKey is what a container may run but once of: an init container in each sandbox.
func (c *container) onceKey() string {
	key := c.name + " " + c.hash
	if isInit(c.manifest, c.name) {
		key += " " + c.sandbox
	}
	return key
}

// countRun counts the runs of a container that is to run but once.
func (h *podHistory) countRun(c *container) int {
	if !runsOnceOnly(c.manifest, c.spec) {
		return 0
	}
	h.count(c.id, c.onceKey())
	return h.onceRuns[c.onceKey()]
}

func (h *podHistory) count(id, key string) {
	if !h.counted[id] {
		h.counted[id] = true
		h.onceRuns[key]++
	}
}

// startLost: a start of which nobody can tell whether it ran counts as a run.
func (h *podHistory) startLost(id string) {
	if key, ok := h.once[id]; ok {
		h.count(id, key)
	}
}

func (j *judge) containerEnded(c *container) {
	if c.code == 0 {
		j.history(c.uid).succeeded[c.inSandbox(c.name)] = true
	}
}

// vanished: what the runtime forgot has run all the same. Its number may be given again, since the agent may not have seen it.
func (j *judge) vanished(c *container) {
	h := j.history(c.uid)
	delete(h.ran, fmt.Sprint(c.name, " ", c.attempt))
	h.forgotten = append(h.forgotten, c)
	j.lostAt[c.id] = j.sim.clock.uptime
	if j.journalLost {
		j.forgetStart(h)
	}
}

// forgetStart forgets of what the runtime forgot, and of which no record is left, that it was started: its pod's init containers may
// run behind it. Where a later instance was started it tells of that, too.
func (j *judge) forgetStart(h *podHistory) {
	for _, c := range h.forgotten {
		later := slices.ContainsFunc(j.sim.world.objectsOf(c.uid).containers, func(x *container) bool {
			return x.inSandbox(x.name) == c.inSandbox(c.name) && x.startedAt > 0
		})
		if j.intents[c.intent] == nil && !h.shown[c.id] && !later {
			delete(h.started, c.inSandbox(c.name))
		}
	}
}

// graceTolerance is what a kill may come too early: hints of time are rounded.
const graceTolerance = 100 * time.Millisecond

// killed: SIGKILL comes when what its pod gives a container to end is over, and not before. A clock that is set forward
// makes it shorter.
func (j *judge) killed(w *world, c *container) {
	h := j.history(c.uid)
	begin, ok := h.endRequested[c.id]
	if h.endsAt >= 0 && (!ok || h.endsAt < begin) {
		begin, ok = h.endsAt, true
	}
	took := w.clock.uptime - begin
	if !ok || j.clockSet >= begin || took < 0 || h.grace == time.Hour || j.journalLost {
		return
	}
	if took < h.grace-graceTolerance {
		j.broken(graceKept, c.uid, "%s is killed %s after its end began, and has %s", c.id, took, h.grace)
	}
}

// fits: what is admitted is no more than the node has, and no port or name is given twice.
func (j *judge) fits(d actors.Decider) {
	a, ok := d.(*node.Actor)
	if !ok {
		return
	}
	s, ok := a.State().(*journaletv1.NodeState)
	if !ok {
		return
	}
	have := s.GetConfig().GetAllocatable()
	if s.GetUsed().GetMilliCpu() > have.GetMilliCpu() || s.GetUsed().GetMemoryBytes() > have.GetMemoryBytes() {
		j.broken(withinNode, "", "%v of %v", s.GetUsed(), have)
	}
	names := map[string]string{}
	for uid, p := range s.GetPods() {
		if other := names[p.GetFullName()]; other != "" {
			j.broken(withinNode, uid, "%s is admitted twice, as %s too", p.GetFullName(), other)
		}
		names[p.GetFullName()] = uid
	}
}

// reportedStatus is what an observer knows of a pod who heard nothing but its PodStatusChanged.
type reportedStatus struct {
	changed    *journaletv1.PodStatusChanged
	conditions map[string]*journaletv1.Condition
	waiting    map[string]*journaletv1.ContainerWaiting
}

func (t *reportedStatus) fold(c *journaletv1.PodStatusChanged) {
	if t.conditions == nil {
		t.conditions, t.waiting = map[string]*journaletv1.Condition{}, map[string]*journaletv1.ContainerWaiting{}
	}
	t.changed = c
	for _, cond := range c.GetConditions() {
		t.conditions[cond.GetType()] = cond
	}
	for name, w := range c.GetWaiting() {
		t.waiting[name] = w
	}
}

// statusReported: what was told adds up to what the state shows.
func (j *judge) statusReported(author messages.Ref, rec *journaletv1.Record) {
	if author.Kind != journaletv1.ActorKind_ACTOR_KIND_POD {
		return
	}
	d, _ := j.fold.Decider(author)
	a, ok := d.(*pod.Actor)
	t := j.history(author.ID).reported
	if !ok || t.changed == nil || a.Pod().GetRejected() || a.Pod().GetStage() == journaletv1.PodStage_POD_STAGE_FINISHED {
		return
	}
	v := a.View(pod.Node{RuntimeName: "sim"})
	if got := podPhases[t.changed.GetPhase()]; got != v.Status.Phase {
		j.broken(statusIsFold, author.ID, "record %d: phase %s was told, and is %s", rec.GetSeq(), got, v.Status.Phase)
	}
	for _, c := range v.Status.Conditions {
		if isGate(c.Type) {
			continue // somebody else's word, which is told as it is read
		}
		if was := t.conditions[string(c.Type)]; was == nil || was.GetStatus() != (c.Status == corev1.ConditionTrue) || was.GetReason() != c.Reason {
			j.broken(statusIsFold, author.ID, "record %d: condition %s was told as %v, and is %s %s", rec.GetSeq(), c.Type, was, c.Status, c.Reason)
		}
	}
	for _, c := range slices.Concat(v.Status.InitContainerStatuses, v.Status.ContainerStatuses) {
		reason := ""
		if c.State.Waiting != nil {
			reason = c.State.Waiting.Reason
		}
		// A restart that needs no waiting is told as none, from terminated straight to running. What is told stays told when the runtime
		// forgets the instance before.
		again := c.LastTerminationState.Terminated != nil && (reason == "ContainerCreating" || reason == "PodInitializing")
		if was := t.waiting[c.Name].GetReason(); was != reason && !(again && was == "") {
			j.broken(statusIsFold, author.ID, "record %d: %s was told to wait for %q, and waits for %q", rec.GetSeq(), c.Name, was, reason)
		}
	}
}

var podPhases = map[journaletv1.PodPhase]corev1.PodPhase{
	journaletv1.PodPhase_POD_PHASE_PENDING: corev1.PodPending, journaletv1.PodPhase_POD_PHASE_RUNNING: corev1.PodRunning,
	journaletv1.PodPhase_POD_PHASE_SUCCEEDED: corev1.PodSucceeded, journaletv1.PodPhase_POD_PHASE_FAILED: corev1.PodFailed,
}
