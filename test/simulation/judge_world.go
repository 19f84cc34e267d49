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
	// gone is set after PodFinished, until a source adds the pod again.
	gone bool
	// source is the source that added it and has not forgotten it, empty for none.
	source string
	// manifest is the manifest that it is to run: of this incarnation, as its source updated it last.
	manifest  *corev1.Pod
	createdAt time.Time
	// restarts are restart counts by container.
	restarts map[string]uint32
	// ran counts starts by name and attempt. onceRuns counts the runs of containers that may run only once, by onceKey.
	ran, onceRuns map[string]int
	// once are the instances that may run only once, by id, with their onceKey. counted are the ids in onceRuns.
	once    map[string]string
	counted map[string]bool
	// instances counts what was created, by sandbox and name.
	instances map[string]int
	// started and succeeded hold, by sandbox and name, what was started and what exited with 0.
	started, succeeded map[string]bool
	// created holds, in the same form, what was created, even if it never ran.
	created map[string]bool
	// restartedAll is set once RestartAllContainers has restarted its containers in their sandbox.
	restartedAll bool
	// shown are the containers that a recorded observation has, by id. forgotten are those that vanished from the runtime.
	shown     map[string]bool
	forgotten []*container
	// endRequested is when the end of an instance was first requested, by id. endsAt is when the pod's end was, -1 for
	// not yet.
	endRequested map[string]time.Duration
	endsAt       time.Duration
	// grace is the shortest grace period that any manifest or reason gave its containers.
	grace    time.Duration
	reported reportedStatus
	// recentStarts are the uptimes at which each container was started last.
	recentStarts map[string][]time.Duration
	// share is what the node gave it, requestedShare what it requested. holdsShare is set while the share counts.
	share, requestedShare share
	holdsShare            bool
	// ports are the host ports that it was given, requestedPorts those that it requested.
	ports, requestedPorts []hostPort
	// admittedAs is the manifest that it was admitted with.
	admittedAs *corev1.Pod
	// admittedAt is when the node admitted it, in uptime.
	admittedAt time.Duration
	// requestedAs are the manifests of its admission requests, by incarnation.
	requestedAs map[uint64]*corev1.Pod
	// incarnation is that of its last admission request, admittedIncarnation that of its last admission.
	incarnation, admittedIncarnation uint64
	// preempting is the incarnation for which others are preempted, 0 for none.
	preempting uint64
	// requests are its admission requests, in order.
	requests []admissionRequest
	// openCalls are its calls without an outcome.
	openCalls []*intent
}

func (j *judge) history(uid string) *podHistory {
	h := j.pods[uid]
	if h == nil {
		h = &podHistory{
			restarts: map[string]uint32{}, ran: map[string]int{}, onceRuns: map[string]int{}, started: map[string]bool{},
			succeeded: map[string]bool{},
			once:      map[string]string{}, counted: map[string]bool{}, requestedAs: map[uint64]*corev1.Pod{},
			created: map[string]bool{}, instances: map[string]int{}, recentStarts: map[string][]time.Duration{},
			endRequested: map[string]time.Duration{}, shown: map[string]bool{}, endsAt: -1, grace: time.Hour,
		}
		j.pods[uid] = h
	}
	return h
}

// forgetRecords forgets what was read from records.
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
		j.broken(oneSource, uid, "source %s updates it, and source %s has it", author.ID, h.source)
	}
	h.source = author.ID
}

// onUpdate notes what the source wants of the pod.
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

// terminates notes that the pod ends.
func (h *podHistory) terminates(at time.Duration) {
	if h.endsAt < 0 {
		h.endsAt = max(at, 0) // the clock may have been set forward since
	}
}

// onCallRequested notes when the end of an instance was first requested.
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
		// A container that the agent stops may run again.
		h.mayRunAgain(k.StopContainer.GetContainer())
	case *journaletv1.CallRequested_RunHook:
		if k.RunHook.GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP {
			// A container's end begins with the preStop hook (ADR 011), and is the agent's even if the container exits before
			// the stop.
			h.mayRunAgain(k.RunHook.GetContainer())
		}
	}
}

// onAllRestarting: all containers start again in the same sandbox, as in a new one.
func (h *podHistory) onAllRestarting() {
	for _, facts := range []map[string]bool{h.started, h.succeeded, h.created} {
		clear(facts)
	}
	clear(h.instances)
	clear(h.onceRuns)
	clear(h.once)
	h.restartedAll = true
}

// mayRunAgain forgets how often a container ran that may run only once.
func (h *podHistory) mayRunAgain(container string) {
	maps.DeleteFunc(h.onceRuns, func(key string, _ int) bool { return strings.HasPrefix(key, container+" ") })
	maps.DeleteFunc(h.once, func(_, key string) bool { return strings.HasPrefix(key, container+" ") })
}

// sandboxCreated: one sandbox at a time, after its intent. A runtime may create one late, for an agent that died or
// gave up waiting (gone); the agent cannot prevent that, and an agent that listed sandboxes before cannot know of it.
func (j *judge) sandboxCreated(o *objects, x *sandbox, gone bool, listed time.Duration) {
	j.intentDurable(x.intent)
	if gone {
		return
	}
	if h := j.history(x.uid); h.gone {
		j.broken(noneOfGonePods, x.uid, "sandbox %s is created", x.id)
	}
	for _, other := range o.sandboxes {
		if late := other.late > 0 && other.late >= listed; !late && (other.ready || !other.stopped) {
			j.broken(oneSandbox, x.uid, "sandbox %s is created beside %s (ready %t, stopped %t)", x.id, other.id, other.ready,
				other.stopped)
		}
	}
}

