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
	// runs is the manifest that it is to run: of this incarnation, as its source updated it last.
	runs *corev1.Pod
	born time.Time
	// counts are restart counts by container.
	counts map[string]uint32
	// made are the containers that ran, by name and attempt; began counts runs of those that may run but once.
	made, began map[string]int
	// once are the instances, by id, that are to run but once, with the key of began; counted are those that began counts.
	once    map[string]string
	counted map[string]bool
	// instances counts what was made, by sandbox and name.
	instances map[string]int
	// first and doneWell hold, by sandbox and name, what was started and what ended with 0.
	first, doneWell map[string]bool
	// begun holds, in the same form, what was made, whether it ever ran or not.
	begun map[string]bool
	// anew: all its containers began again in a sandbox once.
	anew bool
	// shown are the containers, by id, that the journal tells of; forgotten what the runtime forgot.
	shown     map[string]bool
	forgotten []*container
	// endAsked is when the end of an instance was asked for, by id; endsAt when that of the pod was; -1: not.
	endAsked map[string]time.Duration
	endsAt   time.Duration
	// grace is the least that any manifest or reason gave its containers to end.
	grace time.Duration
	told  told
	// starts are the last moments at which each container was started.
	starts map[string][]time.Duration
	// share is what the node gave it, and asks what it asked for; holds tells whether it is still counted.
	share, asks share
	holds       bool
	// ports are the host ports that it was given, and portsAsked those that it asked for.
	ports, portsAsked []hostPort
	// admittedAs is the manifest that it was admitted with.
	admittedAs *corev1.Pod
	// admittedAt is when the node let it in.
	admittedAt time.Duration
	// askedFirst are the manifests of its incarnations' questions, by AdmissionRequested.question.
	askedFirst map[uint64]*corev1.Pod
	// question is AdmissionRequested.question of its newest life, letIn that of the last admission.
	question, letIn uint64
	// madeRoom is the question for which others end, 0 for none.
	madeRoom uint64
	// questions are the manifests that it was put before the node with, in order.
	questions []question
	// open are its calls that have no outcome yet.
	open []*intent
}

func (j *judge) history(uid string) *podHistory {
	h := j.pods[uid]
	if h == nil {
		h = &podHistory{
			counts: map[string]uint32{}, made: map[string]int{}, began: map[string]int{}, first: map[string]bool{}, doneWell: map[string]bool{},
			once: map[string]string{}, counted: map[string]bool{}, askedFirst: map[uint64]*corev1.Pod{},
			begun: map[string]bool{}, instances: map[string]int{}, starts: map[string][]time.Duration{},
			endAsked: map[string]time.Duration{}, shown: map[string]bool{}, endsAt: -1, grace: time.Hour,
		}
		j.pods[uid] = h
	}
	return h
}

// forgetRecords forgets what was read off records.
func (h *podHistory) forgetRecords() {
	h.source = ""
	h.gone, h.runs, h.endsAt, h.grace, h.told, h.open = false, nil, -1, time.Hour, told{}, nil
	h.questions = nil
	clear(h.endAsked)
	clear(h.shown)
}

// ofOneSource: no two sources have a pod of one UID at once.
func (j *judge) ofOneSource(author messages.Ref, uid string, h *podHistory) {
	if h.source != "" && h.source != author.ID {
		j.broken(oneSource, uid, "source %s tells of it, and source %s has it", author.ID, h.source)
	}
	h.source = author.ID
}

