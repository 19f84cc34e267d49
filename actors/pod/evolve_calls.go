package pod

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// reasonChanged is the stop reason of a container that is restarted at once with its new definition.
const reasonChanged = "container definition changed"

// reasonUnknown is the stop reason of a container in an unknown state that is restarted whatever its exit code.
// reasonUnknownEnds is the stop reason if it is not restarted.
const reasonUnknown = "container is in an unknown state, it is started again"

// evolveCallRequested records a call as under way.
func (a *Actor) evolveCallRequested(e actors.Event, req *journaletv1.CallRequested) {
	s := a.state
	s.Calls[e.ID] = &journaletv1.PodCall{Request: req, RequestedAt: timestamppb.New(e.Time)}
	s.UsedRuntime = true
	switch w := req.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		a.evolvePodCreating()
	case *journaletv1.CallRequested_StopContainer:
		a.evolveStopRequested(w.StopContainer.GetContainer(), w.StopContainer.GetContainerId())
		switch w.StopContainer.GetReason() {
		case reasonChanged, reasonUnknown, reasonResize, reasonRestart:
			a.ensureRecord(w.StopContainer.GetContainer()).Replacing = true
		}
	case *journaletv1.CallRequested_StartContainer:
		r := a.ensureRecord(w.StartContainer.GetContainer())
		awaitNoImage(r) // a pull for another container is not for the start after this one
		if w.StartContainer.GetPart() != journaletv1.StartPart_START_PART_START {
			// A new instance is created with what is allocated. One that was created before keeps its record: other
			// resources may have been allocated since.
			r.Applied, r.Reported, r.Created, r.DevicesPrepared = nil, nil, nil, false
			evolveCreating(r, w.StartContainer.GetPlacement())
		}
	case *journaletv1.CallRequested_RemoveContainer:
		if w.RemoveContainer.GetKeepAsLast() {
			r := a.ensureRecord(w.RemoveContainer.GetContainer())
			r.Last = a.last(r)
		}
	case *journaletv1.CallRequested_RunHook:
		a.evolveHookRequested(e, w.RunHook)
	case *journaletv1.CallRequested_PrepareClaims:
		a.evolveInDoubt(w.PrepareClaims.GetClaims())
	case *journaletv1.CallRequested_UnprepareClaims:
		a.evolveInDoubt(w.UnprepareClaims.GetClaims())
	}
}

// evolveCallFinished folds the outcome of a call of this pod.
func (a *Actor) evolveCallFinished(e actors.Event, f *journaletv1.CallFinished) {
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
			a.evolveSandboxCreated(w.RunSandbox, f)
		} else {
			s.SandboxFailures++
			s.SandboxFailedAt = now
			a.evolveFailedSandbox(w.RunSandbox, f)
		}
	case *journaletv1.CallRequested_SetUpVolumes:
		a.evolveVolumesSetUp(e, call, f)
	case *journaletv1.CallRequested_AllocateDevices:
		a.evolveAllocated(e, w.AllocateDevices, f)
	case *journaletv1.CallRequested_PreStartContainer:
		a.evolvePreStarted(e, w.PreStartContainer, f)
	case *journaletv1.CallRequested_ReadClaims:
		a.evolveClaimsRead(e, f)
	case *journaletv1.CallRequested_PrepareClaims, *journaletv1.CallRequested_UnprepareClaims:
		a.evolveClaimOutcomes(e, f)
	case *journaletv1.CallRequested_StartContainer:
		a.evolveStarted(e, w.StartContainer, f, call.GetObjectsChanged())
	case *journaletv1.CallRequested_UpdateContainer:
		a.evolvePlaced(e, w.UpdateContainer, f)
		if w.UpdateContainer.GetResources() != nil {
			a.evolveResourcesApplied(e, w.UpdateContainer, f)
		}
	case *journaletv1.CallRequested_UpdateSandbox:
		a.evolvePodResourcesApplied(e, w.UpdateSandbox, f)
	case *journaletv1.CallRequested_RunHook:
		a.evolveHookFinished(w.RunHook, f)
	case *journaletv1.CallRequested_StopContainer:
		if ok {
			a.markStopped(w.StopContainer.GetContainer(), w.StopContainer.GetContainerId())
		}
	case *journaletv1.CallRequested_StopSandbox:
		if ok {
			a.markSandboxDead(w.StopSandbox.GetSandboxId())
			a.keepStopped(w.StopSandbox.GetSandboxId())
		}
	case *journaletv1.CallRequested_RemoveContainer:
		if ok {
			a.dropContainer(w.RemoveContainer.GetContainerId())
			a.keepRemoved(w.RemoveContainer.GetContainerId())
		}
	case *journaletv1.CallRequested_RemoveSandbox:
		if ok {
			a.keepRemovedSandbox(w.RemoveSandbox.GetSandboxId())
			a.dropSandbox(w.RemoveSandbox.GetSandboxId())
		}
	case *journaletv1.CallRequested_CleanPod:
		a.evolveCleaned(e, w.CleanPod, f)
	}
	if f.GetError() != journaletv1.CallError_CALL_ERROR_WITHDRAWN {
		a.evolveTearDown(call.GetRequest(), ok, now)
	}
}

