package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// lines returns the decisions of a record, one a line.
func (n *names) lines(rec *journaletv1.Record) []string {
	author := messages.RefOf(rec.GetActor())
	var out []string
	for _, e := range messages.Events(rec) {
		if text := n.event(e); text != "" {
			out = append(out, n.ref(author)+": "+text)
		}
	}
	return out
}

func (n *names) ref(r messages.Ref) string {
	switch r.Kind {
	case journaletv1.ActorKind_ACTOR_KIND_POD:
		return "pod/" + n.aliasOf(r.ID)
	case journaletv1.ActorKind_ACTOR_KIND_SOURCE:
		return r.String()
	}
	return r.KindName()
}

func (n *names) event(e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_TimerFired:
		return "(timer " + n.timer(k.TimerFired.GetName()) + " fires)"
	case *journaletv1.Event_TimerSet:
		return "set timer " + n.timer(k.TimerSet.GetName()) + " " + k.TimerSet.GetDuration().AsDuration().String()
	case *journaletv1.Event_TimerCleared:
		return "clear timer " + n.timer(k.TimerCleared.GetName())
	case *journaletv1.Event_PodUpdated:
		return operations[k.PodUpdated.GetOperation()] + " pod/" + n.aliasOf(k.PodUpdated.GetPod().GetUid())
	case *journaletv1.Event_ManifestIgnored:
		return "ignore " + k.ManifestIgnored.GetPath() + ": " + k.ManifestIgnored.GetReason()
	case *journaletv1.Event_PodsKeptOut:
		return "kept out: " + cmp.Or(strings.Join(k.PodsKeptOut.GetPods(), " "), "none")
	case *journaletv1.Event_SourceSynced:
		return "synced"
	case *journaletv1.Event_PodForgotten:
		return "forget pod/" + n.aliasOf(k.PodForgotten.GetUid())
	case *journaletv1.Event_AdmissionRequested:
		return "request admission"
	case *journaletv1.Event_AdmissionDeferred:
		d := k.AdmissionDeferred
		if d.GetReason() != "" {
			return "defer pod/" + n.aliasOf(d.GetUid()) + ": " + d.GetReason()
		}
		return "defer pod/" + n.aliasOf(d.GetUid()) + " until pod/" + n.aliasOf(d.GetHolderUid()) + " has finished"
	case *journaletv1.Event_AdmissionPendingPreemption:
		return n.pending(k.AdmissionPendingPreemption)
	case *journaletv1.Event_AdmissionDecided:
		return n.admission(k.AdmissionDecided)
	case *journaletv1.Event_ImagePullRequested:
		return pullText(k.ImagePullRequested)
	case *journaletv1.Event_ImagePullWithdrawn:
		return "withdraw image " + k.ImagePullWithdrawn.GetImage()
	case *journaletv1.Event_ImagePullDecided:
		return n.pullDecided(k.ImagePullDecided)
	case *journaletv1.Event_CallRequested:
		return "call " + n.call(k.CallRequested)
	case *journaletv1.Event_CallWithdrawn:
		return "withdraw " + n.intent(k.CallWithdrawn.GetIntentId())
	case *journaletv1.Event_CallDropped:
		return "drop " + n.intent(k.CallDropped.GetIntentId())
	case *journaletv1.Event_CallDispatched:
		return "dispatch " + n.intent(k.CallDispatched.GetIntentId()) + dispatchNotes(k.CallDispatched)
	case *journaletv1.Event_BackOffStarted:
		return "back-off " + k.BackOffStarted.GetContainer() + " " + k.BackOffStarted.GetDelay().AsDuration().String()
	case *journaletv1.Event_ProbesSet:
		return probes(k.ProbesSet)
	case *journaletv1.Event_AllContainersRestarting:
		if k.AllContainersRestarting.GetAllStopped() {
			return "start all containers again"
		}
		return "restart all containers for " + k.AllContainersRestarting.GetContainer()
	case *journaletv1.Event_ReadinessGatesSet:
		from := ""
		if k.ReadinessGatesSet.GetApi() {
			from = " of the API server"
		}
		return "set readiness gates" + from + ": " + strings.Join(k.ReadinessGatesSet.GetTypes(), " ")
	case *journaletv1.Event_PodStatusChanged:
		return statusChanged(k.PodStatusChanged)
	case *journaletv1.Event_PodTerminating:
		return terminating(k.PodTerminating)
	case *journaletv1.Event_PodTerminated:
		return "terminated " + phase(k.PodTerminated.GetPhase())
	case *journaletv1.Event_PodFinished:
		return "finished"
	}
	return n.resize(e)
}

