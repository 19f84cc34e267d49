package simulation

import (
	"slices"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Invariants of what the agent does with running containers, and of what it reports of them. Each is judged by what the
// world did and by the manifests, never by an actor's state.
const (
	exitsReported   = "an exit is reported as it was"
	countsTrue      = "a restart count is the number of restarts"
	backOffDoubles  = "a back-off doubles up to its bound, and begins again after a long run"
	backOffReported = "a back-off is reported as it is"
	stopCaused      = "a running container is stopped only for a cause"
	deadlineKept    = "a pod ends at its deadline, not before it"
	hooksOnce       = "a hook runs once"
	preStopFirst    = "a preStop hook runs before its container is stopped"
	hooksInOrder    = "a container starts behind the postStart hooks of the containers before it"
	postStartRuns   = "a started container has its postStart hook run"
	startupGates    = "no probe runs before its time"
	resultsTrue     = "a probe's result follows from its attempts"
	readyTrue       = "a container is ready only while its probes succeed"
	probesActed     = "a container whose probe fails is stopped"
)

// instance is what the judge knows of one instance of a container, also after the runtime has removed it.
type instance struct {
	*container
	// n counts the instances of all containers in the order of their creation.
	n int
	// vanished is set if it was removed without the agent, or if the agent does not know any more that it removed it.
	vanished bool
	// createdAt and endedAt are when it was created and when it ended, in uptime.
	createdAt, endedAt time.Duration
	// shownBy is the first record of an observation that has it, 0 for none.
	shownBy uint64
	// startLost is set if the outcome of its start is recorded as unknown.
	startLost bool
	// unhealthy is set once its startup or liveness probe has failed as often as its threshold says, startupSucceeded once
	// its startup probe has succeeded.
	unhealthy, startupSucceeded bool
	probes                      map[journaletv1.ProbeKind]*probeRun
	// postStart and preStop are its hooks. postStartFailed is set if that one failed.
	postStart, preStop hookRun
	postStartFailed    bool
	// stopJudged is set once a call that ends it was judged.
	stopJudged bool
}

// instances are the books of all instances that were ever created.
type instanceBook struct {
	byID map[string]*instance
	// ofPod are the instances of each pod, in the order of their creation.
	ofPod map[string][]*instance
	// begun is the number of instances that preceded the present incarnation of each pod. since does not count them if the
	// runtime still had one: the agent continues its attempt numbers, as the kubelet does.
	since, begun map[string]int
	// countsSince and countsFrom are since and begun of the incarnation with which the restart counts of each pod began.
	countsSince, countsFrom map[string]int
	// finished are the pods that have finished, and were not added since; forgotten are the finished pods that their
	// source forgot.
	finished, forgotten map[string]bool
	// adds are the records that added each pod.
	adds  map[string][]addition
	count int
	// backOffsFrom is the number of instances that preceded the last change of what back-offs depend on: the clock, their
	// bound, and the journal. failedStarts are the starts that failed, by pod and container.
	backOffsFrom int
	failedStarts map[string][]failedStart
	// ending are the pods that their source or the node ends.
	ending map[string]bool
	// admitted are the last admissions. setBack are the times at which the clock was set back, starts those at which the
	// agent was started.
	admitted map[string]admission
	setBack  []wallMark
	starts   []wallMark
	// heldUp is when a pull was last seen to hold up all other calls, in uptime.
	heldUp time.Duration
}

// addition is a record that adds a pod, when some instances preceded it. clean is set if the agent
// knew none of them and the runtime had none, countsOn if its restarts count on.
type addition struct {
	seq             uint64
	count           int
	clean, countsOn bool
}

func newInstanceBook() *instanceBook {
	return &instanceBook{byID: map[string]*instance{}, ofPod: map[string][]*instance{}, since: map[string]int{},
		begun: map[string]int{}, countsSince: map[string]int{}, countsFrom: map[string]int{},
		finished: map[string]bool{}, forgotten: map[string]bool{}, adds: map[string][]addition{},
		failedStarts: map[string][]failedStart{}, ending: map[string]bool{}, admitted: map[string]admission{}}
}

// instanceCreated books an instance.
func (j *judge) instanceCreated(c *container) {
	b := j.book
	b.count++
	x := &instance{container: c, n: b.count, createdAt: j.sim.clock.uptime}
	b.byID[c.id], b.ofPod[c.uid] = x, append(b.ofPod[c.uid], x)
}

// instanceStarted judges a start.
func (j *judge) instanceStarted(c *container) {
	j.waited(j.book.byID[c.id])
	j.behindHooks(c)
}

// instanceEnded books an end.
func (j *judge) instanceEnded(c *container) {
	j.book.byID[c.id].endedAt = j.sim.clock.uptime
}

// instanceVanished books that the runtime lost a container.
func (j *judge) instanceVanished(c *container) { j.book.byID[c.id].vanished = true }

// overdue judges what has to happen within a time, once faults have ended.
func (j *judge) overdue(faultless time.Duration) {
	if j.sim.config.concurrency == 1 && j.busy[pullConcurrency] > 0 {
		j.book.heldUp = j.sim.clock.uptime // one call at a time: all others wait for the pull
	}
	faultless = max(faultless, j.book.heldUp)
	j.endsAtDeadline(faultless)
	j.postStartsRan(faultless)
	j.probesActedOn(faultless)
}

// clockJumped books that the clock was set by a duration.
func (j *judge) clockJumped(by time.Duration) {
	if by < 0 {
		j.book.setBack = append(j.book.setBack, wallMark{j.sim.clock.uptime, j.sim.clock.Now().Add(-by)})
	}
	j.clockSet, j.book.backOffsFrom = j.sim.clock.uptime, j.book.count
	j.clockSets = append(j.clockSets, j.clockSet)
}

// bookInstances books an event of a record.
func (j *judge) bookInstances(e *journaletv1.Event, rec *journaletv1.Record) {
	b := j.book
	j.bookOperators(e)
	j.bookBackOffs(e)
	j.bookEnding(e)
	j.bookDeadlines(rec.GetActor().GetId(), e, rec)
	j.bookProbes(e, rec)
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_PodObserved:
		for _, c := range k.PodObserved.GetContainers() {
			if x := b.byID[c.GetId()]; x != nil && x.shownBy == 0 {
				x.shownBy = rec.GetSeq()
			}
		}
	case *journaletv1.Event_PodFinished:
		b.finished[k.PodFinished.GetUid()] = true
	case *journaletv1.Event_PodForgotten:
		b.forgotten[k.PodForgotten.GetUid()] = true
	case *journaletv1.Event_PodUpdated:
		if uid := k.PodUpdated.GetPod().GetUid(); k.PodUpdated.GetOperation() == journaletv1.PodOperation_POD_OPERATION_ADD {
			if !j.rebuilding {
				j.incarnationBegins(uid, rec.GetSeq())
			}
			delete(b.finished, uid)
			delete(b.forgotten, uid)
		}
	case *journaletv1.Event_CallFinished:
		if in := j.intents[k.CallFinished.GetIntentId()]; in != nil && in.req.GetRunHook() != nil {
			j.bookHook(in.req.GetRunHook(), k.CallFinished)
		}
		if k.CallFinished.GetError() == journaletv1.CallError_CALL_ERROR_START_LOST {
			if x := b.byID[j.intents[k.CallFinished.GetIntentId()].startedContainer()]; x != nil {
				x.startLost = true
			}
		}
	}
}

