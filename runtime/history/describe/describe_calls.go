package describe

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/kind"
)

// callText describes a call, such as "start" and "container main (attempt 2)".
type callText struct{ verb, object string }

func (c callText) String() string { return c.verb + " " + c.object }

// verbForms are the gerund and the past of each verb of a callText.
var verbForms = map[string][2]string{
	"allocate":  {"allocating", "allocated"},
	"clean up":  {"cleaning up", "cleaned up"},
	"configure": {"configuring", "configured"},
	"create":    {"creating", "created"},
	"move":      {"moving", "moved"},
	"perform":   {"performing", "performed"},
	"prepare":   {"preparing", "prepared"},
	"pull":      {"pulling", "pulled"},
	"read":      {"reading", "read"},
	"remove":    {"removing", "removed"},
	"resize":    {"resizing", "resized"},
	"run":       {"running", "ran"},
	"start":     {"starting", "started"},
	"stop":      {"stopping", "stopped"},
	"unprepare": {"unpreparing", "unprepared"},
}

func (c callText) doing() string { return verbForms[c.verb][0] + " " + c.object }
func (c callText) done() string  { return verbForms[c.verb][1] + " " + c.object }

func (d *Describer) callEvent(id string, e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_CallRequested:
		c := describeCall(k.CallRequested)
		if id != "" {
			d.calls.put(id, c)
		}
		return "requested: " + c.String()
	case *journaletv1.Event_CallWithdrawn:
		return "withdrawn: " + d.call(k.CallWithdrawn.GetIntentId()).String()
	case *journaletv1.Event_CallDropped:
		return "dropped before dispatch: " + d.call(k.CallDropped.GetIntentId()).String()
	case *journaletv1.Event_CallDispatched:
		c := k.CallDispatched
		if !c.GetInDoubt() {
			return d.call(c.GetIntentId()).doing()
		}
		s := "outcome unknown, inspecting the runtime first: " + d.call(c.GetIntentId()).String()
		if elapsed := c.GetElapsed().AsDuration(); elapsed > 0 {
			s += " (dispatched " + span(elapsed) + " ago)"
		}
		return s
	case *journaletv1.Event_CallFinished:
		c := k.CallFinished
		if c.GetImageInUse() {
			return withMessage("kept "+d.call(c.GetIntentId()).object, c.GetMessage())
		}
		if c.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
			return d.call(c.GetIntentId()).done() + usedCredentials(c.GetPullCredentials())
		}
		return d.notDone(c)
	}
	return ""
}

// notDone describes a call that has not succeeded, which is no failure of each.
func (d *Describer) notDone(c *journaletv1.CallFinished) string {
	call, reason := d.call(c.GetIntentId()).String(), callError(c.GetError())
	switch {
	case c.GetError() == journaletv1.CallError_CALL_ERROR_WITHDRAWN:
		return "withdrawn under way: " + call
	case !kind.Failed(c.GetError()):
		return withMessage(fmt.Sprintf("did not %s (%s)", call, reason), c.GetMessage())
	case c.GetRetryable():
		reason += ", will be retried"
	}
	return withMessage(fmt.Sprintf("failed to %s (%s)", call, reason), c.GetMessage())
}

// usedCredentials names whose credentials a pull needed; "" without credentials, and for the node's credentials.
func usedCredentials(c *journaletv1.PullCredentials) string {
	for _, s := range c.GetSecrets() {
		return fmt.Sprintf(" with secret %s/%s", s.GetNamespace(), s.GetName())
	}
	for _, account := range c.GetServiceAccounts() {
		return " with the token of service account " + strings.TrimSuffix(account, "/")
	}
	return ""
}

// call describes a call by its intent's id: what it does, or who requested it if the request is not remembered.
func (d *Describer) call(id string) callText {
	p, err := messages.ParseDecisionID(id)
	if c, ok := d.calls.m[id]; ok {
		if err == nil && p.Author.Kind == journaletv1.ActorKind_ACTOR_KIND_POD {
			c.object += " of " + d.podName(p.Author.ID)
		}
		return c
	}
	if err != nil {
		return callText{"perform", "call " + id}
	}
	return callText{"perform", "a call of " + d.Actor(p.Author)}
}

// Call describes what a requested call is to do: "start container main".
func Call(c *journaletv1.CallRequested) string { return describeCall(c).String() }