// admission prints the answer to a request for admission.
func (n *names) admission(d *journaletv1.AdmissionDecided) string {
	switch {
	case !d.GetAdmitted():
		return "reject pod/" + n.aliasOf(d.GetUid()) + " " + d.GetReason() + ": " + d.GetMessage()
	case d.GetReason() != "":
		return "leave pod/" + n.aliasOf(d.GetUid()) + " alone " + d.GetReason() + ": " + d.GetMessage()
	}
	return "admit pod/" + n.aliasOf(d.GetUid()) + idsText(d.GetUserNamespace()) + granted(d)
}

// claimOrOrphan describes decisions on UIDs and orphans.
func (n *names) claimOrOrphan(e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_UidRequested:
		return "request UID of pod/" + n.aliasOf(k.UidRequested.GetUid())
	case *journaletv1.Event_UidWithdrawn:
		return "withdraw UID of pod/" + n.aliasOf(k.UidWithdrawn.GetUid())
	case *journaletv1.Event_UidGranted:
		return "grant UID of pod/" + n.aliasOf(k.UidGranted.GetUid()) + " to source/" + k.UidGranted.GetSource()
	case *journaletv1.Event_UidDeferred:
		d := k.UidDeferred
		return "defer UID of pod/" + n.aliasOf(d.GetUid()) + " for source/" + d.GetSource() +
			", held by source/" + d.GetHolder()
	case *journaletv1.Event_OrphanFound:
		return "found orphan pod/" + n.aliasOf(k.OrphanFound.GetUid())
	case *journaletv1.Event_FoundCpusLeft:
		return "leave found cpus"
	case *journaletv1.Event_OrphanConfirmed:
		return "confirm orphan pod/" + n.aliasOf(k.OrphanConfirmed.GetUid())
	case *journaletv1.Event_PodEvictionDecided:
		v := k.PodEvictionDecided
		text := "end pod/" + n.aliasOf(v.GetUid()) + " (" + v.GetReason() + ")"
		if v.GetGrace() != nil {
			text += " grace=" + v.GetGrace().AsDuration().String()
		}
		if v.GetSignal() != "" {
			text += ": " + strings.TrimSpace(v.GetMessage())
		}
		return text
	case *journaletv1.Event_PodReadmitted:
		return "readmit pod/" + n.aliasOf(k.PodReadmitted.GetUid())
	case *journaletv1.Event_DrainProgressed:
		return n.drain(k.DrainProgressed)
	case *journaletv1.Event_ApiDeleteRequested:
		return "request deletion at the API server"
	}
	return n.image(e)
}

// drain describes the progress of a drain or a shutdown.
func (n *names) drain(p *journaletv1.DrainProgressed) string {
	text := "drain"
	if p.GetShutdown() {
		text = "shutdown"
	}
	if len(p.GetWaitingFor()) == 0 {
		return text + " complete"
	}
	text += " waits for"
	for _, uid := range p.GetWaitingFor() {
		text += " pod/" + n.aliasOf(uid)
	}
	return text
}

var operations = map[journaletv1.PodOperation]string{
	journaletv1.PodOperation_POD_OPERATION_ADD:    "add",
	journaletv1.PodOperation_POD_OPERATION_UPDATE: "update",
	journaletv1.PodOperation_POD_OPERATION_REMOVE: "remove",
}

// victims names the pods that are preempted.
func (n *names) victims(uids []string) string {
	text := ""
	for _, uid := range uids {
		text += ", preempt pod/" + n.aliasOf(uid)
	}
	return text
}

// timer replaces the UIDs in a timer's name by aliases.
func (n *names) timer(name string) string {
	for uid, alias := range n.alias {
		name = strings.ReplaceAll(name, uid, alias)
	}
	return name
}

func dispatchNotes(d *journaletv1.CallDispatched) string {
	if !d.GetInDoubt() {
		return ""
	}
	return " again, in doubt, after " + d.GetElapsed().AsDuration().String()
}

func (n *names) pullDecided(a *journaletv1.ImagePullDecided) string {
	text := "decide image " + a.GetImage() + " of pod/" + n.aliasOf(a.GetUid())
	if a.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
		return text + ": pulled"
	}
	return text + ": failed, retry in " + a.GetRetryAfter().AsDuration().String()
}

// intent describes a call's work in short, by the call's id.
func (n *names) intent(id string) string {
	op, container := opOf(n.intents[id])
	text := op
	if container != "" {
		text += " " + container
	}
	if p := n.intents[id].GetPullImage(); p != nil {
		return text + " " + p.GetImage() + credentials(p)
	}
	if r := n.intents[id].GetRemoveImage(); r != nil {
		return text + " " + r.GetImageId()
	}
	if r := n.intents[id].GetUpdateRuntimeConfig(); r != nil {
		return text + " " + r.GetPodCidr()
	}
	return text + " of pod/" + n.aliasOf(n.intents[id].GetPodUid())
}

