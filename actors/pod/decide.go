package pod

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// orphanTimer ends the wait for a source to name a pod that only the runtime shows. Then the pod is reported to the
// node.
const orphanTimer = "orphan"

// orphanWait is how long such a pod is left alone at least. Sources are read within a second of a start; the rest is
// for a directory that is mounted late.
const orphanWait = 60 * time.Second

// step is one Decide: its input, and where its decisions go.
type step struct {
	*actor
	in   actors.Input
	now  time.Time
	emit actors.Emit
	// hookAwaited names the container whose postStart hook the containers after it wait for, empty without one.
	hookAwaited string
}

// actor is embedded, so that a step reads the state by short names.
type actor = Actor

// Decide emits what follows from the state.
func (a *Actor) Decide(in actors.Input, emit actors.Emit) {
	d := &step{actor: a, in: in, now: in.Time, emit: emit}
	d.withdrawPulls(in)
	d.renewPulls()
	d.withdrawHooks()
	d.withdrawDevices()
	// A decision may end a stage. What the next stage requires follows in the same step.
	for {
		before := a.state.GetStage()
		d.runStage(before)
		if a.state.GetStage() == before {
			break
		}
	}
	d.setProbes(in)
	d.setGates()
	d.setObjects()
	if a.state.GetStage() == finished || a.state.GetPod() == nil {
		return
	}
	d.reportStatus()
}

// withdrawPulls withdraws what an earlier manifest of the pod requested. The image actor would otherwise try to pull it
// for good.
func (d *step) withdrawPulls(in actors.Input) {
	for _, e := range in.Events {
		r := e.Body.GetImagePullDecided()
		if r.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED || d.awaitsImage(r.GetImage()) {
			continue
		}
		d.decide(&journaletv1.ImagePullWithdrawn{Uid: d.self.ID, Image: r.GetImage()})
	}
}

// awaitsImage reports whether a container of the pod waits for an image.
func (d *step) awaitsImage(image string) bool {
	for c := range containers.All(d.manifest) {
		if slices.Contains(d.awaitedImages(c), image) {
			return true
		}
	}
	return false
}

// runStage decides what a pod in this stage requires.
func (d *step) runStage(s journaletv1.PodStage) {
	switch s {
	case unknown:
		d.reportOrphan()
	case admitting:
		d.requestAdmission()
	case runningPod:
		d.run()
	case terminating:
		d.terminate()
	case terminated:
		d.tearDown()
	case cleaning:
		d.clean()
	}
}

// reportOrphan waits for a source to name the pod, and reports to the node if none has.
func (d *step) reportOrphan() {
	switch {
	case d.state.GetOrphanFoundAt() != nil:
		return
	case !d.state.GetOrphanGraceOver():
		d.timer(orphanTimer, orphanWait)
	default:
		as := d.state.GetReportedAs()
		d.decide(&journaletv1.OrphanFound{Uid: d.self.ID, Namespace: as.GetNamespace(), Name: as.GetName()})
	}
}

// requestAdmission requests admission from the node, once.
func (d *step) requestAdmission() {
	if d.state.GetAdmissionRequested() {
		d.endWhileDeferred()
		return
	}
	d.clearTimer(orphanTimer)
	if d.awaitsInspection() {
		return
	}
	d.clearTimer(InspectionTimer)
	q := AdmissionRequest(d.state.GetPod(), d.desired)
	q.Incarnation, q.Runs = d.in.Seq, q.GetUnsupported() != "" && d.AnyAlive()
	d.decide(q)
}

// decide emits a decision: the event with this body.
func (d *step) decide(body proto.Message) { d.emit(messages.NewEvent(body)) }

// requestCall requests a call for this pod: the one with this work.
func (d *step) requestCall(work proto.Message) {
	call := messages.NewCall(work)
	call.PodUid = d.self.ID
	d.decide(call)
}

func (d *step) timer(name string, after time.Duration) {
	if ev := actors.SetTimer(d.state.GetTimers(), name, after); ev != nil {
		d.emit(ev)
	}
}

func (d *step) clearTimer(name string) {
	if ev := actors.ClearTimer(d.state.GetTimers(), name); ev != nil {
		d.emit(ev)
	}
}

// fired reports whether the step handles the end of a timer.
func (d *step) fired(timer string) bool {
	return slices.ContainsFunc(d.in.Events, func(e actors.Event) bool { return e.Body.GetTimerFired().GetName() == timer })
}
