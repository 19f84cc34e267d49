package why

import (
	"fmt"
	"slices"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/kind"
)

// EndKind is what a chain of causes ends with: what the fact from outside is, or why the chain goes no further.
type EndKind string

// Facts from outside: the agent did nothing that led to them.
const (
	// Manifest is what a source was read to hold.
	Manifest EndKind = "manifest"
	// Exit is a container that ended by itself.
	Exit EndKind = "exit"
	// Gone is a container or sandbox that ended or vanished without a call of the agent.
	Gone EndKind = "gone"
	// Found is anything else that the runtime showed without a call of the agent in this journal, such as the
	// containers of a lost journal.
	Found EndKind = "found"
	// Probe is a probe's result.
	Probe EndKind = "probe"
	// Failure is a call that failed: what the runtime, a registry, a volume or a hook responded.
	Failure EndKind = "failure"
	// Health is a change of the runtime's health.
	Health EndKind = "health"
	// Gates is a change of the conditions of readiness gates.
	Gates EndKind = "readiness-gates"
	// Object is a change of an object that a pod refers to, or its first read.
	Object EndKind = "object"
	// Pressure is a threshold of eviction that the node meets.
	Pressure EndKind = "pressure"
	// Storage is a limit of ephemeral storage that a pod exceeds.
	Storage EndKind = "storage"
	// OutOfMemory is a process that the kernel killed for lack of memory.
	OutOfMemory EndKind = "out-of-memory"
	// Mount is a volume that is no longer mounted, a directory of a pod that nothing names, or a cgroup that is gone.
	Mount EndKind = "mount"
	// Device is what a device plugin offers or prefers, or a DRA driver reports.
	Device EndKind = "device"
	// Session is what a client did in a pod.
	Session EndKind = "session"
	// Operator is a request of an operator: a restart, a drain, a pull, a removal.
	Operator EndKind = "operator"
	// Shutdown is a shutdown of the machine.
	Shutdown EndKind = "shutdown"
	// Cluster is what the API server answered, or has of this node.
	Cluster EndKind = "cluster"
	// Images is a change of the images on the node, or that their file system is nearly full.
	Images EndKind = "images"
	// Log is a log that was rotated, or could not be.
	Log EndKind = "log"
	// Deadline is a pod's active deadline that has passed.
	Deadline EndKind = "deadline"
	// Progress is the progress of a pull.
	Progress EndKind = "progress"
	// Started is a start of the agent, Stopped its clean stop.
	Started EndKind = "agent-start"
	Stopped EndKind = "agent-stop"
	// Lift is the end of a quarantine.
	Lift EndKind = "lift"
	// Damage is damage of the journal, Defect the failure of an actor.
	Damage EndKind = "damage"
	Defect EndKind = "defect"
)

// Ends of chains that lead no further.
const (
	// Cut is a record that retention has cut, or that a bundle is written without; the state after it is in a snapshot.
	Cut EndKind = "cut"
	// Lost is a record that was lost with an earlier journal, or to damage.
	Lost EndKind = "lost"
	// Limit is where the query has read as many records as it may.
	Limit EndKind = "limit"
	// Unknown is an event of a newer version, or of a journal that does not follow the contract.
	Unknown EndKind = "unknown"
)

// Outside reports whether the chain ends with a fact from outside.
func (k EndKind) Outside() bool { return !slices.Contains([]EndKind{Cut, Lost, Limit, Unknown}, k) }

// End is the end of a chain.
type End struct {
	Kind EndKind `json:"kind"`
	// Seq is the record with the fact; of Cut the first record that is missing; else where the chain broke off.
	Seq uint64 `json:"seq"`
	// Snapshot is the barrier of the snapshots that hold the state at a cut; 0 without such snapshots.
	Snapshot uint64 `json:"snapshot,omitempty"`
	// Text is the end in words.
	Text string `json:"text"`
}

