package start

import (
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Kind is what a phase of a start was spent on.
type Kind string

// The kinds of phases, about in their order within a start.
const (
	// Admission lasts from the pod's addition until the node admits or rejects it. Waiting for another pod's name or for
	// the victims of a preemption is part of it.
	Admission Kind = "admission"
	// Objects lasts while a volume of the pod, or the environment of a container, waits for an object that is missing. Its
	// message names the object.
	Objects Kind = "objects"
	// Volumes is the setup of the pod's volumes.
	Volumes Kind = "volumes"
	// Sandbox is the creation of the pod's sandbox.
	Sandbox Kind = "sandbox"
	// Pull is one attempt to pull one image; an attempt after a failed one includes the back-off before it.
	Pull Kind = "pull"
	// Create is the creation of one instance of a container.
	Create Kind = "create"
	// StartContainer is the start of a created instance, or its creation and its start (Phase.SplitSeq).
	StartContainer Kind = "start"
	// Observe lasts from the end of a container's start until an observation shows the instance.
	Observe Kind = "observe"
	// Init is the run of an init container, from its start until it is observed to have exited. A sidecar has none, once
	// the container after it starts.
	Init Kind = "init"
	// Hook is a postStart hook.
	Hook Kind = "hook"
	// Probe lasts from the first run of a startup or readiness probe until it succeeds or is given up.
	Probe Kind = "probe"
	// Gates lasts until all readiness gates of the pod are True.
	Gates Kind = "gates"
	// BackOff is the delay before a container that has ended is started again.
	BackOff Kind = "back-off"
)

// Outcome is how a phase or a start ended.
type Outcome string

// The outcomes of phases and starts.
const (
	// Open has not ended. Only an open start has open phases.
	Open Outcome = ""
	// Done is a phase that reached what it was for.
	Done Outcome = "done"
	// Failed is a phase that failed, or a start whose pod failed.
	Failed Outcome = "failed"
	// ImageMissing is a creation that did not find its image on the node: a pull follows. It is no failure.
	ImageMissing Outcome = "image missing"
	// Withdrawn is a phase that was given up before it ended, or that a restart of the agent interrupted.
	Withdrawn Outcome = "withdrawn"
	// Unfinished is a phase that had not ended when its start did, and ends with it.
	Unfinished Outcome = "unfinished"
	// Ready is a start whose pod became ready.
	Ready Outcome = "ready"
	// Succeeded is a start whose pod ran to its end before it was ever ready.
	Succeeded Outcome = "succeeded"
	// Rejected is a start that the node rejected.
	Rejected Outcome = "rejected"
	// Ended is a start whose pod was removed, preempted or terminated before it was ready.
	Ended Outcome = "ended"
)

// Phase is one piece of a start. Phases of one start may overlap, and there may be time that is in none.
type Phase struct {
	Kind Kind
	// Container is empty for phases of the pod as a whole and for pulls, which serve every container of the image.
	Container string
	// Attempt is the number of the sandbox or of the container's instance.
	Attempt uint32
	// Image is set for pulls only, as the manifest names it; Bytes is its size once it is pulled.
	Image string
	Bytes int64
	// ProbeKind is set for probes only: startup or readiness.
	ProbeKind journaletv1.ProbeKind

	// Begin is the time of the record BeginSeq, End the time of EndSeq, never before Begin. End is zero while the phase
	// is open.
	Begin, End       time.Time
	BeginSeq, EndSeq uint64
	// Dispatched is when the call of this phase was first handed to the driver; until then it waited for a slot. Zero
	// without a call. A pull that the request of another pod had started before is dispatched at Begin, by an older
	// record.
	Dispatched    time.Time
	DispatchedSeq uint64
	// Intent is the id of the call's intent; empty without a call.
	Intent string
	// InDoubt reports that the agent restarted during the call, and inspected the runtime before it continued.
	InDoubt bool
	// SplitSeq is set where one call created and started the container: the end of Create, which is the begin of
	// StartContainer, is the runtime's time of creation in this observation. Both have the records of the call. Without
	// such an observation, StartContainer is all of the call.
	SplitSeq uint64
	// ContainerID and SandboxID are what the call created, or what the phase is about.
	ContainerID, SandboxID string

	Outcome Outcome
	// Reason and Message are set by a failure, and for what an open phase waits for. Message may hold a text of the
	// runtime, of a registry or of a probe.
	Reason, Message string

	init bool // of an init container
	both bool // one call that creates and starts
}

// Took returns the phase's duration; for an open phase, the duration until at.
func (p *Phase) Took(at time.Time) time.Duration {
	if p.Outcome != Open {
		at = p.End
	}
	return max(0, at.Sub(p.Begin))
}

// Waited returns how long the phase's call waited for a slot; 0 without a call. at counts while it still waits.
func (p *Phase) Waited(at time.Time) time.Duration {
	switch {
	case p.Intent == "":
		return 0
	case p.DispatchedSeq > 0:
		at = p.Dispatched
	case p.Outcome != Open:
		at = p.End
	}
	return max(0, at.Sub(p.Begin))
}

// Start is the start of one incarnation of a pod.
type Start struct {
	UID, Namespace, Name string
	Source               string
	// Digest is of the newest manifest.
	Digest string
	// Incarnation is AdmissionRequested.incarnation; 0 until the pod has requested its admission.
	Incarnation uint64

	// Begin is the time of the record BeginSeq, which added the pod, or began this incarnation of it. End is zero while
	// the start is open, and never before Begin.
	Begin, End       time.Time
	BeginSeq, EndSeq uint64
	// Running is when the pod's phase became Running; zero if it never did.
	Running    time.Time
	RunningSeq uint64
	// LastSeq is the newest record of the start.
	LastSeq uint64

	Outcome Outcome
	// Reason and Message are the pod's or the node's, for a start that did not lead to a ready pod.
	Reason, Message string

	// Phases are in the order of their beginnings, at most MaxPhases of them; Dropped is how many more there were.
	Phases  []*Phase
	Dropped int

	gates []string               // types of the readiness gates
	seen  map[string]observation // by container id
	lacks bool                   // an object that it refers to is not there, required or not
}

// MaxPhases bounds the phases that are kept of one start: a pod that never becomes ready restarts its containers for as
// long as it exists.
const MaxPhases = 1000

// Took returns how long the start took; of an open one until at.
func (s *Start) Took(at time.Time) time.Duration {
	if s.Outcome != Open {
		at = s.End
	}
	return max(0, at.Sub(s.Begin))
}
