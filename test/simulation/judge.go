package simulation

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/plain"
	"github.com/journalet/journalet/runtime/fold"
)

// The invariants. Each has a function that calls broken. docs/SIMULATION.md lists them by subject.
const (
	oneInstance = "a container runs in one instance at a time"
	oneSandbox  = "a pod gets a sandbox after every earlier one was stopped"
	// filesOfInstances does not count what another client has removed, until the agent removes the next instance.
	filesOfInstances = "files of instances that are gone do not gather"
	noneOfGonePods   = "nothing is created for a pod that has finished"
	initOrder        = "init containers start in their order"
	startsWhileRuns  = "only a running pod requests sandboxes and starts"
	intentFirst      = "a call begins after its intent and its dispatch are stored"
	oneAtATime       = "calls that exclude each other do not overlap"
	withdrawnCalls   = "a call that was withdrawn in time does not begin"
	oneOutcome       = "an intent has at most one outcome"
	withinLimits     = "no more calls run at once than configured"
	onePull          = "an image is pulled once at a time"
	pullsForPods     = "the runtime gets the pod for which it pulls, and pods that it distinguishes share no pull"
	namedStays       = "no pod that a source names is removed as an orphan"
	graceKept        = "no container is killed before its grace period is over"
	noGraceWithout   = "a pod whose object is gone has no grace period of its own"
	countsGrow       = "restart counts never decrease"
	newAttempts      = "an attempt number is used once"
	onceMeansOnce    = "a container that is never restarted runs once"
	notRunIsTried    = "a start that ran nothing is tried again"
	restartAllRule   = "all containers restart only for an exit code whose rule demands it"
	backOffKept      = "a container that crashes again and again waits in between"
	statusIsFold     = "the reported status follows from the state"
	noSecrets        = "the journal holds no secret"
	factsAreClean    = "every fact can be stored, and messages in it drive no terminal"
	withinBounds     = "queues stay within their bounds"
	replayIsLive     = "the replayed state equals the live state"
	noActorFails     = "no actor fails"
	noDefect         = "nothing that the agent does for a pod panics"
	unreadableKeeps  = "an unreadable manifest removes no pod"
	oneSource        = "a pod has one source at a time"
	aboveUse         = "no memory limit falls to the usage or below"
	oneIncarnation   = "incarnations of a pod do not overlap"
	sharesFitNode    = "running pods together fit the node"
	onePort          = "no two running pods have the same host port"
	preemptsLower    = "a pod is preempted only for one of higher priority, in a cluster for a critical one"
	admittedFirst    = "a pod requests its sandbox after its admission"
	preemptorStays   = "a pod that others are preempted for is admitted"
	rejectedRightly  = "a pod is rejected only if it does not fit"
	timerTime        = "no timer counts as fired before it is due"
	timerLate        = "no timer fires late"
	newsOnly         = "a probe result is recorded only when it changes"
	withinNode       = "the node admits no more than it has, and a name once"
	oneOfName        = "two static pods of one name never run at once"
	convergence      = "without faults every pod becomes as its manifest says"
	rest             = "nothing happens after convergence"
	volumesFirst     = "a container is created with all volumes of its pod set up"
	unmountedLast    = "volumes are torn down after the last container"
	noneMounted      = "nothing of a finished pod stays mounted"
	objectsFirst     = "nothing is requested that lacks an object"
	objectsReach     = "a change of an object reaches the pods that run"
	objectsAwaited   = "a pod waits for its objects, and starts when they appear"
	evictedRightly   = "a pod is evicted only for what was measured"
	vanishedEnds     = "a container that vanished stops counting as running"
)

// secret is in every place of a manifest that may hold one.
const secret = "hunter2-do-not-leak"

// Violation is the first invariant that a run broke.
type Violation struct {
	Invariant string
	// UID is the pod concerned, empty for none.
	UID  string
	Text string
	// At is virtual time since the run began, Record the last record stored by then.
	At     time.Duration
	Record int
}

func (b *Violation) Error() string { return fmt.Sprintf("%s: %s", b.Invariant, b.Text) }

