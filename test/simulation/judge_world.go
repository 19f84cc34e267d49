package simulation

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

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
	// addedAt is when it was stored that its source adds it, last, in uptime.
	addedAt time.Duration
	// apiPod is set if it is one of the API server.
	apiPod bool
	// deletionGrace is the shortest grace period of its deletions there, 0 for none. endedByDeletion is set if a deletion
	// has ended it. stops counts the stops that were requested.
	deletionGrace   time.Duration
	endedByDeletion bool
	stops           int
	// withoutObject is the record that showed its object gone, 0 while the object may be there.
	withoutObject uint64
	// manifest is the manifest that it is to run: of this incarnation, as its source updated it last.
	manifest *corev1.Pod
	// objectReads are what was recorded of its objects, in order. setUps counts the requests to set up its volumes.
	// leftBehind is set from the record of a directory that the journal does not know of to the end that follows.
	objectReads []objectsAt
	setUps      int
	leftBehind  bool
	// evictedAs is the last incarnation that was evicted, 0 for none, and evictedWith its manifest then.
	evictedAs   uint64
	evictedWith string
	// evictedGrace is the grace period of that, if the pod has not a shorter one.
	evictedGrace time.Duration
	// restarts are restart counts by container.
	restarts map[string]int32
	// updates are the manifests that its source has updated it to, in order.
	updates []admissionRequest
	// ran counts starts by name and attempt.
	ran map[string]int
	facts
	// restartedAll are the restarts of all its containers in their sandbox. restarting is set during one.
	restartedAll []allRestarting
	restarting   bool
	// shown are the containers that a recorded observation has, by id; shownRun the containers that it shows as more
	// than created; shownEnd the containers that it shows as ended. startDispatched are the created containers whose
	// start is recorded as dispatched; lostStarts the containers whose start a record shows as lost. vanished are the
	// containers that vanished from the runtime.
	shown, shownRun, shownEnd, startDispatched, lostStarts, vanished map[string]bool
	// all are the instances of this incarnation, in the order of their creation, with what was left of earlier ones.
	all []*container
	// endRequested is when the end of an instance was first requested, by id. endedBefore are the instances whose
	// record of that request was lost. endsAt is when the pod's end was, -1 for not yet, and endsBy the record of the
	// pod's end, 0 for none.
	endRequested map[string]time.Duration
	// endedUnknown are the instances whose end was requested while no manifest was known, by id: the agent had none, or
	// the pod counted as finished when the runtime showed it.
	endedUnknown map[string]bool
	endedBefore  map[string]bool
	endsAt       time.Duration
	endsBy       uint64
	// restartsRequested counts the operators' requests to restart it or one of its containers.
	restartsRequested int
	// preemptedAs and rejectedAs are the last incarnations that were preempted and rejected, 0 for none.
	preemptedAs, rejectedAs uint64
	reported                reportedStatus
	// recentStarts are the uptimes at which each container was started last.
	recentStarts map[string][]time.Duration
	// share is what the node gave it, resizing what is reserved for a resize that waits for preempted pods. holdsShare is
	// set while the share counts.
	share, resizing share
	holdsShare      bool
	// allocatedAs is the manifest whose resources the node gave it last. releasedBy is the record that freed its share
	// last. name is its namespace and name while no other pod may be admitted under them.
	allocatedAs *corev1.Pod
	releasedBy  uint64
	name        string
	// alone are its containers' exclusive CPUs, devices their devices, by the record of its admission.
	// refusedDevices is set if a plugin refused some, refusedAs is the last incarnation that ended for it, 0 for none.
	exclusive      cpuset.CPUSet
	devices        []string
	refusedDevices bool
	refusedAs      uint64
	// ports are the host ports that it was given.
	ports []hostPort
	// admittedAs is the manifest that it was admitted with.
	admittedAs *corev1.Pod
	// admittedAt is when the node admitted it, in uptime.
	admittedAt time.Duration
	// requestedAs are the manifests of its admission requests, by incarnation.
	requestedAs map[uint64]*corev1.Pod
	// incarnation is the incarnation of its last admission request, admittedIncarnation of its last admission.
	incarnation, admittedIncarnation uint64
	// pending is set while its admission waits for the end of preempted pods, with what is reserved for it. pendedUntil
	// is the record of its finish instead, finishedBy the record of its last finish, terminatedBy the record of its
	// last termination; 0 for none.
	pending                               bool
	pendingShare                          share
	pendingPorts                          []hostPort
	pendingAlone                          cpuset.CPUSet
	pendingDevices                        []*journaletv1.ContainerDevices
	pendedUntil, finishedBy, terminatedBy uint64
	// preempting is the incarnation that others are preempted for, preemptingBy the record of that; 0 for none.
	preempting, preemptingBy uint64
	// requests are its admission requests, in order.
	requests []admissionRequest
	// openCalls are its calls without an outcome.
	openCalls []*intent
	// heardEnd is the first record that shows its source with a terminal phase of it, 0 for none.
	heardEnd uint64
	// endLost is set if the records of its end were lost: the API server may know of the end before the agent does again.
	endLost bool
	// hadVolume is set if its scratchVolume was set up when records were lost, until it finishes.
	hadVolume bool
}