// updated takes note of what the source wants.
func (h *podHistory) updated(s *sim, at time.Duration, u *journaletv1.PodUpdated) {
	m := s.manifests.byDigest[u.GetPod().GetDigest()]
	switch {
	case u.GetOperation() == journaletv1.PodOperation_POD_OPERATION_ADD:
		h.gone, h.endsAt, h.grace, h.told = false, -1, time.Hour, told{}
		for _, counted := range []map[string]int{h.made, h.began} {
			clear(counted)
		}
		clear(h.once)
		h.runs = m
	case u.GetOperation() == journaletv1.PodOperation_POD_OPERATION_REMOVE, !h.holds, !updates(h.runs, m):
		h.ends(at)
		return
	default:
		h.runs = m
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

// ends takes note that the pod ends.
func (h *podHistory) ends(at time.Duration) {
	if h.endsAt < 0 {
		h.endsAt = max(at, 0) // the clock may have been set forward since
	}
}

// asked takes note of when the end of an instance was first asked for.
func (h *podHistory) asked(at time.Duration, c *journaletv1.CallRequested) {
	id := c.GetStopContainer().GetContainerId()
	if k := c.GetRunHook(); k.GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP {
		id = k.GetContainerId()
	}
	if _, ok := h.endAsked[id]; id != "" && !ok {
		h.endAsked[id] = at
	}
	if k := c.GetStopContainer(); k.GetReason() == string(corev1.ContainerRestartRuleActionRestartAllContainers) {
		h.endAsked[id] = at - time.Hour // it has no grace
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

// beginAnew: all containers begin again in the sandbox that is there, as if it were a new one. What was lost of the journal may have told
// more than is left.
func (h *podHistory) beginAnew() {
	for _, facts := range []map[string]bool{h.first, h.doneWell, h.begun} {
		clear(facts)
	}
	clear(h.instances)
	clear(h.began)
	clear(h.once)
	h.anew = true
}

// mayRunAgain forgets how often a container ran that is to run but once.
func (h *podHistory) mayRunAgain(container string) {
	maps.DeleteFunc(h.began, func(key string, _ int) bool { return strings.HasPrefix(key, container+" ") })
	maps.DeleteFunc(h.once, func(_, key string) bool { return strings.HasPrefix(key, container+" ") })
}

// sandboxMade: one sandbox at a time, and its intent first. What a runtime does for an agent that is dead, or has given up
// waiting, comes at its own time, and nobody can keep it from it; nor can who looked before it came.
func (j *judge) sandboxMade(o *objects, x *sandbox, gone bool, looked time.Duration) {
	j.performs(x.intent)
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

// containerMade: an instance is made once, for an intent that is stored and a pod that is there.
func (j *judge) containerMade(c *container, gone bool) {
	j.performs(c.intent)
	j.ofItsIncarnation(c)
	h := j.history(c.uid)
	h.begun[c.inSandbox(c.name)] = true
	h.instances[c.inSandbox(c.name)]++
	if neverAgain(c.manifest, c.spec) {
		h.once[c.id] = c.onceKey()
	}
	if h.gone && !gone {
		j.broken(noneOfGonePods, c.uid, "container %s is made", c.id)
	}
	if h.made[fmt.Sprint(c.name, " ", c.attempt)] > 0 && !j.forgiving {
		j.broken(newAttempts, c.uid, "%s attempt %d", c.name, c.attempt)
	}
}

// cutShort: the runtime gave a start up whose process was there for a moment. The next instance may have the same number.
func (j *judge) cutShort(c *container) {
	delete(j.history(c.uid).made, fmt.Sprint(c.name, " ", c.attempt))
}

// containerStarted: never two instances at once, in order, and not again what runs once.
func (j *judge) containerStarted(o *objects, c *container) {
	j.instances++
	h := j.history(c.uid)
	h.made[fmt.Sprint(c.name, " ", c.attempt)]++
	for _, other := range o.containers {
		if other != c && other.name == c.name && other.alive() {
			j.broken(oneInstance, c.uid, "%s starts beside %s", c.id, other.id)
		}
	}
	if n := h.begins(c); n > 1 && !j.forgiving {
		j.broken(onceMeansOnce, c.uid, "%s starts a %d. time", c.name, n)
	}
	j.oneShareEach(o)
	j.onePortEach(o)
	j.spaced(h, c)
	j.inOrder(h, c)
	h.first[c.inSandbox(c.name)] = true
}

// maxStarts is how often a container may start within a minute: at once, and then with waits of 5 s at least, but for what
// takes a new sandbox or another definition.
const maxStarts = 20

// spaced: a container that crashes is not started again without end.
func (j *judge) spaced(h *podHistory, c *container) {
	all := append(h.starts[c.name], j.sim.clock.uptime)
	if len(all) > maxStarts {
		if all = all[1:]; all[len(all)-1]-all[0] < time.Minute {
			j.broken(backOffKept, c.uid, "%s was started %d times within %s", c.name, maxStarts, all[len(all)-1]-all[0])
		}
	}
	h.starts[c.name] = all
}

func (c *container) inSandbox(name string) string { return c.sandbox + " " + name }

// never tells whether the policy of a container does not start it again.
func never(m *corev1.Pod, c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy == corev1.ContainerRestartPolicyNever
	}
	return m.Spec.RestartPolicy == corev1.RestartPolicyNever
}

// neverAgain tells whether a container is to run but once. One with rules may run again, and one whose pod prefers a second run to none.
func neverAgain(m *corev1.Pod, c *corev1.Container) bool {
	return never(m, c) && len(c.RestartPolicyRules) == 0 && m.Annotations[pod.AnnotationStartGuarantee] != pod.AtLeastOnce
}

// onceKey is what a container may run but once of: an init container in each sandbox.
func (c *container) onceKey() string {
	key := c.name + " " + c.hash
	if isInit(c.manifest, c.name) {
		key += " " + c.sandbox
	}
	return key
}

// begins counts the runs of a container that is to run but once.
func (h *podHistory) begins(c *container) int {
	if !neverAgain(c.manifest, c.spec) {
		return 0
	}
	h.count(c.id, c.onceKey())
	return h.began[c.onceKey()]
}

func (h *podHistory) count(id, key string) {
	if !h.counted[id] {
		h.counted[id] = true
		h.began[key]++
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
		j.history(c.uid).doneWell[c.inSandbox(c.name)] = true
	}
}

// vanished: what the runtime forgot has run all the same. Its number may be given again, since the agent may not have seen it.
func (j *judge) vanished(c *container) {
	h := j.history(c.uid)
	delete(h.made, fmt.Sprint(c.name, " ", c.attempt))
	h.forgotten = append(h.forgotten, c)
	j.lostAt[c.id] = j.sim.clock.uptime
	if j.forgiving {
		j.unlearn(h)
	}
}

// unlearn forgets of what the runtime forgot, and of which no record is left, that it was started: its pod's init containers may
// run behind it. Where a later instance was started it tells of that, too.
func (j *judge) unlearn(h *podHistory) {
	for _, c := range h.forgotten {
		later := slices.ContainsFunc(j.sim.world.of(c.uid).containers, func(x *container) bool {
			return x.inSandbox(x.name) == c.inSandbox(c.name) && x.startedAt > 0
		})
		if j.intents[c.intent] == nil && !h.shown[c.id] && !later {
			delete(h.first, c.inSandbox(c.name))
		}
	}
}

// graceTolerance is what a kill may come too early: hints of time are rounded.
const graceTolerance = 100 * time.Millisecond

// killed: SIGKILL comes when what its pod gives a container to end is over, and not before. A clock that is set forward
// makes it shorter.
func (j *judge) killed(w *world, c *container) {
	h := j.history(c.uid)
	begin, ok := h.endAsked[c.id]
	if h.endsAt >= 0 && (!ok || h.endsAt < begin) {
		begin, ok = h.endsAt, true
	}
	took := w.clock.uptime - begin
	if !ok || j.clockSet >= begin || took < 0 || h.grace == time.Hour || j.forgiving {
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

// told is what an observer knows of a pod who heard nothing but its PodStatusChanged.
type told struct {
	changed    *journaletv1.PodStatusChanged
	conditions map[string]*journaletv1.Condition
	waiting    map[string]*journaletv1.ContainerWaiting
}

func (t *told) fold(c *journaletv1.PodStatusChanged) {
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

// statusTold: what was told adds up to what the state shows.
func (j *judge) statusTold(author messages.Ref, rec *journaletv1.Record) {
	if author.Kind != journaletv1.ActorKind_ACTOR_KIND_POD {
		return
	}
	d, _ := j.fold.Decider(author)
	a, ok := d.(*pod.Actor)
	t := j.history(author.ID).told
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