// outside returns the end of a chain at e if it is a fact that needs no cause, whatever followed from it.
func (x *explainer) outside(e Event) *End {
	is := EndKind("")
	switch k := e.Body.GetKind().(type) {
	case *journaletv1.Event_ManifestsRead:
		is = Manifest
	case *journaletv1.Event_ProbeResult:
		is = Probe
	case *journaletv1.Event_ReadinessGatesRead:
		is = Gates
	case *journaletv1.Event_ObjectsRead:
		is = Object
	case *journaletv1.Event_StorageExceeded:
		is = Storage
	case *journaletv1.Event_PressureObserved:
		is = Pressure
	case *journaletv1.Event_OomKillObserved:
		is = OutOfMemory
	case *journaletv1.Event_VolumesLost, *journaletv1.Event_PodDirectoryFound, *journaletv1.Event_PodCgroupLost:
		is = Mount
	case *journaletv1.Event_DevicesObserved, *journaletv1.Event_PreferredDevicesRead,
		*journaletv1.Event_ClaimHealthObserved:
		is = Device
	case *journaletv1.Event_SessionStarted, *journaletv1.Event_SessionEnded:
		is = Session
	case *journaletv1.Event_RestartRequested, *journaletv1.Event_DrainRequested, *journaletv1.Event_UncordonRequested,
		*journaletv1.Event_OperatorPullRequested, *journaletv1.Event_ImageRemovalRequested:
		is = Operator
	case *journaletv1.Event_ShutdownSignaled:
		is = Shutdown
	case *journaletv1.Event_ImagesObserved, *journaletv1.Event_ImageFilesystemFull:
		is = Images
	case *journaletv1.Event_LogRotated:
		is = Log
	case *journaletv1.Event_NodeObserved, *journaletv1.Event_NodeRegistered, *journaletv1.Event_ApiServerContact,
		*journaletv1.Event_CertificateChanged, *journaletv1.Event_ApiDeleteFinished:
		is = Cluster
	case *journaletv1.Event_RuntimeHealthChanged:
		is = Health
	case *journaletv1.Event_PullProgressed:
		is = Progress
	case *journaletv1.Event_AgentStarted:
		is = Started
	case *journaletv1.Event_AgentStopped:
		is = Stopped
	case *journaletv1.Event_JournalDamaged:
		is = Damage
	case *journaletv1.Event_Quarantined:
		is = Defect
	case *journaletv1.Event_QuarantineLifted:
		is = Lift
	case *journaletv1.Event_TimerFired:
		if strings.HasPrefix(k.TimerFired.GetName(), deadlineTimer) {
			is = Deadline
		}
	case *journaletv1.Event_CallFinished:
		if kind.Failed(k.CallFinished.GetError()) {
			is = Failure
		}
	}
	if is == "" {
		return nil
	}
	return &End{Kind: is, Seq: e.Seq}
}

// deadlineTimer begins the name of the timer that ends a pod's active deadline (actors/pod).
const deadlineTimer = "active deadline "

// cut returns the end of a chain at a record that retention has cut, with the snapshots that hold the state then.
func (x *explainer) cut(seq uint64) *End {
	end := &End{Kind: Cut, Seq: seq}
	if barriers, err := x.j.r.Snapshots(x.j.ctx); err == nil {
		for _, b := range barriers {
			if b+1 >= x.j.first && end.Snapshot == 0 {
				end.Snapshot = b
			}
		}
	}
	return end
}

// endText returns the end of a chain in words. The text of its last event comes before it.
func (x *explainer) endText(end *End) string {
	switch end.Kind {
	case Cut:
		text := fmt.Sprintf("record %d is gone: the journal begins with record %d", end.Seq, x.j.first)
		if end.Snapshot > 0 {
			text += fmt.Sprintf(" (the state up to record %d is in a snapshot)", end.Snapshot)
		}
		return text
	case Lost:
		return "what led to this is not in the journal: it was lost or damaged, or belongs to an earlier journal"
	case Limit:
		return "not followed further: this query has read as many records as it may"
	case Unknown:
		return "an event that this version does not know"
	}
	return endTexts[end.Kind]
}

// endTexts say why nothing of the agent's led to the last event.
var endTexts = map[EndKind]string{
	Manifest: "read from a source of pods", Exit: "the container ended by itself",
	Gone:  "no call of the agent ended or removed it",
	Found: "no call in this journal created it", Probe: "a probe's result", Failure: "a call of the agent failed",
	Health: "reported by the container runtime", Gates: "read from the pod's conditions.yaml",
	Deadline: "time passed: the pod's activeDeadlineSeconds", Progress: "reported by the container runtime",
	Started: "the agent started", Stopped: "the agent was stopped", Lift: "a quarantine ended",
	Device: "reported by a device plugin or driver", OutOfMemory: "reported by the kernel",
	Damage:  "damage of the journal",
	Cluster: "reported by the API server", Defect: "a failure of the agent's own code",
}