func describeCall(c *journaletv1.CallRequested) callText {
	switch w := c.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		return callText{"create", "sandbox" + attempt(w.RunSandbox.GetAttempt())}
	case *journaletv1.CallRequested_StartContainer:
		verb := "start"
		if w.StartContainer.GetPart() == journaletv1.StartPart_START_PART_CREATE {
			verb = "create"
		}
		kind := "container "
		if w.StartContainer.GetEphemeral() {
			kind = "ephemeral container "
		}
		return callText{verb, kind + w.StartContainer.GetContainer() + attempt(w.StartContainer.GetAttempt())}
	case *journaletv1.CallRequested_UpdateContainer:
		u := w.UpdateContainer
		if u.GetResources() == nil {
			return callText{"move", "container " + u.GetContainer() + " to CPUs " + u.GetPlacement().GetCpus()}
		}
		return callText{"resize", "container " + u.GetContainer() + " to " + resources(u.GetResources())}
	case *journaletv1.CallRequested_UpdateSandbox:
		to := w.UpdateSandbox.GetResources()
		if proto.Size(to) == 0 {
			return callText{"resize", "pod to what its containers have"}
		}
		return callText{"resize", "pod to " + resources(to)}
	case *journaletv1.CallRequested_StopContainer:
		s := w.StopContainer
		grace := ", grace period " + span(s.GetGrace().AsDuration())
		return callText{"stop", withReason("container "+s.GetContainer()+grace, s.GetReason())}
	case *journaletv1.CallRequested_RunHook:
		return callText{"run", hookText(w.RunHook)}
	case *journaletv1.CallRequested_AllocateDevices:
		a := w.AllocateDevices
		return callText{"allocate", a.GetResource() + " " + list(a.GetIds(), 6) + " for container " + a.GetContainer()}
	case *journaletv1.CallRequested_PreStartContainer:
		return callText{"prepare", "devices of container " + w.PreStartContainer.GetContainer()}
	case *journaletv1.CallRequested_ReadClaims:
		return callText{"read", "resource claims"}
	case *journaletv1.CallRequested_PrepareClaims:
		return callText{"prepare", "resource claims " + claimNames(w.PrepareClaims.GetClaims())}
	case *journaletv1.CallRequested_UnprepareClaims:
		return callText{"unprepare", "resource claims " + claimNames(w.UnprepareClaims.GetClaims())}
	case *journaletv1.CallRequested_RemoveContainer:
		return callText{"remove", "container " + w.RemoveContainer.GetContainer()}
	case *journaletv1.CallRequested_StopSandbox:
		return callText{"stop", "sandbox"}
	case *journaletv1.CallRequested_RemoveSandbox:
		return callText{"remove", "sandbox"}
	case *journaletv1.CallRequested_PullImage:
		return callText{"pull", "image " + w.PullImage.GetImage()}
	case *journaletv1.CallRequested_RemoveImage:
		return callText{"remove", withReason("image "+w.RemoveImage.GetName(), w.RemoveImage.GetReason())}
	case *journaletv1.CallRequested_UpdateRuntimeConfig:
		return callText{"configure", "the runtime with pod CIDR " + w.UpdateRuntimeConfig.GetPodCidr()}
	case *journaletv1.CallRequested_SetUpVolumes:
		if w.SetUpVolumes.GetCsi() {
			return callText{"prepare", "volumes of CSI drivers and NFS servers"}
		}
		return callText{"prepare", "volumes"}
	case *journaletv1.CallRequested_CleanPod:
		if w.CleanPod.GetAll() {
			return callText{"clean up", "volumes, directories and logs"}
		}
		return callText{"clean up", "volumes"}
	}
	return callText{"perform", "an unknown call"}
}

// claimNames names claims of one pod.
func claimNames(all []*journaletv1.ResourceClaim) string {
	var names []string
	for _, c := range all {
		names = append(names, c.GetName())
	}
	return list(names, 6)
}

func hookText(h *journaletv1.RunHook) string {
	kind := "lifecycle"
	switch h.GetKind() {
	case journaletv1.HookKind_HOOK_KIND_POST_START:
		kind = "postStart"
	case journaletv1.HookKind_HOOK_KIND_PRE_STOP:
		kind = "preStop"
	}
	s := fmt.Sprintf("the %s hook of container %s", kind, h.GetContainer())
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

func callError(c journaletv1.CallError) string { return Enum(c.String(), "CALL_ERROR_") }

// resources formats the CPU and memory requests and limits that are set.
func resources(r *journaletv1.Resources) string {
	var parts []string
	add := func(what string, millis, bytes int64) {
		if millis != 0 {
			parts = append(parts, fmt.Sprintf("cpu %s %dm", what, millis))
		}
		if bytes != 0 {
			parts = append(parts, fmt.Sprintf("memory %s %s", what, Size(bytes)))
		}
	}
	add("request", r.GetCpuRequestMillis(), r.GetMemoryRequestBytes())
	add("limit", r.GetCpuLimitMillis(), r.GetMemoryLimitBytes())
	if len(parts) == 0 {
		return "no resources"
	}
	return strings.Join(parts, ", ")
}

// Size formats a number of bytes with a binary unit.
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