// call describes a call's work in full.
func (n *names) call(r *journaletv1.CallRequested) string {
	op, container := opOf(r)
	text := op
	if container != "" {
		text += " " + container
	}
	switch k := r.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		text += fmt.Sprintf(" attempt=%d", k.RunSandbox.GetAttempt())
		text += idsText(k.RunSandbox.GetUserNamespace())
		text += givenText(k.RunSandbox.GetGiven())
		if k.RunSandbox.GetExclusiveCpus() {
			text += " without quota"
		}
	case *journaletv1.CallRequested_StartContainer:
		if k.StartContainer.GetPart() == journaletv1.StartPart_START_PART_START {
			return text + " " + k.StartContainer.GetContainerId()
		}
		text += fmt.Sprintf(" attempt=%d in %s", k.StartContainer.GetAttempt(), k.StartContainer.GetSandboxId())
		text += idsText(k.StartContainer.GetUserNamespace()) + placementText(k.StartContainer.GetPlacement())
		if target := k.StartContainer.GetTargetContainerId(); target != "" {
			text += " beside " + target
		}
	case *journaletv1.CallRequested_StopContainer:
		stop := k.StopContainer
		text += fmt.Sprintf(" %s grace=%s (%s)", stop.GetContainerId(), stop.GetGrace().AsDuration(), stop.GetReason())
	case *journaletv1.CallRequested_UpdateContainer:
		if k.UpdateContainer.GetResources() != nil {
			text += " " + resourcesText(k.UpdateContainer.GetResources())
		}
		text += placementText(k.UpdateContainer.GetPlacement())
	case *journaletv1.CallRequested_UpdateSandbox:
		text += " " + resourcesText(k.UpdateSandbox.GetResources())
	case *journaletv1.CallRequested_AllocateDevices:
		text += " " + k.AllocateDevices.GetResource() + "=" + strings.Join(k.AllocateDevices.GetIds(), ",")
	case *journaletv1.CallRequested_PreStartContainer:
		text += deviceIDs(k.PreStartContainer.GetDevices())
	case *journaletv1.CallRequested_PrepareClaims:
		text += claimsText(k.PrepareClaims.GetClaims(), k.PrepareClaims.GetInDoubt())
	case *journaletv1.CallRequested_UnprepareClaims:
		text += claimsText(k.UnprepareClaims.GetClaims(), nil)
	case *journaletv1.CallRequested_RunHook:
		text += " " + k.RunHook.GetContainerId()
		if k.RunHook.GetTimeout() != nil {
			text += " within=" + k.RunHook.GetTimeout().AsDuration().String()
		}
		if k.RunHook.GetReason() != "" {
			text += " (" + k.RunHook.GetReason() + ")"
		}
	case *journaletv1.CallRequested_RemoveContainer:
		text += " " + k.RemoveContainer.GetContainerId()
	case *journaletv1.CallRequested_StopSandbox:
		text += " " + k.StopSandbox.GetSandboxId()
	case *journaletv1.CallRequested_RemoveSandbox:
		text += " " + k.RemoveSandbox.GetSandboxId()
	case *journaletv1.CallRequested_PullImage:
		text += " " + k.PullImage.GetImage() + credentials(k.PullImage)
	case *journaletv1.CallRequested_RemoveImage:
		text += " " + k.RemoveImage.GetImageId() + " (" + k.RemoveImage.GetReason() + ")"
	case *journaletv1.CallRequested_UpdateRuntimeConfig:
		text += " " + k.UpdateRuntimeConfig.GetPodCidr()
	case *journaletv1.CallRequested_SetUpVolumes:
		text += volumesText(k.SetUpVolumes)
	case *journaletv1.CallRequested_CleanPod:
		if k.CleanPod.GetAll() {
			text += " all"
		}
	}
	return text
}

// credentials names what a pull may use, and what pods that share it have in common, unless it is the usual.
func credentials(r interface {
	GetNamespace() string
	GetPullSecrets() []string
	GetServiceAccount() string
	GetPod() *journaletv1.PodOfPull
}) string {
	text := ""
	if class := r.GetPod().GetRuntimeClass(); class != "" {
		text += " class=" + class
	}
	if r.GetPod().GetAlone() {
		text += " alone"
	}
	for _, name := range r.GetPullSecrets() {
		text += " secret=" + r.GetNamespace() + "/" + name
	}
	if r.GetServiceAccount() != "" {
		text += " account=" + r.GetNamespace() + "/" + r.GetServiceAccount()
	}
	return text
}

// pending describes a pod that waits for others to end.
func (n *names) pending(p *journaletv1.AdmissionPendingPreemption) string {
	return "keep pod/" + n.aliasOf(p.GetUid()) + " pending" + granted(p) + n.victims(p.GetVictims())
}

// granted names what an admitted pod gets.
func granted(d interface {
	GetDevices() []*journaletv1.ContainerDevices
	GetExclusive() []*journaletv1.ExclusiveContainer
}) string {
	return deviceIDs(d.GetDevices()) + aloneText(d.GetExclusive())
}