// shownDead reports whether a sandbox is observed that is no longer ready.
func (a *Actor) shownDead(id string) bool {
	return slices.ContainsFunc(a.state.GetObserved().GetSandboxes(), func(x *journaletv1.SandboxObservation) bool {
		return x.GetId() == id && !isReady(x)
	})
}

func (a *Actor) evolveSandboxCreated(w *journaletv1.RunSandbox, f *journaletv1.CallFinished) {
	s := a.state
	s.SandboxId, s.SandboxFailures, s.NameHolderUid = f.GetSandboxId(), 0, ""
	if s.GetFreshUserNamespace() {
		s.CreatedSandboxId = f.GetSandboxId()
	}
	s.NextSandboxAttempt, s.SandboxCreatedAt = w.GetAttempt()+1, f.GetEndedAt()
	if a.shownDead(f.GetSandboxId()) {
		s.SandboxId = "" // no observation will report it again
	}
	a.resetStartFailures()
}

// evolveFailedSandbox folds that a failed call left a sandbox that can run nothing. This sandbox is to be removed, and
// the next sandbox gets the next attempt number.
func (a *Actor) evolveFailedSandbox(w *journaletv1.RunSandbox, f *journaletv1.CallFinished) {
	if f.GetSandboxId() == "" {
		return
	}
	a.state.SandboxId, a.state.NextSandboxAttempt = f.GetSandboxId(), w.GetAttempt()+1
	a.markSandboxDead(f.GetSandboxId())
}

// evolveTearDown counts failures of the calls that take a pod down. They share one delay.
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

