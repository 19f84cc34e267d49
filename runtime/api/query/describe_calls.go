package query

import (
	"fmt"
	"strings"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func (d *Describer) callEvent(id string, _ messages.Ref, e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_CallRequested:
		s := Work(k.CallRequested)
		if id != "" {
			d.calls.put(id, s)
		}
		return s
	case *journaletv1.Event_CallWithdrawn:
		return "take back: " + d.call(k.CallWithdrawn.GetIntentId())
	case *journaletv1.Event_CallDropped:
		return "never begun: " + d.call(k.CallDropped.GetIntentId())
	case *journaletv1.Event_CallDispatched:
		c := k.CallDispatched
		if c.GetInDoubt() {
			s := "look whether it was done: " + d.call(c.GetIntentId())
			if el := c.GetElapsed().AsDuration(); el > 0 {
				s += " (begun " + span(el) + " ago)"
			}
			return s
		}
		return "begin: " + d.call(c.GetIntentId())
	case *journaletv1.Event_CallFinished:
		c := k.CallFinished
		if c.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
			return "done: " + d.call(c.GetIntentId())
		}
		s := fmt.Sprintf("failed: %s (%s)", d.call(c.GetIntentId()), callError(c.GetError()))
		if c.GetRetryable() {
			s = strings.TrimSuffix(s, ")") + ", to be tried again)"
		}
		return withMessage(s, c.GetMessage())
	}
	return ""
}

// call tells of a call by its intent's id: what it is, or who asked for it where that was not met.
func (d *Describer) call(id string) string {
	p, err := messages.ParseDecisionID(id)
	if s := d.calls.m[id]; s != "" {
		if err == nil && p.Author.Kind == journaletv1.ActorKind_ACTOR_KIND_POD {
			s += " of " + d.podName(p.Author.ID)
		}
		return s
	}
	if err != nil {
		return "call " + id
	}
	return fmt.Sprintf("a call of %s", d.Actor(p.Author))
}

// Work tells what a call is to do.
func Work(c *journaletv1.CallRequested) string {
	switch w := c.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		return "run sandbox" + attempt(w.RunSandbox.GetAttempt())
	case *journaletv1.CallRequested_StartContainer:
		if w.StartContainer.GetPart() == journaletv1.StartPart_START_PART_CREATE {
			return "make container " + w.StartContainer.GetContainer() + attempt(w.StartContainer.GetAttempt())
		}
		return "start container " + w.StartContainer.GetContainer() + attempt(w.StartContainer.GetAttempt())
	case *journaletv1.CallRequested_UpdateContainer:
		return "resize container " + w.UpdateContainer.GetContainer() + " to " + resources(w.UpdateContainer.GetResources())
	case *journaletv1.CallRequested_StopContainer:
		s := fmt.Sprintf("stop container %s, grace %s", w.StopContainer.GetContainer(), span(w.StopContainer.GetGrace().AsDuration()))
		return withReason(s, w.StopContainer.GetReason())
	case *journaletv1.CallRequested_RunHook:
		return hookWork(w.RunHook)
	case *journaletv1.CallRequested_RemoveContainer:
		return "remove container " + w.RemoveContainer.GetContainer()
	case *journaletv1.CallRequested_StopSandbox:
		return "stop sandbox"
	case *journaletv1.CallRequested_RemoveSandbox:
		return "remove sandbox"
	case *journaletv1.CallRequested_PullImage:
		return "pull image " + w.PullImage.GetImage()
	case *journaletv1.CallRequested_SetUpVolumes:
		return "set up volumes"
	case *journaletv1.CallRequested_CleanPod:
		if w.CleanPod.GetAll() {
			return "clean up volumes, directories and logs"
		}
		return "clean up volumes"
	}
	return "an unknown call"
}

func hookWork(h *journaletv1.RunHook) string {
	kind := "lifecycle"
	switch h.GetKind() {
	case journaletv1.HookKind_HOOK_KIND_POST_START:
		kind = "postStart"
	case journaletv1.HookKind_HOOK_KIND_PRE_STOP:
		kind = "preStop"
	}
	s := fmt.Sprintf("run the %s hook of container %s", kind, h.GetContainer())
	if h.GetTimeout() != nil {
		s += ", within " + span(h.GetTimeout().AsDuration())
	}
	return withReason(s, h.GetReason())
}

