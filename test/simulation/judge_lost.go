package simulation

import (
	"fmt"
	"slices"

	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Lost records. A power cut loses the end of the journal, and another fault all of it. The judge forgets what only
// these records showed and judges everything after them in full: there is no invariant that a lost record switches off.

// rebuild keeps the books again, from the records that are left after acknowledged ones were lost. What happened in
// the world did happen. An instance that no record and no object of the runtime shows any more cannot count for the
// agent.
func (j *judge) rebuild() {
	j.rebuilding = true
	defer func() { j.rebuilding = false }()
	lost := j.intents
	j.uptimes = j.uptimes[:len(j.sim.journal.stored)]
	j.forgetRecords()
	j.book.forgetRecords(len(j.sim.journal.stored), j.sim.world)
	ended := map[*podHistory]bool{}
	for _, h := range j.pods {
		ended[h] = h.endsAt >= 0 || h.terminatedBy > 0
		h.forgetRecords()
		for _, c := range h.all {
			if c.state == created {
				h.uncount(c) // it counted by a record only: see startLost
			}
		}
	}
	for _, rec := range j.sim.journal.stored {
		j.events(rec)
		j.fold.Record(rec)
	}
	for id := range lost {
		if j.intents[id] == nil {
			j.lostIntents[id] = true
		}
	}
	j.lostRecordsAt = j.sim.clock.uptime
	j.sim.world.loseClaims()
	for _, o := range j.sim.world.objects {
		for _, x := range o.sandboxes {
			j.deadSandboxes[x.id] = j.deadSandboxes[x.id] || !x.ready // for an agent without these records
		}
	}
	for uid, volumes := range j.sim.world.files.disk {
		j.history(uid).hadVolume = volumes[scratchVolume] != ""
	}
	for uid, h := range j.pods {
		known := j.sim.api != nil && j.terminalAtAPI(uid) // the status of another decision to end it
		h.endLost = h.endLost || (ended[h] || known) && h.endsAt < 0 && h.terminatedBy == 0
		h.undoRestartAll(len(j.sim.journal.stored))
		for _, c := range h.all {
			if !slices.Contains(j.sim.world.objectsOf(c.uid).containers, c) {
				j.forgetRun(h, c)
			}
		}
	}
}

// forgetRecords forgets what was read from records.
func (h *podHistory) forgetRecords() {
	h.source, h.objectReads, h.setUps, h.leftBehind, h.evictedAs, h.refusedAs = "", nil, 0, false, 0, 0
	h.gone, h.manifest, h.endsAt, h.endsBy, h.heardEnd = false, nil, -1, 0, 0
	h.reported, h.openCalls = reportedStatus{}, nil
	h.requests, h.updates, h.restarting, h.pending = nil, nil, false, false
	h.share, h.resizing, h.holdsShare, h.releasedBy = share{}, share{}, false, 0
	h.ports, h.exclusive, h.devices, h.admittedAs, h.allocatedAs, h.name = nil, cpuset.CPUSet{}, nil, nil, nil, ""
	h.incarnation, h.admittedIncarnation, h.preempting = 0, 0, 0
	h.preemptedAs, h.rejectedAs, h.pendedUntil, h.finishedBy, h.terminatedBy = 0, 0, 0, 0, 0
	clear(h.requestedAs)
	clear(h.restarts)
	for id := range h.endRequested {
		h.endedBefore[id] = true
	}
	clear(h.endRequested)
	clear(h.endedUnknown)
	clear(h.shown)
	clear(h.shownRun)
	clear(h.shownEnd)
	clear(h.startDispatched)
	clear(h.lostStarts)
}

// forgetRun forgets that an instance ran that the runtime shows nothing of any more, if no record shows it either. Then
// its attempt number may be used again, its container may run again, and init containers may run after it.
func (j *judge) forgetRun(h *podHistory, c *container) {
	unknown := j.intents[c.intent] == nil || runsOnceOnly(c.manifest, c.spec)
	if unknown && !h.shownRun[c.id] && !h.startDispatched[c.id] {
		h.uncount(c)
	}
	if j.intents[c.intent] != nil || h.shown[c.id] {
		return
	}
	delete(h.ran, fmt.Sprint(c.name, " ", c.attempt))
	later := slices.ContainsFunc(h.all, func(x *container) bool {
		return x.inSandbox(x.name) == c.inSandbox(c.name) && x.startedAt > c.startedAt
	})
	if !later {
		delete(h.started, c.inSandbox(c.name))
	}
}

// containerRemoved: a call of an earlier run may remove an instance after its records were lost, before any inspection
// shows it.
func (j *judge) containerRemoved(c *container) {
	if j.lostIntents[c.intent] {
		j.forgetRun(j.history(c.uid), c)
	}
}

// facts are what the judge knows of containers by their sandbox and name, and of containers that may run only once.
type facts struct {
	// started and succeeded hold what was started and what exited with 0, created what was created, even if it never ran.
	started, succeeded, created map[string]bool
	// instances counts what was created.
	instances map[string]int
	// onceRuns counts the runs of containers that may run only once, by onceKey. counted are the ids of these instances.
	onceRuns map[string]int
	counted  map[string]bool
	// once are the instances that may run only once, by id, with their onceKey.
	once map[string]string
}

// allRestarting is a restart of all containers of a pod, and what was known before it.
type allRestarting struct {
	seq    uint64
	before facts
}

// undoRestartAll undoes the restarts of all containers that no record is left of: what was known before them holds
// again.
func (h *podHistory) undoRestartAll(stored int) {
	for len(h.restartedAll) > 0 {
		last := h.restartedAll[len(h.restartedAll)-1]
		if last.seq <= uint64(stored) {
			return
		}
		h.restartedAll = h.restartedAll[:len(h.restartedAll)-1]
		h.facts.add(last.before)
	}
}

// add adds facts from before a restart of all containers.
func (f *facts) add(before facts) {
	for _, x := range []struct{ to, from map[string]bool }{
		{f.started, before.started}, {f.succeeded, before.succeeded}, {f.created, before.created},
		{f.counted, before.counted},
	} {
		for k := range x.from {
			x.to[k] = true
		}
	}
	for k, n := range before.instances {
		f.instances[k] += n
	}
	for k, n := range before.onceRuns {
		f.onceRuns[k] += n
	}
	for id, key := range before.once {
		f.once[id] = key
	}
}

func newFacts() facts {
	return facts{started: map[string]bool{}, succeeded: map[string]bool{}, created: map[string]bool{},
		counted: map[string]bool{}, instances: map[string]int{}, onceRuns: map[string]int{}, once: map[string]string{}}
}

// bookDispatch notes that a start of an instance was dispatched: from then on the agent knows that it may have run.
func (j *judge) bookDispatch(in *intent) {
	if k := in.req.GetStartContainer(); k.GetPart() == journaletv1.StartPart_START_PART_START {
		j.history(in.req.GetPodUid()).startDispatched[k.GetContainerId()] = true
	}
}