func (j *judge) history(uid string) *podHistory {
	h := j.pods[uid]
	if h == nil {
		h = &podHistory{
			restarts: map[string]int32{}, ran: map[string]int{}, facts: newFacts(), endsAt: -1,
			requestedAs: map[uint64]*corev1.Pod{}, recentStarts: map[string][]time.Duration{},
			endRequested: map[string]time.Duration{}, endedUnknown: map[string]bool{},
			shown: map[string]bool{}, shownRun: map[string]bool{},
			shownEnd: map[string]bool{}, startDispatched: map[string]bool{}, vanished: map[string]bool{},
			lostStarts: map[string]bool{}, endedBefore: map[string]bool{},
		}
		j.pods[uid] = h
	}
	return h
}

// ofOneSource: no two sources have a pod of one UID at once.
func (j *judge) ofOneSource(author messages.Ref, uid string, h *podHistory) {
	if h.source != "" && h.source != author.ID {
		j.broken(oneSource, uid, "source %s updates it, and source %s has it", author.ID, h.source)
	}
	h.source = author.ID
}

// onUpdate notes what the source wants of the pod.
func (h *podHistory) onUpdate(s *sim, seq uint64, at time.Duration, u *journaletv1.PodUpdated) {
	digest, api := u.GetPod().GetDigest(), u.GetPod().GetApi()
	m := s.manifests.byDigest[digest]
	h.apiPod = h.apiPod || api != nil
	if h.heardEnd == 0 && api.GetTerminalPhase() != journaletv1.PodPhase_POD_PHASE_UNSPECIFIED {
		h.heardEnd = seq
	}
	switch {
	case u.GetOperation() == journaletv1.PodOperation_POD_OPERATION_ADD:
		h.gone, h.endsAt, h.endsBy, h.reported, h.updates = false, -1, 0, reportedStatus{}, nil
		h.withoutObject = 0
		h.addedAt = s.journal.storedAt[seq-1]
		clear(h.restarts)
		if !s.judge.rebuilding {
			h.onlyLeft(s.world.objectsOf(u.GetPod().GetUid()))
		}
		h.onDeletion(seq, at, api)
	case api != nil && u.GetOperation() == journaletv1.PodOperation_POD_OPERATION_UPDATE:
		h.onDeletion(seq, at, api)
	case api != nil && u.GetOperation() == journaletv1.PodOperation_POD_OPERATION_REMOVE:
		h.withoutObject = seq
		h.terminates(seq, at) // within its own grace period if that is shorter
		h.onDeletion(seq, at, &journaletv1.ApiPod{Deleted: true, DeletionGraceSeconds: int64(withoutObjectGrace.Seconds())})
		return
	case u.GetOperation() == journaletv1.PodOperation_POD_OPERATION_REMOVE, !h.holdsShare, !isUpdate(h.manifest, m),
		h.evictedAs > 0 && h.evictedAs == h.incarnation:
		h.terminates(seq, at)
		return
	}
	h.manifest, h.updates = m, append(h.updates, admissionRequest{seq, digest})
}

// onlyLeft forgets the instances of earlier incarnations, except the instances that the runtime still has, and the
// instances that the agent has seen since.
func (h *podHistory) onlyLeft(o *objects) {
	ran := h.ran
	h.ran = map[string]int{}
	for _, c := range o.containers {
		key := fmt.Sprint(c.name, " ", c.attempt)
		h.ran[key] = ran[key]
	}
	h.all = slices.DeleteFunc(h.all, func(c *container) bool {
		gone := !slices.Contains(o.containers, c) && !h.shown[c.id]
		if gone {
			h.mayRunAgain(c)
		}
		return gone
	})
}

// terminates notes that the pod ends.
func (h *podHistory) terminates(seq uint64, at time.Duration) {
	if h.endsAt < 0 {
		h.endsAt, h.endsBy = max(at, 0), seq // the clock may have been set forward since
	}
}

