package describe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/kind"
)

// ReasonQuarantined is the status reason of a pod whose actor is quarantined.
const ReasonQuarantined = "Quarantined"

// PodEvent is one event of a pod as the kubelet would emit it.
type PodEvent struct {
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Type    string    `json:"type"` // Normal or Warning
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

// PodEvents derives a pod's Kubernetes events, with the kubelet's reasons, from the records that concern the pod.
type PodEvents struct {
	ref   messages.Ref
	calls map[string]*journaletv1.CallRequested // by intent id
	// killing are the containers, by id, whose preStop hook has already emitted Killing.
	killing map[string]bool
	list    []PodEvent
}

// NewPodEvents returns the events of a pod's actor, without any yet.
func NewPodEvents(ref messages.Ref) *PodEvents {
	return &PodEvents{ref: ref, calls: map[string]*journaletv1.CallRequested{}, killing: map[string]bool{}}
}

// EventType returns the type of the Kubernetes event that follows from an event alone: Warning if it matters as a
// warning or more. The kubelet's event of a pod whose deadline has passed is Normal.
func EventType(e *journaletv1.Event) string {
	if kind.Alerts(e) && e.GetPodTerminating().GetReason() != pod.ReasonDeadline {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// Add reads one event of the journal; events must come in the journal's order.
func (p *PodEvents) Add(rec *journaletv1.Record, id string, e *journaletv1.Event) {
	add := func(kind, reason, format string, args ...any) {
		p.list = append(p.list, PodEvent{
			Seq: rec.GetSeq(), Time: rec.GetTime().AsTime(), Type: kind, Reason: reason, Message: fmt.Sprintf(format, args...),
		})
	}
	eventType := EventType(e)
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AdmissionDecided:
		if a := k.AdmissionDecided; a.GetReason() != "" && a.GetUid() == p.ref.ID {
			add(eventType, a.GetReason(), "%s", a.GetMessage())
		}
	case *journaletv1.Event_AdmissionPendingPreemption:
		p.preempted(eventType, k.AdmissionPendingPreemption.GetVictims(), add)
	case *journaletv1.Event_ResizePendingPreemption:
		p.preempted(eventType, k.ResizePendingPreemption.GetVictims(), add)
	case *journaletv1.Event_ImagePullRequested:
		add(eventType, "Pulling", "Pulling image %s", k.ImagePullRequested.GetImage())
	case *journaletv1.Event_ImagePullDecided:
		p.imagePullDecided(eventType, k.ImagePullDecided, add)
	case *journaletv1.Event_CallRequested:
		p.callRequested(id, k.CallRequested, add)
	case *journaletv1.Event_CallFinished:
		p.callFinished(k.CallFinished, add)
	case *journaletv1.Event_ProbeResult:
		p.probeResult(eventType, k.ProbeResult, add)
	case *journaletv1.Event_PodTerminating:
		if k := k.PodTerminating; k.GetReason() != "" {
			add(eventType, k.GetReason(), "%s", k.GetMessage())
		}
	case *journaletv1.Event_PodStatusChanged:
		p.waits(k.PodStatusChanged, add)
		p.resizeConditions(k.PodStatusChanged, add)
	case *journaletv1.Event_ResizeDecided:
		if d := k.ResizeDecided; d.GetAllocated() && d.GetUid() == p.ref.ID {
			add(eventType, "ResizeStarted", "Allocated the new resources")
		}
	case *journaletv1.Event_ResizeStarted:
		add(eventType, "ResizeStarted", "Containers run with other resources than allocated")
	case *journaletv1.Event_ResizeCompleted:
		if k.ResizeCompleted.GetUid() == p.ref.ID {
			add(eventType, "ResizeCompleted", "All running containers have their new resources")
		}
	case *journaletv1.Event_Quarantined:
		if q := k.Quarantined; q.GetKind()+"/"+q.GetId() == p.ref.String() {
			add(eventType, ReasonQuarantined, "%s", withMessage(DecisionError(q.GetCode()), q.GetMessage()))
		}
	}
}

// List returns the events so far, the oldest first.
func (p *PodEvents) List() []PodEvent { return p.list }

func (p *PodEvents) preempted(eventType string, victims []string, add addEvent) {
	if slices.Contains(victims, p.ref.ID) {
		add(eventType, pod.ReasonPreempting, "%s", pod.MessagePreempting)
	}
}

func (p *PodEvents) imagePullDecided(eventType string, a *journaletv1.ImagePullDecided, add addEvent) {
	switch {
	case a.GetUid() != p.ref.ID:
	case a.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED:
		if a.GetAlreadyPresent() {
			add(eventType, "Pulled", "Image %s was loaded on the node by somebody", a.GetImage())
			return
		}
		pull := pullText(a.GetDuration().AsDuration(), a.GetBytes())
		add(eventType, "Pulled", "Image %s present on the node%s", a.GetImage(), pull)
	default:
		add(eventType, "Failed", "%s", withMessage("Failed to pull image "+a.GetImage(), a.GetMessage()))
	}
}

// waits emits an event for each container that waits for a back-off to pass, or for an image that is never pulled.
func (p *PodEvents) waits(c *journaletv1.PodStatusChanged, add addEvent) {
	for _, name := range slices.Sorted(maps.Keys(c.GetWaiting())) {
		switch w := c.GetWaiting()[name]; {
		case w.GetReason() == "ImagePullBackOff": // two events, as of the kubelet
			add(corev1.EventTypeNormal, "BackOff", "container %s: %s", name, w.GetMessage())
			add(corev1.EventTypeWarning, "Failed", "container %s: Error: %s", name, w.GetReason())
		case strings.HasSuffix(w.GetReason(), "BackOff"):
			add(corev1.EventTypeWarning, "BackOff", "container %s: %s", name, w.GetMessage())
		case w.GetReason() == "ErrImageNeverPull": // no pull follows, and so no failure of one
			add(corev1.EventTypeWarning, w.GetReason(), "container %s: %s", name, w.GetMessage())
		}
	}
}

type addEvent func(kind, reason, format string, args ...any)

func (p *PodEvents) callRequested(id string, c *journaletv1.CallRequested, add addEvent) {
	if id != "" {
		p.calls[id] = c
	}
	if stop := c.GetStopContainer(); stop != nil {
		if !p.killing[stop.GetContainerId()] {
			add(corev1.EventTypeNormal, "Killing", "%s", title(describeCall(c).doing()))
		}
		delete(p.killing, stop.GetContainerId())
	}
	if hook := c.GetRunHook(); hook.GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP {
		// The kubelet emits it before the hook, too.
		p.killing[hook.GetContainerId()] = true
		text := "Stopping container " + hook.GetContainer() + ", its preStop hook first"
		add(corev1.EventTypeNormal, "Killing", "%s", withReason(text, hook.GetReason()))
	}
	if sandbox := c.GetRunSandbox(); sandbox.GetAttempt() > 0 {
		add(corev1.EventTypeNormal, "SandboxChanged", "Creating a new pod sandbox (attempt %d)", sandbox.GetAttempt())
	}
}

func (p *PodEvents) callFinished(f *journaletv1.CallFinished, add addEvent) {
	c := p.calls[f.GetIntentId()]
	if f.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
		// Most often one call creates and starts a container: both events are emitted then.
		start := c.GetStartContainer()
		if start != nil && start.GetPart() != journaletv1.StartPart_START_PART_START {
			add(corev1.EventTypeNormal, "Created", "Created container %s", start.GetContainer())
		}
		if start != nil && start.GetPart() != journaletv1.StartPart_START_PART_CREATE {
			add(corev1.EventTypeNormal, "Started", "Started container %s%s", start.GetContainer(), attempt(start.GetAttempt()))
		}
		return
	}
	reason, what := "Failed", "Call failed"
	switch hook := c.GetRunHook(); {
	case hook == nil && !kind.Failed(f.GetError()):
		return
	case c == nil:
	case hook.GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP:
		reason, what = "FailedPreStopHook", "PreStop hook of container "+hook.GetContainer()+" failed"
	case f.GetError() == journaletv1.CallError_CALL_ERROR_WITHDRAWN:
		return
	case hook != nil:
		reason, what = "FailedPostStartHook", "PostStart hook of container "+hook.GetContainer()+" failed"
	case c.GetRunSandbox() != nil:
		reason, what = "FailedCreatePodSandBox", "Failed to create the pod sandbox"
	case c.GetSetUpVolumes() != nil:
		reason, what = "FailedMount", "Failed to prepare the volumes"
	case c.GetReadClaims() != nil, c.GetPrepareClaims() != nil:
		reason, what = "FailedPrepareDynamicResources", "Failed to prepare dynamic resources"
	case c.GetPreStartContainer() != nil:
		what = "Failed to prepare devices of container " + c.GetPreStartContainer().GetContainer()
	case c.GetStopContainer() != nil:
		reason, what = "FailedKillPod", "Failed to stop container "+c.GetStopContainer().GetContainer()
	case c.GetStopSandbox() != nil, c.GetRemoveSandbox() != nil:
		reason, what = "FailedKillPod", "Failed to "+describeCall(c).String()
	case c.GetUpdateSandbox() != nil:
		return // emitted as ResizeError, with the condition
	case c.GetUpdateContainer() != nil:
		if c.GetUpdateContainer().GetResources() != nil {
			return // emitted as ResizeError, with the condition
		}
		what = "Failed to " + describeCall(c).String()
	case c.GetStartContainer() != nil:
		what = fmt.Sprintf("Failed to start container %s (%s)", c.GetStartContainer().GetContainer(), callError(f.GetError()))
	default:
		what = "Failed to " + describeCall(c).String()
	}
	add(corev1.EventTypeWarning, reason, "%s", withMessage(what, f.GetMessage()))
}

// probeResult emits failures, and successes with a warning.
func (p *PodEvents) probeResult(eventType string, r *journaletv1.ProbeResult, add addEvent) {
	reason := "Unhealthy"
	if r.GetSuccess() {
		reason = "ProbeWarning"
	}
	if r.GetUid() == p.ref.ID && r.GetMessage() != "" {
		add(eventType, reason, "container %s: %s", r.GetContainer(), r.GetMessage())
	}
}

// resizeConditions emits pending and failed resizes. Their start and completion have records of their own.
func (p *PodEvents) resizeConditions(c *journaletv1.PodStatusChanged, add addEvent) {
	for _, cond := range c.GetConditions() {
		switch t := corev1.PodConditionType(cond.GetType()); {
		case t == corev1.PodResizePending:
			add(corev1.EventTypeWarning, "Resize"+cond.GetReason(), "%s", cond.GetMessage())
		case t == corev1.PodResizeInProgress && cond.GetReason() == corev1.PodReasonError:
			add(corev1.EventTypeWarning, "ResizeError", "%s", cond.GetMessage())
		}
	}
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
