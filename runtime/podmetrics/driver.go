package podmetrics

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/kind"
	"github.com/journalet/journalet/runtime/api/monitoring"
	"github.com/journalet/journalet/runtime/calls"
)

// Driver measures pods. It implements drivers.Storer.
type Driver struct {
	metrics *monitoring.Metrics
	newest  func(uid string) *corev1.Pod
	// The goroutine that delivers records uses these.
	starting starting
	working  *working
}

// New returns a driver that adds to m. newest returns a pod's newest manifest, nil if it is not in memory.
func New(m *monitoring.Metrics, newest func(uid string) *corev1.Pod) *Driver {
	return &Driver{metrics: m, newest: newest, starting: starting{}, working: newWorking()}
}

// Name implements drivers.Driver.
func (*Driver) Name() string { return "metrics" }

// Stored counts what a stored record has of pods.
func (d *Driver) Stored(rec *journaletv1.Record) {
	d.measureWork(rec)
	at := rec.GetTime().AsTime()
	if o := rec.GetFact().GetPodObserved(); o != nil {
		d.measureObserved(at, o)
	}
	for _, e := range rec.GetStep().GetDecisions() {
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_PodUpdated:
			d.measureUpdate(rec, k.PodUpdated)
		case *journaletv1.Event_AdmissionDecided:
			if !k.AdmissionDecided.GetAdmitted() {
				d.metrics.Rejected(k.AdmissionDecided.GetReason())
			}
		case *journaletv1.Event_PodTerminating:
			if reason := k.PodTerminating.GetReason(); reason == pod.ReasonAttachLimit {
				d.metrics.Rejected(reason)
			}
		case *journaletv1.Event_PodStatusChanged:
			d.measureStatus(rec, k.PodStatusChanged)
		case *journaletv1.Event_ImagePullRequested:
			d.starting[k.ImagePullRequested.GetUid()].pullRequested(at, k.ImagePullRequested.GetImage())
		case *journaletv1.Event_ImagePullWithdrawn:
			d.starting[k.ImagePullWithdrawn.GetUid()].pullEnded(at, k.ImagePullWithdrawn.GetImage(), 0)
		case *journaletv1.Event_ImagePullDecided:
			p := k.ImagePullDecided
			d.starting[p.GetUid()].pullEnded(at, p.GetImage(), p.GetDuration().AsDuration())
		case *journaletv1.Event_OrphanFound:
			d.metrics.OrphanFound()
		case *journaletv1.Event_PodEvictionDecided:
			if signal := k.PodEvictionDecided.GetSignal(); signal != "" {
				d.metrics.Evicted(signal)
			}
		}
	}
}

func (d *Driver) measureUpdate(rec *journaletv1.Record, u *journaletv1.PodUpdated) {
	uid := u.GetPod().GetUid()
	switch u.GetOperation() {
	case journaletv1.PodOperation_POD_OPERATION_ADD:
		d.starting[uid] = newPodStart(rec.GetTime().AsTime(), u.GetPod())
	case journaletv1.PodOperation_POD_OPERATION_REMOVE:
		delete(d.starting, uid)
	}
}

func (d *Driver) measureStatus(rec *journaletv1.Record, s *journaletv1.PodStatusChanged) {
	uid := messages.RefOf(rec.GetActor()).ID
	start := d.starting[uid]
	if start == nil || s.GetPhase() <= journaletv1.PodPhase_POD_PHASE_PENDING {
		return
	}
	if !start.ran && s.GetPhase() == journaletv1.PodPhase_POD_PHASE_RUNNING {
		d.metrics.PodRan(max(0, rec.GetTime().AsTime().Sub(start.added))) // the clock may have been set back
	}
	start.ran = true
	if s.GetPhase() != journaletv1.PodPhase_POD_PHASE_RUNNING {
		start.sli = nil // it has ended
	}
	d.endStart(uid, start)
}

var errFailed = errors.New("failed")

// CallFinished counts a finished call to the runtime. One that neither succeeded nor failed, as it was withdrawn, or is
// repeated when its image is there, is an operation without an error, and starts nothing.
func (d *Driver) CallFinished(req *journaletv1.CallRequested, out *journaletv1.CallFinished, took time.Duration) {
	var err error
	failed, succeeded := kind.Failed(out.GetError()), out.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	if failed {
		err = errFailed
	}
	d.metrics.Operation(calls.Operation(req), took, err)
	switch w := req.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		if failed || succeeded {
			d.metrics.PodStarted(w.RunSandbox.GetUserNamespace() != nil, failed)
		}
	case *journaletv1.CallRequested_StartContainer:
		if failed || succeeded {
			d.measureStart(w.StartContainer, out.GetError())
		}
	case *journaletv1.CallRequested_PullImage:
		if succeeded {
			d.metrics.ImagePulled(out.GetImageBytes(), took)
		}
	}
}

// measureStart counts a start of a container that succeeded or failed. One that was divided into parts counts with its
// last part, or where it fails.
func (d *Driver) measureStart(s *journaletv1.StartContainer, failure journaletv1.CallError) {
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
	d.metrics.ContainerStarted(kind, code)
}