// containerCreated: an instance is created once, for a stored intent and a pod that has not finished.
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
		j.broken(noneOfGonePods, c.uid, "container %s is created", c.id)
	}
	if h.ran[fmt.Sprint(c.name, " ", c.attempt)] > 0 && !j.journalLost {
		j.broken(newAttempts, c.uid, "%s attempt %d", c.name, c.attempt)
	}
}

// cutShort: the runtime gave up a start whose process had existed for a moment. The next instance may have the same
// attempt number.
func (j *judge) cutShort(c *container) {
	delete(j.history(c.uid).ran, fmt.Sprint(c.name, " ", c.attempt))
}

// containerStarted: never two instances at once, in order, and only once what may run only once.
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

// maxStarts bounds the starts of a container within a minute: the first at once, the others after at least 5 s of
// back-off, except in a new sandbox or with another definition.
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

// neverRestarts reports whether the restart policy of a container is Never.
func neverRestarts(m *corev1.Pod, c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy == corev1.ContainerRestartPolicyNever
	}
	return m.Spec.RestartPolicy == corev1.RestartPolicyNever
}

// runsOnceOnly reports whether a container may run only once. One with restart rules may run again, and so may one
// whose pod prefers a second run to none.
func runsOnceOnly(m *corev1.Pod, c *corev1.Container) bool {
	return neverRestarts(m, c) && len(c.RestartPolicyRules) == 0 &&
		m.Annotations[pod.AnnotationStartGuarantee] != pod.AtLeastOnce
}

// onceKey identifies what may run only once: a container with its definition, and an init container in each sandbox.
func (c *container) onceKey() string {
	key := c.name + " " + c.hash
	if isInit(c.manifest, c.name) {
		key += " " + c.sandbox
	}
	return key
}

// countRun counts a run of a container that may run only once, and returns the count.
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

// startLost: a start counts as a run if it cannot be found out whether it ran.
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

// vanished: a container that vanished has run all the same. Its attempt number may be used again, since the agent may
// not have seen it.
func (j *judge) vanished(c *container) {
	h := j.history(c.uid)
	delete(h.ran, fmt.Sprint(c.name, " ", c.attempt))
	h.forgotten = append(h.forgotten, c)
	j.lostAt[c.id] = j.sim.clock.uptime
	if j.journalLost {
		j.forgetStart(h)
	}
}

// forgetStart drops starts of containers that vanished and of which no record is left: init containers may run after
// them. A later instance that was started is evidence of them, too.
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

// graceTolerance is how much too early a kill may come: timestamps are rounded.
const graceTolerance = 100 * time.Millisecond

// killed: SIGKILL comes after the grace period. If the clock was set during it, that cannot be judged.
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
		j.broken(graceKept, c.uid, "%s is killed %s after its end began, and its grace period is %s", c.id, took, h.grace)
	}
}

// fits: the admitted pods need no more than the node has, and no name is admitted twice.
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

// reportedStatus is what an observer knows of a pod from PodStatusChanged alone.
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

// statusReported: the reported changes add up to the status that the state shows.
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
		j.broken(statusIsFold, author.ID, "record %d: phase %s was reported, and is %s", rec.GetSeq(), got, v.Status.Phase)
	}
	for _, c := range v.Status.Conditions {
		if isGate(c.Type) {
			continue // it is reported as it is read from the file of conditions
		}
		if was := t.conditions[string(c.Type)]; was == nil || was.GetStatus() != (c.Status == corev1.ConditionTrue) ||
			was.GetReason() != c.Reason {
			j.broken(statusIsFold, author.ID, "record %d: condition %s was reported as %v, and is %s %s", rec.GetSeq(), c.Type,
				was, c.Status, c.Reason)
		}
	}
	for _, c := range slices.Concat(v.Status.InitContainerStatuses, v.Status.ContainerStatuses) {
		reason := ""
		if c.State.Waiting != nil {
			reason = c.State.Waiting.Reason
		}
		// A restart without a back-off is reported from terminated straight to running, without waiting. That stays
		// reported when the instance before vanishes.
		again := c.LastTerminationState.Terminated != nil && (reason == "ContainerCreating" || reason == "PodInitializing")
		if was := t.waiting[c.Name].GetReason(); was != reason && !(again && was == "") {
			j.broken(statusIsFold, author.ID, "record %d: %s was reported waiting with %q, and waits with %q", rec.GetSeq(),
				c.Name, was, reason)
		}
	}
}

var podPhases = map[journaletv1.PodPhase]corev1.PodPhase{
	journaletv1.PodPhase_POD_PHASE_PENDING: corev1.PodPending, journaletv1.PodPhase_POD_PHASE_RUNNING: corev1.PodRunning,
	journaletv1.PodPhase_POD_PHASE_SUCCEEDED: corev1.PodSucceeded, journaletv1.PodPhase_POD_PHASE_FAILED: corev1.PodFailed,
}