// evolveStarted folds the outcome of a start. A started container counts as running until it is observed, so that
// nothing is started twice while the observation is on its way. changed reports whether an object of the pod has
// changed since the request: it may be why the container could not be configured.
func (a *Actor) evolveStarted(
	e actors.Event, w *journaletv1.StartContainer, f *journaletv1.CallFinished, changed bool,
) {
	r := a.ensureRecord(w.GetContainer())
	now := timestamppb.New(e.Time)
	r.ImageReady = false
	eachVolumeImage(r, func(v *journaletv1.VolumeImage) { v.Ready = false })
	a.evolveVolumesGone(f)
	if f.GetContainerId() != "" {
		r.NextAttempt = max(r.GetNextAttempt(), w.GetAttempt()+1)
	}
	if w.GetPart() == journaletv1.StartPart_START_PART_START {
		r.Created = nil
	}
	if spec := a.spec(w.GetContainer()); changed && spec != nil && len(a.usesOf(spec)) > 0 &&
		startError(f, false).GetReason() == reasonConfig {
		undoBackOff(r)
		return
	}
	switch f.GetError() {
	case journaletv1.CallError_CALL_ERROR_UNSPECIFIED:
		if w.GetPart() == journaletv1.StartPart_START_PART_CREATE {
			evolveCreated(r, w, f)
			return
		}
		r.StartFailures, r.StartError, r.ImageMissing, r.VolumeImages, r.NotRun, r.StartsNotRun = 0, nil, false, nil, nil, 0
		// An inspection may have shown it already, even before it was started.
		seen := r.GetCurrent().GetId() == f.GetContainerId() &&
			r.GetCurrent().GetState() != journaletv1.ContainerState_CONTAINER_STATE_CREATED
		switch {
		case seen:
			// It may have been observed as created, and have vanished since. It has run: the replacement is done.
			r.Replacing, r.RestartRequested = false, false
		case r.GetCurrent().GetAttempt() <= w.GetAttempt():
			a.setNewest(r, &journaletv1.ContainerObservation{
				Id: f.GetContainerId(), Name: w.GetContainer(), Attempt: w.GetAttempt(), SandboxId: w.GetSandboxId(),
				State: journaletv1.ContainerState_CONTAINER_STATE_RUNNING, CreatedAt: f.GetEndedAt(),
				ImageRef: f.GetImageRef(), IntentId: f.GetIntentId(),
			})
		}
	case journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT:
		a.evolveImageMissing(e, r, w, f)
	case journaletv1.CallError_CALL_ERROR_SANDBOX_GONE:
		a.markSandboxDead(w.GetSandboxId())
		if a.evolveNeverStarted(r, w, f) {
			return
		}
		undoBackOff(r)
	case journaletv1.CallError_CALL_ERROR_START_LOST:
		a.evolveStartLost(e, r, w)
	case journaletv1.CallError_CALL_ERROR_NOT_DONE:
		if w.GetPart() == journaletv1.StartPart_START_PART_START {
			a.evolveNotRun(r, w.GetContainerId(), w.GetAttempt())
			return
		}
		fallthrough
	default:
		a.evolveRefused(r, w, f)
		r.StartFailures++
		r.StartFailedAt, r.StartError = now, startError(f, false)
	}
}

// evolveImageMissing folds that a container was not started for want of an image.
func (a *Actor) evolveImageMissing(
	e actors.Event, r *journaletv1.ContainerRecord, w *journaletv1.StartContainer, f *journaletv1.CallFinished,
) {
	spec := a.spec(w.GetContainer())
	never := spec != nil && spec.ImagePullPolicy == corev1.PullNever
	if f.GetMissingVolumeImage() != "" {
		never = a.evolveVolumeImageMissing(r, f)
	} else {
		r.ImageMissing = true
	}
	r.StartError = startError(f, never)
	if f.GetMissingVolumeImage() == "" && w.GetPulledForStart() || never {
		r.StartFailures++
		r.StartFailedAt = timestamppb.New(e.Time)
	}
}

// setNewest records an instance as the newest one of its container. One that is merely created keeps Replacing set: if
// its start fails, the container is started again all the same.
func (a *Actor) setNewest(r *journaletv1.ContainerRecord, c *journaletv1.ContainerObservation) {
	if old := r.GetCurrent(); old.GetId() != c.GetId() {
		r.StoppedAsUnhealthy = false
		if exited(old) {
			r.Last = old
		}
	}
	if !isCreated(c) {
		r.Replacing, r.RestartRequested = false, false
	}
	r.Current = c
	r.NextAttempt = max(r.GetNextAttempt(), c.GetAttempt()+1)
}

// messageStartLost is the message of an instance that counts as having run.
const messageStartLost = "The container was being started when the connection to the runtime was lost, and the " +
	"runtime does not show that it has not run; it is not started again"

// evolveCreated folds that an instance was created.
func evolveCreated(r *journaletv1.ContainerRecord, w *journaletv1.StartContainer, f *journaletv1.CallFinished) {
	r.ImageMissing, r.VolumeImages = false, nil
	r.Created = &journaletv1.CreatedContainer{
		ContainerId: f.GetContainerId(), Attempt: w.GetAttempt(), SandboxId: w.GetSandboxId(),
	}
}