// judge checks the invariants of a run. It keeps its own books of what was recorded and of what happened in the
// world, and trusts no actor's state.
type judge struct {
	sim   *sim
	first *Violation
	// fold folds the journal beside the agent. states are the agent's states after each step that is not stored yet.
	fold    *fold.Fold
	parts   fold.Parts
	states  map[decided][]byte
	intents map[string]*intent
	// uptimes are the records' uptimes as they were when they were stored, dues when their timers were due, by record and
	// timer: for records that are read again.
	uptimes []time.Duration
	dues    map[string]due
	// configs are the configurations of the agent's runs; busy counts the calls under way by the limit that applies.
	configs []configured
	busy    map[bound]int
	// read is when each source was first read completely, readAt when what a fact reports was read, in uptime.
	read   map[string]time.Duration
	readAt map[*journaletv1.ManifestsRead]time.Duration
	// timers are the timers of each actor after the record that it handled last.
	timers map[messages.Ref]map[string]*journaletv1.Timer
	// urlFiles are the recorded reads of the manifest URL, by path.
	urlFiles map[string]*journaletv1.ManifestFile
	// names are the pods of the recorded reads of the directory, by name.
	names *nameBook
	// set are the timers that are set and have not fired, by actor and name, with their actor.
	set map[string]setTimer
	// due is when each timer has to fire. results are the last recorded probe results. onTheirWay counts pending results
	// of probes that were replaced.
	due        map[string]due
	results    map[string]bool
	onTheirWay map[string]int
	// runSince is when the present run of the agent began.
	runSince time.Duration
	pods     map[string]*podHistory
	book     *instanceBook
	// deadSandboxes are the sandboxes that died by themselves.
	deadSandboxes map[string]bool
	// lostAt is when a container vanished from the runtime, by id.
	lostAt map[string]time.Duration
	// underWay are the intents of the calls under way.
	underWay []string
	// clockSet is when the clock was last set, clockSets each time.
	clockSet  time.Duration
	clockSets []time.Duration
	// lostIntents are the intents whose records were lost, by id. lostRecordsAt is when records were last lost, in
	// uptime.
	lostIntents   map[string]bool
	lostRecordsAt time.Duration
	// rebuilding is set while rebuild folds records that were judged before.
	rebuilding bool
	pressure   *pressureBook
	exclusive  exclusiveBook
	users      userBook
	devices    map[string]*deviceBook
	// drain is the operator's.
	drain  drainBook
	pulled pullBook
	// instances and covered are counted for reports.
	instances int
	covered   map[string]int
}

type decided struct {
	ref   messages.Ref
	cause uint64
}

// intent is one requested call.
type intent struct {
	req                  *journaletv1.CallRequested
	dispatched, finished bool
	// cause is the record that led to it.
	cause        uint64
	dispatchedAt time.Duration // uptime
	// withdrawn is the record that withdrew it before its dispatch, 0 for none.
	withdrawn uint64
}

func newJudge(s *sim) *judge {
	j := &judge{sim: s, covered: map[string]int{}, pods: map[string]*podHistory{}, lostAt: map[string]time.Duration{},
		clockSet: -time.Hour, lostRecordsAt: -time.Hour, lostIntents: map[string]bool{},
		readAt: map[*journaletv1.ManifestsRead]time.Duration{},
		dues:   map[string]due{}, deadSandboxes: map[string]bool{}, book: newInstanceBook(), pressure: newPressureBook()}
	j.forgetRecords()
	return j
}

func (j *judge) forgetRecords() {
	j.fold = fold.New(fold.AllDeciders, j.sim.manifests.get)
	j.fold.CreateSingletons()
	j.parts = fold.Parts{}
	j.states, j.intents, j.busy = map[decided][]byte{}, map[string]*intent{}, map[bound]int{}
	j.read, j.configs, j.drain, j.pulled = map[string]time.Duration{}, nil, drainBook{}, newPullBook()
	j.set, j.urlFiles, j.names = map[string]setTimer{}, map[string]*journaletv1.ManifestFile{}, newNameBook()
	j.pressure.forgetRecords()
	j.devices, j.exclusive.left = map[string]*deviceBook{}, nil
	j.exclusive.found = map[string]*foundBook{}
	j.users = userBook{given: map[string]*journaletv1.UserNamespace{}}
	j.due, j.results, j.onTheirWay = map[string]due{}, map[string]bool{}, map[string]int{}
}

// broken notes the first violation.
func (j *judge) broken(invariant, uid, format string, args ...any) {
	only := j.sim.only
	if j.first == nil && !j.rebuilding && (len(only) == 0 || slices.Contains(only, invariant)) &&
		!slices.Contains(j.sim.except, invariant) && !j.excused(invariant, uid) {
		j.first = &Violation{
			Invariant: invariant, UID: uid, Text: fmt.Sprintf(format, args...), At: j.sim.clock.uptime,
			Record: len(j.sim.journal.stored),
		}
	}
}