// idsText names the ids of a user namespace.
func idsText(ids *journaletv1.UserNamespace) string {
	if ids == nil {
		return ""
	}
	return fmt.Sprintf(" ids=%d+%d", ids.GetHostId(), ids.GetLength())
}

// opOf returns a scenario's name for a call's work, and the container that it is for.
func opOf(r *journaletv1.CallRequested) (op, container string) {
	switch k := r.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		return "run-sandbox", ""
	case *journaletv1.CallRequested_StartContainer:
		if k.StartContainer.GetPart() == journaletv1.StartPart_START_PART_CREATE {
			return "create-container", k.StartContainer.GetContainer()
		}
		return "start-container", k.StartContainer.GetContainer()
	case *journaletv1.CallRequested_StopContainer:
		return "stop-container", k.StopContainer.GetContainer()
	case *journaletv1.CallRequested_UpdateContainer:
		return "update-container", k.UpdateContainer.GetContainer()
	case *journaletv1.CallRequested_UpdateSandbox:
		return "update-sandbox", ""
	case *journaletv1.CallRequested_RemoveContainer:
		return "remove-container", k.RemoveContainer.GetContainer()
	case *journaletv1.CallRequested_StopSandbox:
		return "stop-sandbox", ""
	case *journaletv1.CallRequested_RemoveSandbox:
		return "remove-sandbox", ""
	case *journaletv1.CallRequested_PullImage:
		return "pull-image", ""
	case *journaletv1.CallRequested_RemoveImage:
		return "remove-image", ""
	case *journaletv1.CallRequested_UpdateRuntimeConfig:
		return "update-runtime-config", ""
	case *journaletv1.CallRequested_SetUpVolumes:
		if k.SetUpVolumes.GetCsi() {
			return "set-up-csi-volumes", ""
		}
		return "set-up-volumes", ""
	case *journaletv1.CallRequested_CleanPod:
		if k.CleanPod.GetCsi() {
			return "clean-csi-pod", ""
		}
		return "clean-pod", ""
	case *journaletv1.CallRequested_AllocateDevices:
		return "allocate-devices", k.AllocateDevices.GetContainer()
	case *journaletv1.CallRequested_PreStartContainer:
		return "pre-start-container", k.PreStartContainer.GetContainer()
	case *journaletv1.CallRequested_ReadClaims:
		return "read-claims", ""
	case *journaletv1.CallRequested_PrepareClaims:
		return "prepare-claims", ""
	case *journaletv1.CallRequested_UnprepareClaims:
		return "unprepare-claims", ""
	case *journaletv1.CallRequested_RunHook:
		return hooks[k.RunHook.GetKind()], k.RunHook.GetContainer()
	}
	return "unknown", ""
}

var hooks = map[journaletv1.HookKind]string{
	journaletv1.HookKind_HOOK_KIND_POST_START: "post-start",
	journaletv1.HookKind_HOOK_KIND_PRE_STOP:   "pre-stop",
}

func statusChanged(c *journaletv1.PodStatusChanged) string {
	text := "status " + phase(c.GetPhase())
	if c.GetReason() != "" {
		text += " " + c.GetReason()
	}
	text += fmt.Sprintf(" ready=%d restarts=%d", c.GetReady(), c.GetRestarts())
	for _, cond := range c.GetConditions() {
		if cond.GetType() == "Ready" {
			text += fmt.Sprintf(" Ready=%t", cond.GetStatus())
		}
		if strings.HasPrefix(cond.GetType(), "PodResize") {
			text += " " + cond.GetType() + "=" + cmp.Or(cond.GetReason(), "True")
		}
	}
	for _, gone := range c.GetRemovedConditions() {
		text += " no " + gone
	}
	for _, name := range slices.Sorted(maps.Keys(c.GetWaiting())) {
		if w := c.GetWaiting()[name]; w.GetReason() != "" {
			text += " " + name + "=" + w.GetReason()
		}
	}
	return text
}

func terminating(e *journaletv1.PodTerminating) string {
	text := "terminating"
	if e.GetReason() != "" {
		text += " " + e.GetReason()
	}
	if e.GetFailed() {
		text += " failed"
	}
	return text
}

func phase(p journaletv1.PodPhase) string {
	s := strings.TrimPrefix(p.String(), "POD_PHASE_")
	return s[:1] + strings.ToLower(s[1:])
}

// since returns the time since the scenario began, as text.
func since(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return "+" + t.Sub(begin).String()
}

// pullText names the pull that a pod requests.
func pullText(r *journaletv1.ImagePullRequested) string {
	text := "request image "
	if r.GetCredentialsChanged() {
		text = "request again, with other credentials, image "
	}
	return text + r.GetImage() + credentials(r)
}