// endsItself notes that the pod has decided to end. While the disk stalls, a source's or the node's decision to end it
// may be stored before, though the pod handles it later: it ends by its own, and its grace period counts from the cause
// of that.
func (h *podHistory) endsItself(seq, cause uint64, at time.Duration) {
	if h.endsAt >= 0 && cause < h.endsBy {
		h.endsAt, h.endedByDeletion = min(h.endsAt, max(at, 0)), false
	}
	h.terminates(seq, at)
}

// manifestAt returns the manifest as of a record, nil for none.
func (h *podHistory) manifestAt(seq uint64, manifests *library) *corev1.Pod {
	for _, u := range slices.Backward(h.updates) {
		if u.seq <= seq {
			return manifests.byDigest[u.digest]
		}
	}
	return nil
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
	if j.sim.api != nil && j.terminalAtAPI(x.uid) && !j.unheardEnd(x.uid, x.intent) {
		// Such a pod has no containers in memory, so that it would get a sandbox and nothing else.
		j.broken(neverAgain, x.uid, "sandbox %s is created", x.id)
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
	j.instanceCreated(c)
	j.createdAsAdmitted(c)
	h := j.history(c.uid)
	h.all = append(h.all, c)
	h.created[c.inSandbox(c.name)] = true
	h.instances[c.inSandbox(c.name)]++
	if runsOnceOnly(c.manifest, c.spec) {
		h.once[c.id] = c.onceKey()
	}
	if !gone {
		j.volumesOf(c)
	}
	if h.gone && !gone {
		j.broken(noneOfGonePods, c.uid, "container %s is created", c.id)
	}
	if h.ran[fmt.Sprint(c.name, " ", c.attempt)] > 0 {
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
	j.sim.tenants.happens(c.uid)
	j.startedOfAPI(c)
	h := j.history(c.uid)
	h.ran[fmt.Sprint(c.name, " ", c.attempt)]++
	for _, other := range o.containers {
		if other != c && other.name == c.name && other.alive() {
			j.broken(oneInstance, c.uid, "%s starts beside %s", c.id, other.id)
		}
	}
	n := h.countRun(c)
	if n > 1+h.restartsRequested {
		j.broken(onceEachRequest, c.uid, "%s starts a %d. time after %d requests", c.name, n, h.restartsRequested)
	}
	if n > 1 {
		j.broken(onceMeansOnce, c.uid, "%s starts a %d. time", c.name, n)
	}
	j.instanceStarted(c)
	j.oneOfName(c)
	j.apart(c)
	j.devicesApart(c)
	j.rejectedStays(h, c)
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
	key := c.name + " " + c.image
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

// uncount has an instance count as a run no more.
func (h *podHistory) uncount(c *container) {
	if h.counted[c.id] {
		delete(h.counted, c.id)
		h.onceRuns[c.onceKey()]--
	}
}

// startLost: a start counts as a run if it cannot be found out whether it ran.
func (h *podHistory) startLost(id string) {
	h.lostStarts[id] = true
	if key, ok := h.once[id]; ok {
		h.count(id, key)
	}
}

func (j *judge) containerEnded(c *container) {
	j.instanceEnded(c)
	j.sim.tenants.happens(c.uid)
	if c.code == 0 {
		j.history(c.uid).succeeded[c.inSandbox(c.name)] = true
	}
}

// vanished: a container that vanished has run all the same. Its attempt number may be used again, since the agent may
// not have seen it.
func (j *judge) vanished(c *container) {
	j.instanceVanished(c)
	h := j.history(c.uid)
	delete(h.ran, fmt.Sprint(c.name, " ", c.attempt))
	h.vanished[c.id] = true
	j.forgetRun(h, c)
	j.lostAt[c.id] = j.sim.clock.uptime
}

// counts: the reported restart count of a container never decreases within an incarnation.
func (j *judge) counts(uid string, v *corev1.Pod) {
	h := j.history(uid)
	for _, c := range slices.Concat(v.Status.InitContainerStatuses, v.Status.ContainerStatuses) {
		if c.RestartCount < h.restarts[c.Name] {
			j.broken(countsGrow, uid, "%s: from %d to %d", c.Name, h.restarts[c.Name], c.RestartCount)
		}
		h.restarts[c.Name] = c.RestartCount
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
	j.reports(author.ID, v, rec)
	j.counts(author.ID, v)
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
		if t := c.State.Terminated; j.history(author.ID).apiPod && t != nil && t.Reason == unknownReason &&
			t.StartedAt.IsZero() && t.FinishedAt.IsZero() {
			continue // it never ran, and the API server has an end of each container all the same
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