// record judges a record that was just stored.
func (j *judge) record(rec *journaletv1.Record, encoded []byte) {
	j.secrets(rec, encoded)
	j.texts(rec)
	j.defects(rec, encoded)
	j.recordFits(rec, encoded)
	if rec.GetSeq() == j.sim.maxRecords() {
		j.broken(withinBounds, rec.GetActor().GetId(), "%d records: the agent repeats something without end",
			rec.GetSeq())
	}
	j.events(rec)
	j.fold.Record(rec)
	if rec.GetStep() != nil && !rec.GetStep().GetMore() {
		author := messages.RefOf(rec.GetActor())
		j.replayed(author, rec)
		j.statusReported(author, rec)
	}
}

// events keeps the books of a record's events.
func (j *judge) events(rec *journaletv1.Record) {
	if !j.rebuilding {
		j.uptimes = append(j.uptimes, j.uptimeOf(rec))
	}
	if rec = j.parts.Join(rec); rec == nil {
		return // the whole step counts
	}
	author := messages.RefOf(rec.GetActor())
	for i, e := range messages.Events(rec) {
		id := ""
		if rec.GetStep() != nil {
			id = messages.DecisionID(rec.GetEpoch(), rec.GetStep().GetCause(), author, i)
		}
		j.bookDevices(author.ID, rec.GetSeq(), e)
		j.event(author, id, e, rec)
		j.bookPulls(rec, e)
		j.bookObjects(author.ID, e, rec)
		j.bookAPI(author.ID, e)
		j.bookPressure(rec, e)
		j.bookKubelet(author, rec.GetSeq(), e)
		j.bookUsers(rec, e)
		j.bookRefused(author.ID, rec, e)
	}
}

// uptimeOf returns the uptime of a record as actors see it: a fact at its own time, a decision at the time of its
// cause. The disk may have taken a while since. It is wrong if the clock was set since then.
func (j *judge) uptimeOf(rec *journaletv1.Record) time.Duration {
	if n := int(rec.GetSeq()); n <= len(j.uptimes) {
		return j.uptimes[n-1]
	}
	at := rec.GetTime()
	if cause := int(rec.GetStep().GetCause()); cause > 0 && cause <= len(j.sim.journal.stored) &&
		rec.GetActor().GetKind() == journaletv1.ActorKind_ACTOR_KIND_POD {
		at = j.sim.journal.stored[cause-1].GetTime()
	}
	// the clock may have been set back since
	return min(j.sim.clock.uptime, j.sim.clock.uptime-j.sim.clock.Now().Sub(at.AsTime()))
}

// texts: no message of the runtime reaches the journal with what a terminal obeys.
func (j *judge) texts(rec *journaletv1.Record) {
	if m := rec.GetFact().GetCallFinished().GetMessage(); plain.Quote(m, true) != m {
		j.broken(factsAreClean, "", "record %d: %q", rec.GetSeq(), m)
	}
}

// secrets: no record holds what a manifest has in its environment.
func (j *judge) secrets(rec *journaletv1.Record, encoded []byte) {
	if bytes.Contains(encoded, []byte(secret)) {
		j.broken(noSecrets, "", "record %d holds one: %v", rec.GetSeq(), rec)
	}
}

