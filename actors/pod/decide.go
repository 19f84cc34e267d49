package pod

import (
	"time"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// orphanWait is how long such a pod is left alone at least. Sources are read within a second of a start; the
// rest is for a folder that is mounted late.
const orphanWait = 60 * time.Second

// step is one Decide: what it looks at, and where its decisions go.
type step struct {
	*actor
	in   actors.Input
	now  time.Time
	emit actors.Emit
}

// actor lets a step use the actor's readings by their short names.
type actor = Actor

// Decide says what follows from the state.
func (a *Actor) Decide(in actors.Input, emit actors.Emit) error {
	d := &step{actor: a, in: in, now: in.Time, emit: emit}
	if err := d.releaseImages(in); err != nil {
		return err
	}
	if err := d.cutHooks(); err != nil {
		return err
	}
	// A decision may end a stage; what the next one asks for follows in the same step.
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
	if a.state.GetStage() == finished || a.state.GetPod() == nil {
		return nil
	}
	return d.tellStatus()
}

// releaseImages gives up what an earlier manifest of the pod asked for: the image actor would go on
// trying to pull it for good.
func (d *step) releaseImages(in actors.Input) error {
	for _, e := range in.Events {
		r := e.Body.GetImagePullDecided()
		if r.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED || d.asks(r.GetImage()) {
			continue
		}
		if err := d.emit(&journaletv1.Event{Kind: &journaletv1.Event_ImagePullWithdrawn{
			ImagePullWithdrawn: &journaletv1.ImagePullWithdrawn{Uid: d.self.ID, Image: r.GetImage()},
		}}); err != nil {
			return err
		}
	}
	return nil
}

// asks tells whether a container of the pod waits for an image.
func (d *step) asks(image string) bool {
	for c := range d.all() {
		if c.Image == image && d.record(c.Name).GetImageRequested() {
			return true
		}
	}
	return false
}

func (d *step) stage(s journaletv1.PodStage) error {
	switch s {
	case unknown:
		return d.unnamed()
	case admitting:
		return d.ask()
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

// unnamed waits for a source to name the pod, and then tells the node that none has.
func (d *step) unnamed() error {
	switch {
	case d.state.GetOrphanFoundAt() != nil:
		return nil
	case !d.state.GetOrphanGraceOver():
		return d.timer(orphanTimer, orphanWait)
	}
	return d.emit(&journaletv1.Event{Kind: &journaletv1.Event_OrphanFound{OrphanFound: &journaletv1.OrphanFound{Uid: d.self.ID}}})
}

// ask asks the node for admission, once.
func (d *step) ask() error {
	if d.state.GetAdmissionRequested() {
		return nil
	}
	if err := d.clearTimer(orphanTimer); err != nil {
		return err
	}
	q := Question(d.state.GetPod(), d.wanted)
	q.Incarnation = d.in.Seq
	return d.emit(&journaletv1.Event{Kind: &journaletv1.Event_AdmissionRequested{AdmissionRequested: q}})
}

// call requests one call for this pod.
func (d *step) call(req *journaletv1.CallRequested) error {
	req.PodUid = d.self.ID
	return d.emit(&journaletv1.Event{Kind: &journaletv1.Event_CallRequested{CallRequested: req}})
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
