package podmetrics

import (
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Kinds of what a pod's actor has done, in the kubelet's words (pkg/kubelet/types: SyncPodType).
const (
	workCreate     = "create"
	workUpdate     = "update"
	workSync       = "sync"
	workTerminated = "terminated"
)

// working has what pods have under way. The goroutine that delivers records uses it. A pod takes part only while it has
// something under way, and until its next step: the step shows that the outcome led to nothing more.
type working struct {
	pods  map[string]*work
	calls map[string]string // the pod of each call, by the call's intent id
}

func newWorking() *working { return &working{pods: map[string]*work{}, calls: map[string]string{}} }

// work is the time from what gave a pod something to do until it had nothing under way: the counterpart of one sync by
// a kubelet's pod worker, which waits for its calls.
type work struct {
	kind         string
	began, ended time.Time
	// calls are under way, so are the pulls of images; admitting: the node has not decided on the pod yet.
	calls     int
	pulls     map[string]bool
	admitting bool
	// seq is the record with the last outcome. What follows from it belongs to the same work.
	seq uint64
}

func (w *work) idle() bool { return w.calls == 0 && len(w.pulls) == 0 && !w.admitting }

// measureWork follows the pods' work through a record.
func (d *Driver) measureWork(rec *journaletv1.Record) {
	if f := rec.GetFact().GetCallFinished(); f != nil {
		d.working.callEnded(rec, f.GetIntentId())
	}
	author := messages.RefOf(rec.GetActor())
	step := rec.GetStep()
	if step != nil && author.Kind == journaletv1.ActorKind_ACTOR_KIND_POD {
		d.measureStep(rec, author)
		return
	}
	for _, e := range step.GetDecisions() {
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_PodUpdated:
			kind := workUpdate
			if k.PodUpdated.GetOperation() == journaletv1.PodOperation_POD_OPERATION_ADD {
				kind = workCreate
			}
			d.begin(rec, k.PodUpdated.GetPod().GetUid(), kind).outcome(rec)
		case *journaletv1.Event_PodForgotten:
			d.end(k.PodForgotten.GetUid())
		case *journaletv1.Event_AdmissionDecided:
			if w := d.working.pods[k.AdmissionDecided.GetUid()]; w != nil {
				w.admitting = false
				w.outcome(rec)
			}
			if !k.AdmissionDecided.GetAdmitted() { // a kubelet's worker never sees such a pod
				delete(d.working.pods, k.AdmissionDecided.GetUid())
			}
		case *journaletv1.Event_ImagePullDecided:
			if w := d.working.pods[k.ImagePullDecided.GetUid()]; w != nil {
				delete(w.pulls, k.ImagePullDecided.GetImage())
				w.outcome(rec)
			}
		case *journaletv1.Event_CallDropped:
			d.working.callEnded(rec, k.CallDropped.GetIntentId())
		}
	}
}

// measureStep follows what a pod requests.
func (d *Driver) measureStep(rec *journaletv1.Record, author messages.Ref) {
	step := rec.GetStep()
	if w := d.working.pods[author.ID]; w != nil && w.idle() && step.GetCause() > w.seq {
		d.end(author.ID)
	}
	for i, e := range step.GetDecisions() {
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_CallRequested:
			index := int(step.GetOffset()) + i
			d.working.calls[messages.DecisionID(rec.GetEpoch(), step.GetCause(), author, index)] = author.ID
			d.begin(rec, author.ID, workSync).calls++
		case *journaletv1.Event_ImagePullRequested:
			d.begin(rec, author.ID, workSync).pulls[k.ImagePullRequested.GetImage()] = true
		case *journaletv1.Event_ImagePullWithdrawn:
			if w := d.working.pods[author.ID]; w != nil {
				delete(w.pulls, k.ImagePullWithdrawn.GetImage())
				w.outcome(rec)
			}
		case *journaletv1.Event_AdmissionRequested:
			d.begin(rec, author.ID, workCreate).admitting = true
		case *journaletv1.Event_PodTerminated:
			d.terminated(rec, author.ID)
		case *journaletv1.Event_PodFinished: // no source forgets an orphan
			d.end(author.ID)
		}
	}
	if w := d.working.pods[author.ID]; w != nil && w.idle() && step.GetCause() == w.seq && !step.GetMore() {
		d.end(author.ID)
	}
}

// settled is after which time work that had nothing under way has ended: an actor handles a record within milliseconds,
// and decides nothing where it has nothing to say.
const settled = time.Second

// begin returns the work of a pod, which it begins unless the pod has something under way.
func (d *Driver) begin(rec *journaletv1.Record, uid, kind string) *work {
	at := rec.GetTime().AsTime()
	w := d.working.pods[uid]
	if w != nil && w.idle() && at.Sub(w.ended) > settled {
		d.end(uid)
		w = nil
	}
	if w == nil {
		w = &work{kind: kind, began: at, ended: at, pulls: map[string]bool{}}
		d.working.pods[uid] = w
	}
	return w
}

// terminated divides the work of a pod at the end of its last container: what follows cleans up. kubelet: the same.
func (d *Driver) terminated(rec *journaletv1.Record, uid string) {
	w := d.begin(rec, uid, workTerminated)
	if at := rec.GetTime().AsTime(); w.kind != workTerminated {
		d.metrics.PodWorked(w.kind, max(0, at.Sub(w.began)))
		w.kind, w.began, w.ended = workTerminated, at, at
	}
}

// outcome notes that something of the work has ended, which may lead to more.
func (w *work) outcome(rec *journaletv1.Record) {
	w.ended, w.seq = rec.GetTime().AsTime(), rec.GetSeq()
}

func (x *working) callEnded(rec *journaletv1.Record, id string) {
	uid, is := x.calls[id]
	if !is {
		return
	}
	delete(x.calls, id)
	if w := x.pods[uid]; w != nil && w.calls > 0 {
		w.calls--
		w.outcome(rec)
	}
}

// end measures the work of a pod.
func (d *Driver) end(uid string) {
	w := d.working.pods[uid]
	if w == nil {
		return
	}
	delete(d.working.pods, uid)
	d.metrics.PodWorked(w.kind, max(0, w.ended.Sub(w.began))) // the clock may have been set back
}
