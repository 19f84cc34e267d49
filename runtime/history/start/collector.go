package start

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Collector folds the records of a journal, in its order, to the starts of pods. The zero value is not ready for use:
// call NewCollector. A journal whose front was cut yields only the starts whose first record it still holds.
type Collector struct {
	open    map[string]*Start // by UID
	calls   map[string]*call  // by intent id
	pulling map[string]*call  // the pull under way, by image
	parts   []*journaletv1.Record
	ended   []*Start
}

// call is a call under way.
type call struct {
	id            string
	start         *Start // nil for a pull
	phase         *Phase
	image         string
	dispatched    time.Time
	dispatchedSeq uint64
}

// at is a place in the journal.
type at struct {
	time time.Time
	seq  uint64
}

// NewCollector returns a collector that has seen no record.
func NewCollector() *Collector {
	return &Collector{open: map[string]*Start{}, calls: map[string]*call{}, pulling: map[string]*call{}}
}

// Add folds the next record and returns the starts that ended with it. They do not change any more. A record may be
// missing before it, such as an unreadable record.
func (c *Collector) Add(rec *journaletv1.Record) []*Start {
	if step := rec.GetStep(); step.GetOffset() == 0 && !step.GetMore() {
		c.parts = nil
		c.fold(rec)
	} else {
		for _, part := range c.join(rec) {
			c.fold(part)
		}
	}
	out := c.ended
	c.ended = nil
	return out
}

func (c *Collector) fold(rec *journaletv1.Record) {
	when := at{rec.GetTime().AsTime(), rec.GetSeq()}
	if fact := rec.GetFact(); fact != nil {
		c.fact(when, fact)
		return
	}
	author := messages.RefOf(rec.GetActor())
	for i, e := range rec.GetStep().GetDecisions() {
		if req := e.GetCallRequested(); req != nil {
			index := int(rec.GetStep().GetOffset()) + i
			c.callRequested(when, author, messages.DecisionID(rec.GetEpoch(), rec.GetStep().GetCause(), author, index), req)
			continue
		}
		c.decision(when, author, e)
	}
}

// Open returns the starts that have not ended, in the order of their beginnings. They change with the next record.
func (c *Collector) Open() []*Start {
	var out []*Start
	for _, s := range c.open {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *Start) int {
		return cmp.Or(cmp.Compare(a.BeginSeq, b.BeginSeq), cmp.Compare(a.UID, b.UID))
	})
	return out
}

// join returns the records to fold: none for a part of a step that others must follow, and all parts with the last one.
// Parts whose last one a crash has lost were not taken.
func (c *Collector) join(rec *journaletv1.Record) []*journaletv1.Record {
	parts, step := c.parts, rec.GetStep()
	c.parts = nil
	if step.GetOffset() == 0 {
		parts = nil
	} else if n := len(parts); n == 0 || parts[n-1].GetSeq()+1 != rec.GetSeq() {
		return nil
	}
	parts = append(parts, rec)
	if step.GetMore() {
		c.parts = parts
		return nil
	}
	return parts
}

func (c *Collector) fact(when at, e *journaletv1.Event) {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_CallFinished:
		c.callFinished(when, k.CallFinished)
	case *journaletv1.Event_PodObserved:
		c.observed(when, k.PodObserved)
	case *journaletv1.Event_ProbeResult:
		c.probed(when, k.ProbeResult)
	case *journaletv1.Event_ReadinessGatesRead:
		c.gatesRead(when, k.ReadinessGatesRead)
	case *journaletv1.Event_ObjectsRead:
		c.objectsRead(k.ObjectsRead)
	}
}

// decision folds one decision. Those of a source, of the node and of the images name their pod; others are their
// author's.
func (c *Collector) decision(when at, author messages.Ref, e *journaletv1.Event) {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_PodUpdated:
		c.updated(when, k.PodUpdated)
	case *journaletv1.Event_AdmissionRequested:
		c.admissionRequested(when, k.AdmissionRequested)
	case *journaletv1.Event_AdmissionDeferred:
		message := "waits for pod " + k.AdmissionDeferred.GetHolderUid()
		if k.AdmissionDeferred.GetReason() != "" {
			message = k.AdmissionDeferred.GetMessage()
		}
		c.waits(when, k.AdmissionDeferred.GetUid(), "Deferred", message)
	case *journaletv1.Event_AdmissionPendingPreemption:
		c.waits(when, k.AdmissionPendingPreemption.GetUid(), "PendingPreemption", "")
		for _, uid := range k.AdmissionPendingPreemption.GetVictims() {
			c.end(when, uid, Ended, "Preempting", "preempted for "+k.AdmissionPendingPreemption.GetFullName())
		}
	case *journaletv1.Event_AdmissionDecided:
		c.admissionDecided(when, k.AdmissionDecided)
	case *journaletv1.Event_ImagePullDecided:
		c.pullDecided(when, k.ImagePullDecided)
	case *journaletv1.Event_CallDispatched:
		c.callDispatched(when, k.CallDispatched)
	case *journaletv1.Event_CallDropped:
		c.callDropped(when, k.CallDropped.GetIntentId())
	default:
		if author.Kind == journaletv1.ActorKind_ACTOR_KIND_POD && c.open[author.ID] != nil {
			c.ofPod(when, c.open[author.ID], e)
		}
	}
}

