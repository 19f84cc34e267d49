package pod

import (
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// reasonChanged is the stop reason of a container that is to be started again at once.
const reasonChanged = "container definition changed"

// evolveRequested keeps a call as under way.
func (a *Actor) evolveRequested(e actors.Event, req *journaletv1.CallRequested) {
	s := a.state
	s.Calls[e.ID] = &journaletv1.PodCall{Request: req, AskedAt: timestamppb.New(e.Time)}
	s.Touched = true
	switch w := req.GetWork().(type) {
	case *journaletv1.CallRequested_StopContainer:
		if w.StopContainer.GetReason() == reasonChanged {
			a.keep(w.StopContainer.GetContainer()).Replacing = true
		}
	case *journaletv1.CallRequested_StartContainer:
		a.keep(w.StartContainer.GetContainer()).Replacing = false
	}
}

// evolveFinished folds the outcome of a call of this pod.
func (a *Actor) evolveFinished(e actors.Event, f *journaletv1.CallFinished) {
	s := a.state
	call := s.Calls[f.GetIntentId()]
	if call == nil {
		return
	}
	delete(s.Calls, f.GetIntentId())
	ok := f.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	now := timestamppb.New(e.Time)
	switch w := call.GetRequest().GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		s.NextSandboxAttempt = max(s.NextSandboxAttempt, w.RunSandbox.GetAttempt())
		if ok {
			s.SandboxId, s.SandboxFailures, s.SandboxError = f.GetSandboxId(), 0, ""
			s.NextSandboxAttempt, s.SandboxMadeAt = w.RunSandbox.GetAttempt()+1, now
		} else {
			s.SandboxFailures++
			s.SandboxFailedAt, s.SandboxError = now, f.GetMessage()
		}
	case *journaletv1.CallRequested_SetUpVolumes:
		s.VolumesReady = ok
		s.VolumeError = f.GetMessage()
		if !ok {
			s.VolumeFailures++
			s.VolumeFailedAt = now
		}
	case *journaletv1.CallRequested_StartContainer:
		a.evolveStarted(e, w.StartContainer, f)
	case *journaletv1.CallRequested_RemoveContainer:
		if ok {
			a.dropContainer(w.RemoveContainer.GetContainerId(), now)
		}
	case *journaletv1.CallRequested_RemoveSandbox:
		if ok {
			a.dropSandbox(w.RemoveSandbox.GetSandboxId(), now)
		}
	case *journaletv1.CallRequested_CleanPod:
		s.CleanedVolumes = s.CleanedVolumes || ok
		s.CleanedAll = s.CleanedAll || ok && w.CleanPod.GetAll()
	}
	a.evolveTearDown(call.GetRequest(), ok, now)
}

// evolveTearDown counts failures of the calls that take a pod down: they share one delay.
func (a *Actor) evolveTearDown(req *journaletv1.CallRequested, ok bool, now *timestamppb.Timestamp) {
	switch req.GetWork().(type) {
	case *journaletv1.CallRequested_RemoveContainer, *journaletv1.CallRequested_RemoveSandbox,
		*journaletv1.CallRequested_StopSandbox, *journaletv1.CallRequested_StopContainer,
		*journaletv1.CallRequested_CleanPod:
		if ok {
			a.state.CleanFailures = 0
			return
		}
		a.state.CleanFailures++
		a.state.CleanFailedAt = now
	}
}

// evolveStarted folds the outcome of a start. A started container is taken to run until it is
// observed, so that nothing is started twice while the observation is on its way.
func (a *Actor) evolveStarted(e actors.Event, w *journaletv1.StartContainer, f *journaletv1.CallFinished) {
	r := a.keep(w.GetContainer())
	now := timestamppb.New(e.Time)
	r.ImageReady = false
	if f.GetContainerId() != "" {
		r.NextAttempt = max(r.GetNextAttempt(), w.GetAttempt()+1)
	}
	switch f.GetError() {
	case journaletv1.CallError_CALL_ERROR_UNSPECIFIED:
		r.StartFailures, r.StartError, r.ImageMissing = 0, nil, false
		if r.GetCurrent().GetId() != f.GetContainerId() && r.GetCurrent().GetAttempt() <= w.GetAttempt() {
			a.succeed(r, &journaletv1.ContainerObservation{
				Id: f.GetContainerId(), Name: w.GetContainer(), Attempt: w.GetAttempt(), SandboxId: w.GetSandboxId(),
				State: journaletv1.ContainerState_CONTAINER_STATE_RUNNING, CreatedAt: now,
				ImageRef: f.GetImageRef(), IntentId: f.GetIntentId(),
			})
		}
	case journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT:
		spec := a.spec(w.GetContainer())
		never := spec != nil && spec.ImagePullPolicy == corev1.PullNever
		r.ImageMissing, r.StartError = true, startError(f, never)
		if w.GetPulled() || never {
			r.StartFailures++
			r.StartFailedAt = now
		}
	case journaletv1.CallError_CALL_ERROR_SANDBOX_GONE:
		// The next observation tells; the sandbox id is given up so that nothing else starts in it.
		if a.state.GetSandboxId() == w.GetSandboxId() {
			a.state.SandboxId = ""
		}
	default:
		r.StartFailures++
		r.StartFailedAt, r.StartError = now, startError(f, false)
	}
}

// succeed makes an instance the newest one of its container.
func (a *Actor) succeed(r *journaletv1.ContainerRecord, c *journaletv1.ContainerObservation) {
	if old := r.GetCurrent(); old != nil && old.GetId() != c.GetId() && exited(old) {
		r.Last = old
	}
	r.Current = c
	r.NextAttempt = max(r.GetNextAttempt(), c.GetAttempt()+1)
}

// dropContainer takes a removed container out of what is observed, without waiting for a look.
func (a *Actor) dropContainer(id string, now *timestamppb.Timestamp) {
	o := a.state.Observed
	if o == nil {
		return
	}
	a.state.Observed = &journaletv1.PodObserved{
		Uid: o.GetUid(), ObservedAt: now, Sandboxes: o.GetSandboxes(),
		Containers: slices.DeleteFunc(slices.Clone(o.GetContainers()), func(c *journaletv1.ContainerObservation) bool {
			return c.GetId() == id
		}),
	}
}

// dropSandbox takes a removed sandbox and its containers out of what is observed. A look that began
// before the removal is older than this and does not bring them back.
func (a *Actor) dropSandbox(id string, now *timestamppb.Timestamp) {
	if a.state.GetSandboxId() == id {
		a.state.SandboxId = ""
	}
	o := a.state.Observed
	a.state.Observed = &journaletv1.PodObserved{
		Uid: a.self.ID, ObservedAt: now,
		Sandboxes: slices.DeleteFunc(slices.Clone(o.GetSandboxes()), func(x *journaletv1.SandboxObservation) bool {
			return x.GetId() == id
		}),
		Containers: slices.DeleteFunc(slices.Clone(o.GetContainers()), func(c *journaletv1.ContainerObservation) bool {
			return c.GetSandboxId() == id
		}),
	}
}
