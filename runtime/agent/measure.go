package agent

import (
	"errors"
	"time"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/kind"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// measureStored counts what a stored record has of pods.
func (a *agent) measureStored(rec *journaletv1.Record) {
	a.measureWork(rec)
	at := rec.GetTime().AsTime()
	if o := rec.GetFact().GetPodObserved(); o != nil {
		a.measureObserved(at, o)
	}
	for _, e := range rec.GetStep().GetDecisions() {
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_PodUpdated:
			a.measureUpdate(rec, k.PodUpdated)
		case *journaletv1.Event_AdmissionDecided:
			if !k.AdmissionDecided.GetAdmitted() {
				a.metrics.Rejected(k.AdmissionDecided.GetReason())
			}
		case *journaletv1.Event_PodTerminating:
			if reason := k.PodTerminating.GetReason(); reason == pod.ReasonAttachLimit {
				a.metrics.Rejected(reason)
			}
		case *journaletv1.Event_PodStatusChanged:
			a.measureStatus(rec, k.PodStatusChanged)
		case *journaletv1.Event_ImagePullRequested:
			a.starting[k.ImagePullRequested.GetUid()].pullRequested(at, k.ImagePullRequested.GetImage())
		case *journaletv1.Event_ImagePullWithdrawn:
			a.starting[k.ImagePullWithdrawn.GetUid()].pullEnded(at, k.ImagePullWithdrawn.GetImage(), 0)
		case *journaletv1.Event_ImagePullDecided:
			p := k.ImagePullDecided
			a.starting[p.GetUid()].pullEnded(at, p.GetImage(), p.GetDuration().AsDuration())
		case *journaletv1.Event_OrphanFound:
			a.metrics.OrphanFound()
		case *journaletv1.Event_PodEvictionDecided:
			if signal := k.PodEvictionDecided.GetSignal(); signal != "" {
				a.metrics.Evicted(signal)
			}
		}
	}
}

func (a *agent) measureUpdate(rec *journaletv1.Record, u *journaletv1.PodUpdated) {
	uid := u.GetPod().GetUid()
	switch u.GetOperation() {
	case journaletv1.PodOperation_POD_OPERATION_ADD:
		a.starting[uid] = newPodStart(rec.GetTime().AsTime(), u.GetPod())
	case journaletv1.PodOperation_POD_OPERATION_REMOVE:
		delete(a.starting, uid)
	}
}

func (a *agent) measureStatus(rec *journaletv1.Record, s *journaletv1.PodStatusChanged) {
	uid := messages.RefOf(rec.GetActor()).ID
	start := a.starting[uid]
	if start == nil || s.GetPhase() <= journaletv1.PodPhase_POD_PHASE_PENDING {
		return
	}
	if !start.ran && s.GetPhase() == journaletv1.PodPhase_POD_PHASE_RUNNING {
		a.metrics.PodRan(max(0, rec.GetTime().AsTime().Sub(start.added))) // the clock may have been set back
	}
	start.ran = true
	if s.GetPhase() != journaletv1.PodPhase_POD_PHASE_RUNNING {
		start.sli = nil // it has ended
	}
	a.endStart(uid, start)
}

var errFailed = errors.New("failed")

// measureCall counts a finished call to the runtime. One that neither succeeded nor failed, as it was withdrawn, or is
// repeated when its image is there, is an operation without an error, and starts nothing.
func (a *agent) measureCall(req *journaletv1.CallRequested, out *journaletv1.CallFinished, took time.Duration) {
	var err error
	failed, succeeded := kind.Failed(out.GetError()), out.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	if failed {
		err = errFailed
	}
	a.metrics.Operation(calls.Operation(req), took, err)
	switch w := req.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		if failed || succeeded {
			a.metrics.PodStarted(w.RunSandbox.GetUserNamespace() != nil, failed)
		}
	case *journaletv1.CallRequested_StartContainer:
		if failed || succeeded {
			a.measureStart(w.StartContainer, out.GetError())
		}
	case *journaletv1.CallRequested_PullImage:
		if succeeded {
			a.metrics.ImagePulled(out.GetImageBytes(), took)
		}
	}
}

// measureStart counts a start of a container that succeeded or failed. One that was divided into parts counts with its
// last part, or where it fails.
func (a *agent) measureStart(s *journaletv1.StartContainer, failure journaletv1.CallError) {
	kind, code := "container", ""
	switch {
	case s.GetInit():
		kind = "init_container"
	case s.GetEphemeral():
		kind = "ephemeral_container"
	}
	switch failure {
	case journaletv1.CallError_CALL_ERROR_UNSPECIFIED:
		if s.GetPart() == journaletv1.StartPart_START_PART_CREATE {
			return
		}
	case journaletv1.CallError_CALL_ERROR_IMAGE_INSPECT:
		code = "ImageInspectError"
	case journaletv1.CallError_CALL_ERROR_INVALID_IMAGE_NAME:
		code = "InvalidImageName"
	case journaletv1.CallError_CALL_ERROR_CONFIG:
		code = "CreateContainerConfigError"
	case journaletv1.CallError_CALL_ERROR_CREATE:
		code = "CreateContainerError"
	default:
		code = "RunContainerError"
	}
	a.metrics.ContainerStarted(kind, code)
}

// cgroupVersion returns the version of the machine's cgroups.
func cgroupVersion() int {
	if cgroup.V2() {
		return 2
	}
	return 1
}
