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
}

// actor is embedded, so that a step reads the state by short names.
type actor = Actor

// Decide emits what follows from the state.
func (a *Actor) Decide(in actors.Input, emit actors.Emit) error {
	d := &step{actor: a, in: in, now: in.Time, emit: emit}
	if err := d.withdrawPulls(in); err != nil {
		return err
	}
	if err := d.renewPulls(); err != nil {
		return err
	}
	if err := d.withdrawHooks(); err != nil {
		return err
	}
	if err := d.withdrawDevices(); err != nil {
		return err
	}
	// A decision may end a stage. What the next stage requires follows in the same step.
	for {
		before := a.state.GetStage()
		if err := d.stage(before); err != nil {
			return err
		}
		if a.state.GetStage() == before {
			break
		}
	}
	if err := d.setProbes(in); err != nil {
		return err
	}
	if err := d.setGates(); err != nil {
		return err
	}
	if err := d.setObjects(); err != nil {
		return err
	}
	if a.state.GetStage() == finished || a.state.GetPod() == nil {
		return nil
	}
	return d.reportStatus()
}

// withdrawPulls withdraws what an earlier manifest of the pod requested. The image actor would otherwise try to pull it
// for good.
func (d *step) withdrawPulls(in actors.Input) error {
	for _, e := range in.Events {
		r := e.Body.GetImagePullDecided()
		if r.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED || d.awaitsImage(r.GetImage()) {
			continue
		}
		if err := d.decide(&journaletv1.ImagePullWithdrawn{Uid: d.self.ID, Image: r.GetImage()}); err != nil {
			return err
		}
	}
	return nil
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

func (d *step) stage(s journaletv1.PodStage) error {
	switch s {
	case unknown:
		return d.reportOrphan()
	case admitting:
		return d.requestAdmission()
	case runningPod:
		return d.run()
	case terminating:
		return d.terminate()
	case terminated:
		return d.tearDown()
	case cleaning:
		return d.clean()
	}
	return nil
}

// reportOrphan waits for a source to name the pod, and reports to the node if none has.
func (d *step) reportOrphan() error {
	switch {
	case d.state.GetOrphanFoundAt() != nil:
		return nil
	case !d.state.GetOrphanGraceOver():
		return d.timer(orphanTimer, orphanWait)
	}
	return d.decide(&journaletv1.OrphanFound{Uid: d.self.ID})
}

// requestAdmission requests admission from the node, once.
func (d *step) requestAdmission() error {
	if d.state.GetAdmissionRequested() {
		return d.endOnDrainedNode()
	}
	if err := d.clearTimer(orphanTimer); err != nil {
		return err
	}
	q := AdmissionRequest(d.state.GetPod(), d.desired)
	q.Incarnation = d.in.Seq
	return d.decide(q)
}

// decide emits a decision: the event with this body.
func (d *step) decide(body proto.Message) error { return d.emit(messages.NewEvent(body)) }

// requestCall requests a call for this pod: the one with this work.
func (d *step) requestCall(work proto.Message) error {
	call := messages.NewCall(work)
	call.PodUid = d.self.ID
	return d.decide(call)
}

func (d *step) timer(name string, after time.Duration) error {
	if ev := actors.SetTimer(d.state.GetTimers(), name, after); ev != nil {
		return d.emit(ev)
	}
	return nil
}

func (d *step) clearTimer(name string) error {
	if ev := actors.ClearTimer(d.state.GetTimers(), name); ev != nil {
		return d.emit(ev)
	}
	return nil
}

// fired reports whether the step handles the end of a timer.
func (d *step) fired(timer string) bool {
	return slices.ContainsFunc(d.in.Events, func(e actors.Event) bool { return e.Body.GetTimerFired().GetName() == timer })
}
