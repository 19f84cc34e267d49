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

// Add reads one event of the journal; events must come in the journal's order.
func (p *PodEvents) Add(rec *journaletv1.Record, id string, e *journaletv1.Event) {
	add := func(kind, reason, format string, args ...any) {
		p.list = append(p.list, PodEvent{
			Seq: rec.GetSeq(), Time: rec.GetTime().AsTime(), Type: kind, Reason: reason, Message: fmt.Sprintf(format, args...),
		})
	}
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AdmissionDecided:
		if a := k.AdmissionDecided; !a.GetAdmitted() && a.GetUid() == p.ref.ID {
			add(corev1.EventTypeWarning, a.GetReason(), "%s", a.GetMessage())
		}
	case *journaletv1.Event_AdmissionPendingPreemption:
		p.preempted(k.AdmissionPendingPreemption.GetVictims(), add)
	case *journaletv1.Event_ResizePendingPreemption:
		p.preempted(k.ResizePendingPreemption.GetVictims(), add)
	case *journaletv1.Event_ImagePullRequested:
		// A pull begins with a start that found no image: that is no failure.
		cause := rec.GetStep().GetCause()
		p.list = slices.DeleteFunc(p.list, func(e PodEvent) bool { return e.Seq == cause && e.Reason == "Failed" })
		add(corev1.EventTypeNormal, "Pulling", "Pulling image %s", k.ImagePullRequested.GetImage())
	case *journaletv1.Event_ImagePullDecided:
		p.imagePullDecided(k.ImagePullDecided, add)
	case *journaletv1.Event_CallRequested:
		p.callRequested(id, k.CallRequested, add)
	case *journaletv1.Event_CallFinished:
		p.callFinished(k.CallFinished, add)
	case *journaletv1.Event_ProbeResult:
		p.probeResult(k.ProbeResult, add)
	case *journaletv1.Event_PodTerminating:
		if e := k.PodTerminating; e.GetReason() != "" {
			add(corev1.EventTypeNormal, e.GetReason(), "%s", e.GetMessage())
		}
	case *journaletv1.Event_PodStatusChanged:
		p.backOffs(k.PodStatusChanged, add)
		p.resizeConditions(k.PodStatusChanged, add)
	case *journaletv1.Event_ResizeDecided:
		if d := k.ResizeDecided; d.GetAllocated() && d.GetUid() == p.ref.ID {
			add(corev1.EventTypeNormal, "ResizeStarted", "Allocated the new resources")
		}
	case *journaletv1.Event_ResizeStarted:
		add(corev1.EventTypeNormal, "ResizeStarted", "Containers run with other resources than allocated")
	case *journaletv1.Event_ResizeCompleted:
		if k.ResizeCompleted.GetUid() == p.ref.ID {
			add(corev1.EventTypeNormal, "ResizeCompleted", "All running containers have their new resources")
		}
	case *journaletv1.Event_Quarantined:
		if q := k.Quarantined; q.GetKind()+"/"+q.GetId() == p.ref.String() {
			add(corev1.EventTypeWarning, ReasonQuarantined, "%s", withMessage(DecisionError(q.GetCode()), q.GetMessage()))
		}
	}
}

// List returns the events so far, the oldest first.
func (p *PodEvents) List() []PodEvent { return p.list }

func (p *PodEvents) preempted(victims []string, add addEvent) {
	if slices.Contains(victims, p.ref.ID) {
		add(corev1.EventTypeWarning, pod.ReasonPreempting, "%s", pod.MessagePreempting)
	}
}

func (p *PodEvents) imagePullDecided(a *journaletv1.ImagePullDecided, add addEvent) {
	switch {
	case a.GetUid() != p.ref.ID:
	case a.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED:
		if a.GetAlreadyPresent() {
			add(corev1.EventTypeNormal, "Pulled", "Image %s was loaded on the node by somebody", a.GetImage())
			return
		}
		pull := pullText(a.GetDuration().AsDuration(), a.GetBytes())
		add(corev1.EventTypeNormal, "Pulled", "Image %s present on the node%s", a.GetImage(), pull)
	default:
		add(corev1.EventTypeWarning, "Failed", "%s", withMessage("Failed to pull image "+a.GetImage(), a.GetMessage()))
	}
}

// backOffs emits an event for each container that waits for a back-off to pass.
func (p *PodEvents) backOffs(c *journaletv1.PodStatusChanged, add addEvent) {
	for _, name := range slices.Sorted(maps.Keys(c.GetWaiting())) {
		w := c.GetWaiting()[name]
		if strings.HasSuffix(w.GetReason(), "BackOff") {
			add(corev1.EventTypeWarning, "BackOff", "container %s: %s", name, w.GetMessage())
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
	withdrawn := f.GetError() == journaletv1.CallError_CALL_ERROR_WITHDRAWN
	reason, what := "Failed", "Call failed"
	switch hook := c.GetRunHook(); {
	case c == nil:
	case hook.GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP:
		reason, what = "FailedPreStopHook", "PreStop hook of container "+hook.GetContainer()+" failed"
	case withdrawn:
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
func (p *PodEvents) probeResult(r *journaletv1.ProbeResult, add addEvent) {
	reason := "Unhealthy"
	if r.GetSuccess() {
		reason = "ProbeWarning"
	}
	if r.GetUid() == p.ref.ID && r.GetMessage() != "" {
		add(corev1.EventTypeWarning, reason, "container %s: %s", r.GetContainer(), r.GetMessage())
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