// evolveStartLost ends an instance that may have run.
func (a *Actor) evolveStartLost(e actors.Event, r *journaletv1.ContainerRecord, w *journaletv1.StartContainer) {
	cur := r.GetCurrent()
	if cur.GetAttempt() > w.GetAttempt() {
		return
	}
	gone := &journaletv1.ContainerObservation{
		Id: w.GetContainerId(), Name: w.GetContainer(), Attempt: w.GetAttempt(), SandboxId: w.GetSandboxId(),
		CreatedAt: timestamppb.New(e.Time),
	}
	if cur.GetId() == w.GetContainerId() {
		gone = proto.CloneOf(cur)
	}
	gone.State, gone.ExitCode = journaletv1.ContainerState_CONTAINER_STATE_EXITED, exitStatusUnknown
	gone.Reason, gone.Message, gone.FinishedAt = reasonStatusUnknown, messageStartLost, timestamppb.New(e.Time)
	r.StartFailures, r.StartError = 0, nil
	r.NotRun, r.StartsNotRun = nil, 0
	a.setNewest(r, gone)
	r.StoppedAsUnhealthy = true
}

// evolveNotRun drops an instance that has not run and is gone. The next one gets its attempt number, since the restart
// count counts restarts only. Where the number was reported already, the count stays (kubelet: the same). An instance
// that it was to replace is still replaced.
func (a *Actor) evolveNotRun(r *journaletv1.ContainerRecord, id string, attempt uint32) {
	a.dropContainer(id)
	if r.GetCurrent().GetId() == id {
		r.ReportedRestarts = max(r.GetReportedRestarts(), restarts(r))
		r.Current, r.Last = r.GetLast(), nil
	}
	r.Replacing = exited(r.GetCurrent())
	if r.GetCurrent().GetAttempt() <= attempt && r.GetNextAttempt() == attempt+1 {
		r.NextAttempt = attempt
	}
	undoBackOff(r)
}

// evolveNeverStarted folds that a call was to start an instance, or has created it, whose sandbox is gone: it has not
// run. dropped reports whether it was dropped, as it vanishes or has vanished. An inspection may show it once more.
func (a *Actor) evolveNeverStarted(
	r *journaletv1.ContainerRecord, w *journaletv1.StartContainer, f *journaletv1.CallFinished,
) (dropped bool) {
	cur := r.GetCurrent()
	switch w.GetPart() {
	case journaletv1.StartPart_START_PART_START:
		r.NeverStartedId = w.GetContainerId()
		dropped = cur.GetId() == w.GetContainerId() && (exited(cur) || isCreated(cur))
	case journaletv1.StartPart_START_PART_CREATE:
		// It was created while the outcome of its call was unknown.
		if cur.GetIntentId() != f.GetIntentId() || !exited(cur) && !isCreated(cur) {
			return false
		}
		r.NeverStartedId = cur.GetId()
		dropped = exited(cur)
	}
	if dropped {
		a.evolveNotRun(r, cur.GetId(), w.GetAttempt())
	}
	return dropped
}

// startError returns the container's reason for waiting after a failed start.
func startError(f *journaletv1.CallFinished, neverPull bool) *journaletv1.ContainerWaiting {
	w := &journaletv1.ContainerWaiting{Reason: "RunContainerError", Message: f.GetMessage()}
	switch f.GetError() {
	case journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT:
		w.Reason = reasonCreating
		if neverPull {
			w.Reason = reasonNeverPull
		}
	case journaletv1.CallError_CALL_ERROR_IMAGE_INSPECT:
		w.Reason = "ImageInspectError"
	case journaletv1.CallError_CALL_ERROR_INVALID_IMAGE_NAME:
		w.Reason = reasonInvalidImage
	case journaletv1.CallError_CALL_ERROR_CONFIG, journaletv1.CallError_CALL_ERROR_VOLUME:
		w.Reason = reasonConfig
	case journaletv1.CallError_CALL_ERROR_CREATE:
		w.Reason = "CreateContainerError"
	}
	return w
}