// event keeps the books of intents and pods.
func (j *judge) event(author messages.Ref, id string, e *journaletv1.Event, rec *journaletv1.Record) {
	seq, cause, at := rec.GetSeq(), rec.GetStep().GetCause(), j.uptimeOf(rec)
	j.covered[messages.EventName(e)]++
	j.bookShares(rec, e)
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_CallRequested:
		h := j.history(author.ID)
		in := &intent{req: k.CallRequested, cause: cause}
		j.intents[id] = in
		j.onePull(h, in)
		j.admittedBefore(author.ID, h, in)
		h.openCalls = append(h.openCalls, in)
		j.startsOnlyWhileItRuns(author.ID, h, rec, k.CallRequested)
		j.endRequested(h, rec, at, k.CallRequested)
	case *journaletv1.Event_CallDispatched:
		j.dispatched(cause, k.CallDispatched)
	case *journaletv1.Event_CallWithdrawn:
		if in := j.intents[k.CallWithdrawn.GetIntentId()]; in != nil && !in.dispatched && in.withdrawn == 0 {
			in.withdrawn = seq
		}
	case *journaletv1.Event_AgentStarted:
		j.onAgentStarted(seq, k.AgentStarted.GetConfig())
	case *journaletv1.Event_TimerSet, *journaletv1.Event_TimerCleared, *journaletv1.Event_TimerFired:
		j.timerEvent(author, rec, e)
	case *journaletv1.Event_AllContainersRestarting:
		j.onAllRestarting(author.ID, rec, k.AllContainersRestarting)
	case *journaletv1.Event_ManifestsRead:
		j.bookRead(author, k.ManifestsRead)
	case *journaletv1.Event_SourceSynced:
		j.onSynced(seq, cause, k.SourceSynced.GetSource())
	case *journaletv1.Event_OrphanConfirmed:
		j.orphanConfirmed(cause, k.OrphanConfirmed.GetUid())
	case *journaletv1.Event_CallDropped:
		j.outcome(k.CallDropped.GetIntentId())
	case *journaletv1.Event_CallFinished:
		j.outcome(k.CallFinished.GetIntentId())
		if in := j.intents[k.CallFinished.GetIntentId()]; in != nil &&
			k.CallFinished.GetError() == journaletv1.CallError_CALL_ERROR_START_LOST {
			j.history(in.req.GetPodUid()).startLost(in.req.GetStartContainer().GetContainerId())
		}
	case *journaletv1.Event_PodObserved:
		for _, c := range k.PodObserved.GetContainers() {
			h := j.history(k.PodObserved.GetUid())
			h.shown[c.GetId()] = true
			h.shownRun[c.GetId()] = h.shownRun[c.GetId()] || c.GetState() != created
			h.shownEnd[c.GetId()] = h.shownEnd[c.GetId()] || c.GetState() == exited
		}
	case *journaletv1.Event_PodUpdated:
		j.noRemovalInDoubt(rec, k.PodUpdated)
		j.ofOneSource(author, k.PodUpdated.GetPod().GetUid(), j.history(k.PodUpdated.GetPod().GetUid()))
		j.history(k.PodUpdated.GetPod().GetUid()).onUpdate(j.sim, seq, at, k.PodUpdated)
	case *journaletv1.Event_ProbeResult:
		j.isNews(k.ProbeResult)
	case *journaletv1.Event_ProbesSet:
		j.probesSet(seq, author.ID, k.ProbesSet)
	case *journaletv1.Event_PodForgotten:
		j.history(k.PodForgotten.GetUid()).source = ""
	case *journaletv1.Event_AdmissionPendingPreemption:
		j.pendingPreemption(seq, at, cause, k.AdmissionPendingPreemption)
	case *journaletv1.Event_ResizePendingPreemption:
		j.preempted(seq, at, k.ResizePendingPreemption.GetUid(), k.ResizePendingPreemption.GetDigest(),
			k.ResizePendingPreemption.GetVictims())
	case *journaletv1.Event_PodTerminating:
		j.history(author.ID).endsItself(seq, cause, at)
	case *journaletv1.Event_PodFinished:
		h := j.history(k.PodFinished.GetUid())
		h.gone, h.reported = true, reportedStatus{}
	case *journaletv1.Event_PodStatusChanged:
		j.history(author.ID).reported.fold(k.PodStatusChanged)
	}
	j.bookInstances(e, rec)
}

// intentDurable: a call begins only when its request and its dispatch are stored.
func (j *judge) intentDurable(id string) {
	switch in := j.intents[id]; {
	case in == nil && j.lostIntents[id]:
		// The record that requested it was acknowledged and then lost.
	case in == nil:
		j.broken(intentFirst, "", "call %s begins, and no record requests it", id)
	case !in.dispatched:
		j.broken(intentFirst, in.req.GetPodUid(), "call %s begins before its dispatch is stored: %v", id, in.req)
	}
}

// replayed: the stored records fold to the state that the actor had when it took the step.
func (j *judge) replayed(author messages.Ref, rec *journaletv1.Record) {
	key := decided{author, rec.GetStep().GetCause()}
	want, ok := j.states[key]
	delete(j.states, key)
	d, err := j.fold.Decider(author)
	switch {
	case err != nil:
		j.broken(replayIsLive, author.ID, "record %d: %v", rec.GetSeq(), err)
	case !ok || d == nil:
		return // the actor or its run has ended
	case !bytes.Equal(want, stateBytes(d.State())):
		j.broken(replayIsLive, author.ID, "%s differs after record %d", author, rec.GetSeq())
	}
}