// incarnationBegins books that a record adds a pod. Its restarts count on if its source has not forgotten it since it
// ended.
func (j *judge) incarnationBegins(uid string, seq uint64) {
	b := j.book
	known := !b.finished[uid] && slices.ContainsFunc(b.ofPod[uid], func(x *instance) bool { return x.shownBy > 0 })
	add := addition{
		seq: seq, count: b.count, clean: !known && len(j.sim.world.objectsOf(uid).containers) == 0,
		countsOn: b.finished[uid] && !b.forgotten[uid],
	}
	b.adds[uid] = append(b.adds[uid], add)
	b.added(uid, add)
}

func (b *instanceBook) added(uid string, add addition) {
	if b.begun[uid] = add.count; add.clean {
		b.since[uid] = add.count
	}
	if add.countsOn {
		return
	}
	if b.countsFrom[uid] = add.count; add.clean {
		b.countsSince[uid] = add.count
	}
}

func (in *intent) startedContainer() string {
	if in == nil {
		return ""
	}
	return in.req.GetStartContainer().GetContainerId()
}

// forgetRecords forgets the records after the first n. An agent that has lost them does not know what it removed.
func (b *instanceBook) forgetRecords(n int, w *world) {
	for _, x := range b.byID {
		x.shownBy, x.postStart.done, x.preStop.done = 0, false, false
		for _, r := range x.probes {
			r.results = nil
		}
		x.vanished = x.vanished || !slices.Contains(w.objectsOf(x.uid).containers, x.container)
	}
	clear(b.since)
	clear(b.begun)
	clear(b.countsSince)
	clear(b.countsFrom)
	clear(b.ending)
	clear(b.finished)
	clear(b.forgotten)
	for uid := range b.adds {
		b.adds[uid] = slices.DeleteFunc(b.adds[uid], func(a addition) bool { return a.seq > uint64(n) })
		for _, a := range b.adds[uid] {
			b.added(uid, a)
		}
	}
	b.backOffsFrom = b.count
}

// instancesOf returns the instances of a container in the present incarnation of its pod, in the order of their
// creation.
func (b *instanceBook) instancesOf(uid, name string) []*instance {
	return slices.DeleteFunc(slices.Clone(b.ofPod[uid]), func(x *instance) bool {
		return x.name != name || x.n <= b.since[uid]
	})
}