// The functions below carry the outcome of a call into the observation, without waiting for an inspection. The
// observation keeps the time of the last inspection: an inspection under way may show more than this call's effect, and
// is recorded but once. If it began before the call ended, it may bring back what is gone, unless that was removed
// (keepRemoved). At worst that leads to the same call again.

// markStopped folds that a stop has ended. Nothing of the container is alive, and its state is unknown until an
// inspection shows how it ended.
func (a *Actor) markStopped(name, id string) {
	o := a.changeObserved()
	i := slices.IndexFunc(o.Containers, func(c *journaletv1.ContainerObservation) bool { return c.GetId() == id })
	if i < 0 {
		cur := a.record(name).GetCurrent()
		if cur.GetId() != id {
			return
		}
		i = len(o.Containers)
		o.Containers = append(o.Containers, cur)
	}
	started := o.Containers[i].GetState() == journaletv1.ContainerState_CONTAINER_STATE_CREATED &&
		a.record(name).GetCurrent().GetId() == id && alive(a.record(name).GetCurrent())
	if !alive(o.Containers[i]) && !started {
		return
	}
	o.Containers[i] = proto.CloneOf(o.Containers[i])
	o.Containers[i].State = stoppedUnobserved
}

// markSandboxDead folds that a sandbox is stopped, or was found dead. Nothing starts in it any more, and it is removed
// even if no inspection has shown it.
func (a *Actor) markSandboxDead(id string) {
	s, o := a.state, a.changeObserved()
	for i, x := range o.Sandboxes {
		if x.GetId() == id {
			o.Sandboxes[i] = proto.CloneOf(x)
			o.Sandboxes[i].State = journaletv1.SandboxState_SANDBOX_STATE_NOT_READY
		}
	}
	if s.GetSandboxId() != id {
		return
	}
	s.SandboxId = ""
	if !slices.ContainsFunc(o.Sandboxes, func(x *journaletv1.SandboxObservation) bool { return x.GetId() == id }) {
		o.Sandboxes = append(o.Sandboxes, &journaletv1.SandboxObservation{
			Id: id, Attempt: max(1, s.GetNextSandboxAttempt()) - 1, State: journaletv1.SandboxState_SANDBOX_STATE_NOT_READY,
		})
	}
}

// keepStopped records that a sandbox was stopped, until an observation no longer has it. An observation does not show
// whether a dead sandbox still has its address.
func (a *Actor) keepStopped(id string) {
	if !slices.Contains(a.state.StoppedSandboxes, id) {
		a.state.StoppedSandboxes = append(a.state.StoppedSandboxes, id)
	}
}

// dropContainer takes a removed container out of the observation.
func (a *Actor) dropContainer(id string) {
	o := a.changeObserved()
	o.Containers = slices.DeleteFunc(o.Containers, func(c *journaletv1.ContainerObservation) bool {
		return c.GetId() == id
	})
}

// dropSandbox takes a removed sandbox and its containers out of the observation.
func (a *Actor) dropSandbox(id string) {
	if a.state.GetSandboxId() == id {
		a.state.SandboxId = ""
	}
	o := a.changeObserved()
	o.Sandboxes = slices.DeleteFunc(o.Sandboxes, func(x *journaletv1.SandboxObservation) bool { return x.GetId() == id })
	o.Containers = slices.DeleteFunc(o.Containers, func(c *journaletv1.ContainerObservation) bool {
		return c.GetSandboxId() == id
	})
}

// changeObserved replaces the observation by a copy that may be changed, and returns it. The message itself is shared.
func (a *Actor) changeObserved() *journaletv1.PodObserved {
	o := a.state.GetObserved()
	a.state.Observed = &journaletv1.PodObserved{
		Uid: a.self.ID, ObservedAt: o.GetObservedAt(),
		Sandboxes: slices.Clone(o.GetSandboxes()), Containers: slices.Clone(o.GetContainers()),
	}
	return a.state.Observed
}