func withReason(s, reason string) string {
	if reason == "" {
		return s
	}
	return s + " (" + reason + ")"
}

func attempt(n uint32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (attempt %d)", n)
}

func callError(c journaletv1.CallError) string { return enumName(c.String(), "CALL_ERROR_") }

func (d *Describer) imageOrNode(_ string, _ messages.Ref, e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_ImagePullRequested:
		return "ask for image " + k.ImagePullRequested.GetImage()
	case *journaletv1.Event_ImagePullWithdrawn:
		return "no longer need image " + k.ImagePullWithdrawn.GetImage()
	case *journaletv1.Event_ImagePullDecided:
		return d.imageAnswered(k.ImagePullDecided)
	case *journaletv1.Event_PullProgressed:
		p := k.PullProgressed
		return fmt.Sprintf("pulling image %s for %s, %s so far", p.GetImage(), span(p.GetElapsed().AsDuration()), Size(p.GetBytes()))
	case *journaletv1.Event_AdmissionRequested:
		if k.AdmissionRequested.GetSupersedes() {
			return "ask the node anew to admit pod " + k.AdmissionRequested.GetName() + ", which has changed"
		}
		return "ask the node to admit pod " + k.AdmissionRequested.GetName()
	case *journaletv1.Event_AdmissionDecided:
		a := k.AdmissionDecided
		if a.GetAdmitted() {
			return "admit pod " + d.podName(a.GetUid())
		}
		return withMessage(fmt.Sprintf("reject pod %s (%s)", d.podName(a.GetUid()), a.GetReason()), a.GetMessage())
	case *journaletv1.Event_AdmissionPendingPreemption:
		return d.admissionHeld(k.AdmissionPendingPreemption)
	case *journaletv1.Event_AdmissionDeferred:
		return fmt.Sprintf("pod %s waits: pod %s holds its name until it has ended", d.podName(k.AdmissionDeferred.GetUid()), k.AdmissionDeferred.GetHolderUid()) // by UID: the two have one name
	}
	return ""
}

func (d *Describer) admissionHeld(h *journaletv1.AdmissionPendingPreemption) string {
	namespace, name, _ := strings.Cut(h.GetFullName(), "/")
	d.Name(h.GetUid(), namespace, name)
	return fmt.Sprintf("pod %s is admitted when others have ended", d.which(h.GetUid())) + d.victims(h.GetVictims())
}

// victims tells which pods were told to end.
func (d *Describer) victims(preempts []string) string {
	text := ""
	for i, uid := range preempts {
		if text += ", "; i == 0 {
			text += "told to end for it: "
		}
		text += d.which(uid)
	}
	return text
}

func (d *Describer) imageAnswered(a *journaletv1.ImagePullDecided) string {
	who := " for pod " + d.podName(a.GetUid())
	if a.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
		s := fmt.Sprintf("image %s could not be pulled%s (%s)", a.GetImage(), who, callError(a.GetError()))
		if in := a.GetRetryAfter().AsDuration(); in > 0 {
			s = strings.TrimSuffix(s, ")") + ", next try in " + span(in) + ")"
		}
		return withMessage(s, a.GetMessage())
	}
	return fmt.Sprintf("image %s is there%s%s", a.GetImage(), who, pulled(a.GetDuration().AsDuration(), a.GetBytes()))
}

// pulled is how long a pull took and how large the image is, as far as that is known.
func pulled(took time.Duration, bytes int64) string {
	var parts []string
	if took > 0 {
		parts = append(parts, "pulled in "+span(took))
	}
	if bytes > 0 {
		parts = append(parts, Size(bytes))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// Size is a number of bytes for people, with a binary unit.
func Size[N int64 | uint64](n N) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/unit, 0
	for ; v >= unit && i < 4; i++ {
		v /= unit
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGTP"[i])
}
