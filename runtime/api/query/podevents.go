package query

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// podEvents derives a pod's events, in the manner and with the reasons of the kubelet's, from the
// records that concern the pod.
type podEvents struct {
	ref   messages.Ref
	calls map[string]*journaletv1.CallRequested // by intent id
	// killing are the containers, by id, of which the preStop hook has told that they end.
	killing map[string]bool
	list    []PodEvent
}

func newPodEvents(ref messages.Ref) *podEvents {
	return &podEvents{ref: ref, calls: map[string]*journaletv1.CallRequested{}, killing: map[string]bool{}}
}

// note takes in one event; events come in the journal's order.
func (p *podEvents) note(rec *journaletv1.Record, id string, e *journaletv1.Event) {
	add := func(kind, reason, format string, args ...any) {
		p.list = append(p.list, PodEvent{Seq: rec.GetSeq(), Time: rec.GetTime().AsTime(), Type: kind, Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AdmissionDecided:
		if a := k.AdmissionDecided; !a.GetAdmitted() && a.GetUid() == p.ref.ID {
			add(corev1.EventTypeWarning, a.GetReason(), "%s", a.GetMessage())
		}
	case *journaletv1.Event_AdmissionPendingPreemption:
		if slices.Contains(k.AdmissionPendingPreemption.GetVictims(), p.ref.ID) {
			add(corev1.EventTypeWarning, pod.ReasonPreempting, "%s", pod.MessagePreempting)
		}
	case *journaletv1.Event_ResizePendingPreemption:
		if slices.Contains(k.ResizePendingPreemption.GetVictims(), p.ref.ID) {
			add(corev1.EventTypeWarning, pod.ReasonPreempting, "%s", pod.MessagePreempting)
		}
	case *journaletv1.Event_ImagePullRequested:
		// The start that found no image is how a pull begins, and no failure.
		p.list = slices.DeleteFunc(p.list, func(e PodEvent) bool { return e.Seq == rec.GetStep().GetCause() && e.Reason == "Failed" })
		add(corev1.EventTypeNormal, "Pulling", "image %s is to be pulled", k.ImagePullRequested.GetImage())
	case *journaletv1.Event_ImagePullDecided:
		a := k.ImagePullDecided
		switch {
		case a.GetUid() != p.ref.ID:
		case a.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED:
			add(corev1.EventTypeNormal, "Pulled", "image %s is on the node%s", a.GetImage(), pulled(a.GetDuration().AsDuration(), a.GetBytes()))
		default:
			add(corev1.EventTypeWarning, "Failed", "%s", withMessage("image "+a.GetImage()+" could not be pulled", a.GetMessage()))
		}
	case *journaletv1.Event_CallRequested:
		p.requested(id, k.CallRequested, add)
	case *journaletv1.Event_CallFinished:
		p.finished(k.CallFinished, add)
	case *journaletv1.Event_ProbeResult:
		p.probed(k.ProbeResult, add)
	case *journaletv1.Event_PodTerminating:
		if e := k.PodTerminating; e.GetReason() != "" {
			add(corev1.EventTypeNormal, e.GetReason(), "%s", e.GetMessage())
		}
	case *journaletv1.Event_PodStatusChanged:
		p.waiting(k.PodStatusChanged, add)
		p.resizing(k.PodStatusChanged, add)
	case *journaletv1.Event_ResizeDecided:
		if d := k.ResizeDecided; d.GetAllocated() && d.GetUid() == p.ref.ID {
			add(corev1.EventTypeNormal, "ResizeStarted", "the node has allocated the new resources")
		}
	case *journaletv1.Event_ResizeStarted:
		add(corev1.EventTypeNormal, "ResizeStarted", "containers that were found do not have the resources that are allocated to them")
	case *journaletv1.Event_ResizeCompleted:
		if k.ResizeCompleted.GetUid() == p.ref.ID {
			add(corev1.EventTypeNormal, "ResizeCompleted", "every container that runs has its new resources")
		}
	case *journaletv1.Event_Quarantined:
		if q := k.Quarantined; q.GetKind()+"/"+q.GetId() == p.ref.String() {
			add(corev1.EventTypeWarning, ReasonQuarantined, "%s", withMessage(decisionError(q.GetCode()), q.GetMessage()))
		}
	}
}

// waiting tells of containers that wait for a back-off to pass.
func (p *podEvents) waiting(c *journaletv1.PodStatusChanged, add addEvent) {
	for _, name := range slices.Sorted(maps.Keys(c.GetWaiting())) {
		w := c.GetWaiting()[name]
		if strings.HasSuffix(w.GetReason(), "BackOff") {
			add(corev1.EventTypeWarning, "BackOff", "container %s: %s", name, w.GetMessage())
		}
	}
}

type addEvent func(kind, reason, format string, args ...any)

func (p *podEvents) requested(id string, c *journaletv1.CallRequested, add addEvent) {
	if id != "" {
		p.calls[id] = c
	}
	if stop := c.GetStopContainer(); stop != nil {
		if !p.killing[stop.GetContainerId()] {
			add(corev1.EventTypeNormal, "Killing", "%s", Work(c))
		}
		delete(p.killing, stop.GetContainerId())
	}
	if hook := c.GetRunHook(); hook.GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP {
		// As the kubelet's, it comes before the hook.
		p.killing[hook.GetContainerId()] = true
		add(corev1.EventTypeNormal, "Killing", "%s", withReason("stop container "+hook.GetContainer()+", its preStop hook first", hook.GetReason()))
	}
	if sandbox := c.GetRunSandbox(); sandbox.GetAttempt() > 0 {
		add(corev1.EventTypeNormal, "SandboxChanged", "the pod gets a new sandbox (attempt %d)", sandbox.GetAttempt())
	}
}

func (p *podEvents) finished(f *journaletv1.CallFinished, add addEvent) {
	c := p.calls[f.GetIntentId()]
	if f.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
		// Most often one call of ours makes and starts a container, so both are told at once.
		start := c.GetStartContainer()
		if start != nil && start.GetPart() != journaletv1.StartPart_START_PART_START {
			add(corev1.EventTypeNormal, "Created", "container %s was created", start.GetContainer())
		}
		if start != nil && start.GetPart() != journaletv1.StartPart_START_PART_CREATE {
			add(corev1.EventTypeNormal, "Started", "container %s was started%s", start.GetContainer(), attempt(start.GetAttempt()))
		}
		return
	}
	withdrawn := f.GetError() == journaletv1.CallError_CALL_ERROR_WITHDRAWN
	reason, what := "Failed", "a call failed"
	switch hook := c.GetRunHook(); {
	case c == nil:
	case hook.GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP:
		reason, what = "FailedPreStopHook", "the preStop hook of container "+hook.GetContainer()+" failed"
	case withdrawn:
		return
	case hook != nil:
		reason, what = "FailedPostStartHook", "the postStart hook of container "+hook.GetContainer()+" failed"
	case c.GetRunSandbox() != nil:
		reason, what = "FailedCreatePodSandBox", "the sandbox could not be made"
	case c.GetSetUpVolumes() != nil:
		reason, what = "FailedMount", "the volumes could not be set up"
	case c.GetStopContainer() != nil:
		reason, what = "FailedKillPod", "container "+c.GetStopContainer().GetContainer()+" could not be stopped"
	case c.GetStopSandbox() != nil, c.GetRemoveSandbox() != nil:
		reason, what = "FailedKillPod", "the sandbox could not be taken down"
	case c.GetUpdateContainer() != nil:
		return // it is told as ResizeError, with the condition
	case c.GetStartContainer() != nil:
		what = fmt.Sprintf("container %s could not be started (%s)", c.GetStartContainer().GetContainer(), callError(f.GetError()))
	default:
		what = "failed: " + Work(c)
	}
	add(corev1.EventTypeWarning, reason, "%s", withMessage(what, f.GetMessage()))
}