// ofPod folds a decision of the pod whose start is s.
func (c *Collector) ofPod(when at, s *Start, e *journaletv1.Event) {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_ImagePullRequested:
		c.pullRequested(when, s, k.ImagePullRequested.GetImage())
	case *journaletv1.Event_ImagePullWithdrawn:
		s.close(when, s.find(Pull, k.ImagePullWithdrawn.GetImage()), Withdrawn)
	case *journaletv1.Event_ProbesSet:
		s.probesSet(when, k.ProbesSet)
	case *journaletv1.Event_ReadinessGatesSet:
		if s.gates = k.ReadinessGatesSet.GetTypes(); len(s.gates) > 0 {
			s.begin(when, Phase{Kind: Gates})
		}
	case *journaletv1.Event_PodStatusChanged:
		c.statusChanged(when, s, k.PodStatusChanged)
	case *journaletv1.Event_PodTerminating:
		c.end(when, s.UID, Ended, k.PodTerminating.GetReason(), k.PodTerminating.GetMessage())
	case *journaletv1.Event_PodTerminated, *journaletv1.Event_PodFinished:
		c.end(when, s.UID, Ended, "", "")
	}
}

// updated begins a start with an addition, and ends one with a removal.
func (c *Collector) updated(when at, k *journaletv1.PodUpdated) {
	uid := k.GetPod().GetUid()
	switch k.GetOperation() {
	case journaletv1.PodOperation_POD_OPERATION_ADD:
		c.end(when, uid, Ended, "Replaced", "added again")
		c.start(when, uid, k.GetPod().GetNamespace(), k.GetPod().GetName(), k.GetPod().GetDigest()).Source = k.GetSource()
	case journaletv1.PodOperation_POD_OPERATION_UPDATE:
		if s := c.open[uid]; s != nil {
			s.Digest, s.LastSeq = k.GetPod().GetDigest(), when.seq
		}
	case journaletv1.PodOperation_POD_OPERATION_REMOVE:
		c.end(when, uid, Ended, "Removed", "removed from its source")
	}
}

func (c *Collector) start(when at, uid, namespace, name, digest string) *Start {
	s := &Start{UID: uid, Namespace: namespace, Name: name, Digest: digest,
		Begin: when.time, BeginSeq: when.seq, LastSeq: when.seq, seen: map[string]observation{}}
	c.open[uid] = s
	s.begin(when, Phase{Kind: Admission})
	return s
}

// end ends the start of a pod, if it is open.
func (c *Collector) end(when at, uid string, outcome Outcome, reason, message string) {
	s := c.open[uid]
	if s == nil {
		return
	}
	delete(c.open, uid)
	for _, p := range s.Phases {
		s.close(when, p, Unfinished)
	}
	s.End, s.EndSeq, s.LastSeq = later(when.time, s.Begin), when.seq, when.seq
	s.Outcome, s.Reason, s.Message = outcome, reason, message
	c.ended = append(c.ended, s)
}

// admissionRequested begins a start if the request is of an incarnation that no addition began: an update that is
// another incarnation of the pod.
func (c *Collector) admissionRequested(when at, k *journaletv1.AdmissionRequested) {
	s := c.open[k.GetUid()]
	if s != nil && s.Incarnation != 0 && s.Incarnation != k.GetIncarnation() && s.find(Admission, "") == nil {
		c.end(when, k.GetUid(), Ended, "Replaced", "another incarnation follows")
		s = nil
	}
	if s == nil {
		s = c.start(when, k.GetUid(), k.GetNamespace(), k.GetName(), k.GetDigest())
	}
	s.Incarnation, s.LastSeq = k.GetIncarnation(), when.seq
}

// waits notes why a pod is not admitted yet.
func (c *Collector) waits(when at, uid, reason, message string) {
	if s := c.open[uid]; s != nil {
		if p := s.find(Admission, ""); p != nil {
			p.Reason, p.Message, s.LastSeq = reason, message, when.seq
		}
	}
}

func (c *Collector) admissionDecided(when at, k *journaletv1.AdmissionDecided) {
	s := c.open[k.GetUid()]
	if s == nil || s.Incarnation != k.GetIncarnation() {
		return
	}
	if k.GetAdmitted() && k.GetReason() != "" {
		delete(c.open, k.GetUid()) // it runs already, and is left alone
		return
	}
	p := s.find(Admission, "")
	if p == nil {
		return
	}
	if k.GetAdmitted() {
		s.close(when, p, Done)
		return
	}
	p.Reason, p.Message = k.GetReason(), k.GetMessage()
	s.close(when, p, Failed)
	c.end(when, s.UID, Rejected, k.GetReason(), k.GetMessage())
}

// statusChanged ends a start whose pod is ready, or has ended before.
func (c *Collector) statusChanged(when at, s *Start, k *journaletv1.PodStatusChanged) {
	switch k.GetPhase() {
	case journaletv1.PodPhase_POD_PHASE_RUNNING:
		if s.RunningSeq == 0 {
			s.Running, s.RunningSeq, s.LastSeq = when.time, when.seq, when.seq
		}
	case journaletv1.PodPhase_POD_PHASE_SUCCEEDED:
		c.end(when, s.UID, Succeeded, k.GetReason(), k.GetMessage())
	case journaletv1.PodPhase_POD_PHASE_FAILED:
		c.end(when, s.UID, Failed, k.GetReason(), k.GetMessage())
	}
	for _, name := range slices.Sorted(maps.Keys(k.GetWaiting())) {
		waiting := k.GetWaiting()[name]
		if waiting.GetReason() == crashLoop && s.find(BackOff, name) == nil {
			s.begin(when, Phase{Kind: BackOff, Container: name, Reason: crashLoop, Message: waiting.GetMessage()})
		}
		s.awaitsObject(when, name, waiting)
	}
	for _, cond := range k.GetConditions() {
		if cond.GetType() == "Ready" && cond.GetStatus() {
			c.end(when, s.UID, Ready, "", "")
		}
	}
}

// crashLoop is the reason of a container that waits for the end of its back-off.
const crashLoop = "CrashLoopBackOff"

func later(t, than time.Time) time.Time {
	if t.Before(than) {
		return than
	}
	return t
}