func stateBytes(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return []byte(err.Error())
	}
	return b
}

// recovered: a start folds snapshots and the records after them to the same states as the whole journal.
func (j *judge) recovered(cells *fold.Cells) {
	j.timers, j.runSince = map[messages.Ref]map[string]*journaletv1.Timer{}, j.sim.clock.uptime
	j.book.starts = append(j.book.starts, wallMark{j.runSince, j.sim.clock.Now()})
	for _, ref := range cells.Refs() {
		j.timers[ref] = maps.Clone(cells.Decider(ref).Timers().GetSet())
		// A snapshot also counts records that led to no step: none is handled again.
		err := j.fold.CatchUp(ref, cells.Handled(ref))
		d, failed := j.fold.Decider(ref)
		err = errors.Join(err, failed)
		switch {
		case err != nil || d == nil:
			j.broken(replayIsLive, ref.ID, "%s exists after a start, and not in the fold of the whole journal: %v", ref, err)
		case !bytes.Equal(stateBytes(cells.Decider(ref).State()), stateBytes(d.State())):
			j.broken(replayIsLive, ref.ID, "%s after a start differs from the fold of the whole journal: %s", ref,
				difference(cells.Decider(ref).State(), d.State()))
		}
	}
}

// difference returns the texts of two states around their first difference.
func difference(a, b proto.Message) string {
	const around = 200
	x, y := prototext.Format(a), prototext.Format(b)
	i := 0
	for i < min(len(x), len(y)) && x[i] == y[i] {
		i++
	}
	cut := func(s string) string { return s[max(0, min(i, len(s))-around):min(len(s), i+around)] }
	return "\n" + cut(x) + "\nand\n" + cut(y)
}

// crashed forgets steps that were never stored, and the calls of the run.
func (j *judge) crashed() {
	clear(j.states)
	clear(j.onTheirWay)
	j.book.probesEnd()
	j.underWay = nil
}

// callBegins: a call begins for a stored intent, and overlaps no call that excludes it or that it excludes.
func (j *judge) callBegins(id string) {
	j.intentDurable(id)
	in := j.intents[id]
	if in == nil {
		return
	}
	for _, other := range j.underWay {
		if o := j.intents[other]; o != nil && o.req.GetPodUid() == in.req.GetPodUid() &&
			(excludes(in.req, o.req) || excludes(o.req, in.req)) {
			j.broken(oneAtATime, in.req.GetPodUid(), "%v during %v", in.req, o.req)
		}
	}
	j.underWay = append(j.underWay, id)
}

func (j *judge) callEnds(id string) {
	j.underWay = slices.DeleteFunc(j.underWay, func(other string) bool { return other == id })
}

// handled judges an actor that has handled a record.
func (j *judge) handled(r *run, ref messages.Ref, step *journaletv1.Record) {
	j.bounds(r, ref)
	if d := r.cells.Decider(ref); d != nil {
		j.timersKept(r, ref, d, step)
	}
	if step == nil {
		return
	}
	d := r.cells.Decider(ref)
	j.states[decided{ref, step.GetStep().GetCause()}] = stateBytes(d.State())
}

// startsOnlyWhileItRuns: a pod that is not admitted, or ends, requests no sandbox and no start. The pod knows the
// records up to the record that it decides on.
func (j *judge) startsOnlyWhileItRuns(uid string, h *podHistory, rec *journaletv1.Record,
	c *journaletv1.CallRequested,
) {
	if c.GetStartContainer() == nil && c.GetRunSandbox() == nil {
		return
	}
	cause, seq := rec.GetStep().GetCause(), rec.GetSeq()
	switch {
	case h.admittedIncarnation != h.incarnation || h.admittedIncarnation == 0:
		j.broken(startsWhileRuns, uid, "it is incarnation %d, and the last admitted one is %d: %v", h.incarnation,
			h.admittedIncarnation, c)
	case h.endsBy != 0 && (h.endsBy <= cause || h.endsBy == seq):
		j.broken(startsWhileRuns, uid, "it ends by record %d, and requests for record %d: %v", h.endsBy, cause, c)
	}
}
