package query

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// maxRemembered bounds what a Describer keeps of each kind; the oldest is forgotten first.
	maxRemembered = 4096
	// maxText bounds what of a foreign message (a runtime's error, say) is told in one line, in bytes.
	maxText = 240
)

// Describer puts events into words. It remembers names, calls and observations as it meets them, so
// that later events can be told by them: events are to be shown to it in the journal's order. The
// words of an event that it meets alone are poorer, never wrong. It is not safe for concurrent use.
type Describer struct {
	names    memory[string]
	full     memory[string] // namespace/name
	calls    memory[string] // by intent id
	observed memory[*journaletv1.PodObserved]
}

// NewDescriber makes one that has met nothing.
func NewDescriber() *Describer { return &Describer{} }

// memory is a bounded map.
type memory[V any] struct {
	m     map[string]V
	order []string
}

func (m *memory[V]) put(k string, v V) {
	if m.m == nil {
		m.m = map[string]V{}
	}
	if _, ok := m.m[k]; !ok {
		if len(m.order) == maxRemembered {
			delete(m.m, m.order[0])
			m.order = m.order[1:]
		}
		m.order = append(m.order, k)
	}
	m.m[k] = v
}

// Name tells the namespace and name of the pod with a UID.
func (d *Describer) Name(uid, namespace, name string) {
	if uid != "" && name != "" {
		d.names.put(uid, name)
		d.full.put(uid, namespace+"/"+name)
	}
}

// which tells a pod that another one is told of: by namespace and name, as far as they are known, and by its UID, since a name
// may be another pod's by now.
func (d *Describer) which(uid string) string {
	if name := d.full.m[uid]; name != "" {
		return name + " (UID " + uid + ")"
	}
	return uid
}

// Actor is an actor for people: a pod by its name where that is known.
func (d *Describer) Actor(r messages.Ref) string {
	if r.Kind == journaletv1.ActorKind_ACTOR_KIND_POD {
		return "pod/" + d.podName(r.ID)
	}
	if r.ID == messages.Singleton {
		return r.KindName()
	}
	return r.String()
}

func (d *Describer) podName(uid string) string {
	if n := d.names.m[uid]; n != "" {
		return n
	}
	return uid
}

func (d *Describer) actorText(s string) string {
	r, err := messages.ParseRef(s)
	if err != nil {
		return s
	}
	return d.Actor(r)
}

// Describe tells one event in a short line, without remembering anything.
func Describe(author messages.Ref, e *journaletv1.Event) string {
	return NewDescriber().Describe("", author, e)
}

// Describe tells one event in a short line. id is the decision's, empty for a fact.
func (d *Describer) Describe(id string, author messages.Ref, e *journaletv1.Event) string {
	for _, p := range namedPods(e) {
		d.Name(p.GetUid(), p.GetNamespace(), p.GetName())
	}
	for _, f := range []func(string, messages.Ref, *journaletv1.Event) string{d.agentEvent, d.podEvent, d.callEvent, d.imageOrNode, d.resizeEvent} {
		if s := f(id, author, e); s != "" {
			return s
		}
	}
	if name := messages.EventName(e); name != "" {
		return strings.ReplaceAll(name, "_", " ")
	}
	return "an event of a newer version"
}

func (d *Describer) agentEvent(_ string, _ messages.Ref, e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		return fmt.Sprintf("agent %s started on %s (run %d)", k.AgentStarted.GetVersion(), k.AgentStarted.GetConfig().GetNodeName(), k.AgentStarted.GetEpoch())
	case *journaletv1.Event_AgentStopped:
		return withMessage("agent stopped", k.AgentStopped.GetReason())
	case *journaletv1.Event_JournalDamaged:
		return withMessage("journal damaged", k.JournalDamaged.GetMessage())
	case *journaletv1.Event_Quarantined:
		q := k.Quarantined
		return withMessage(fmt.Sprintf("quarantine %s, which failed on #%d (%s)", d.actorText(q.GetKind()+"/"+q.GetId()), q.GetCause(), decisionError(q.GetCode())), q.GetMessage())
	case *journaletv1.Event_QuarantineLifted:
		return "release " + d.actorText(k.QuarantineLifted.GetKind()+"/"+k.QuarantineLifted.GetId()) + " from quarantine"
	case *journaletv1.Event_TimerFired:
		return fmt.Sprintf("timer %q fired", k.TimerFired.GetName())
	case *journaletv1.Event_TimerSet:
		return fmt.Sprintf("set timer %q to %s", k.TimerSet.GetName(), span(k.TimerSet.GetDuration().AsDuration()))
	case *journaletv1.Event_TimerCleared:
		return fmt.Sprintf("clear timer %q", k.TimerCleared.GetName())
	case *journaletv1.Event_RuntimeHealthChanged:
		return runtimeHealth(k.RuntimeHealthChanged)
	case *journaletv1.Event_ManifestsRead:
		return manifestsRead(k.ManifestsRead)
	}
	return ""
}

func runtimeHealth(h *journaletv1.RuntimeHealthChanged) string {
	name := strings.TrimSpace(h.GetRuntimeName() + " " + h.GetRuntimeVersion())
	if name == "" {
		name = "the runtime"
	}
	switch {
	case h.GetRuntimeReady() && h.GetNetworkReady():
		return name + " is ready"
	case h.GetRuntimeReady():
		return withMessage(name+" is ready, its network is not", h.GetMessage())
	}
	return withMessage(name+" is not ready", h.GetMessage())
}

func manifestsRead(r *journaletv1.ManifestsRead) string {
	var paths []string
	pods, problems := 0, 0
	for _, f := range r.GetChanged() {
		pods += len(f.GetPods())
		problems += len(f.GetProblems())
		p := f.GetPath()
		switch {
		case f.GetUnreadable():
			p += " (unreadable)"
		case len(f.GetPods()) == 0 && len(f.GetProblems()) == 0:
			p += " (gone)"
		}
		paths = append(paths, p)
	}
	s := fmt.Sprintf("source %s was read: nothing new", r.GetSource())
	if len(paths) > 0 {
		s = fmt.Sprintf("source %s was read: %s with %s", r.GetSource(), list(paths, 3), count(pods, "pod"))
	}
	if problems > 0 {
		s += ", " + count(problems, "problem")
	}
	return s
}

func (d *Describer) podEvent(_ string, _ messages.Ref, e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_PodObserved:
		return d.podObserved(k.PodObserved)
	case *journaletv1.Event_PodUpdated:
		u := k.PodUpdated
		verb := map[journaletv1.PodOperation]string{
			journaletv1.PodOperation_POD_OPERATION_ADD: "run", journaletv1.PodOperation_POD_OPERATION_UPDATE: "change", journaletv1.PodOperation_POD_OPERATION_REMOVE: "remove",
		}[u.GetOperation()]
		return fmt.Sprintf("%s pod %s/%s (source %s)", or(verb, "update"), u.GetPod().GetNamespace(), u.GetPod().GetName(), u.GetSource())
	case *journaletv1.Event_ManifestIgnored:
		i := k.ManifestIgnored
		return withMessage(fmt.Sprintf("ignore pod %s/%s in %s (%s)", i.GetPod().GetNamespace(), i.GetPod().GetName(), i.GetPath(), i.GetReason()), i.GetMessage())
	case *journaletv1.Event_SourceReady:
		return fmt.Sprintf("source %s is ready", k.SourceReady.GetSource())
	case *journaletv1.Event_SourceSettled:
		return fmt.Sprintf("tell the node that source %s has been read", k.SourceSettled.GetSource())
	case *journaletv1.Event_SourceAsked:
		return fmt.Sprintf("ask source %s to tell when it has been read", k.SourceAsked.GetSource())
	case *journaletv1.Event_UidRequested:
		return fmt.Sprintf("ask for the UID %s for source %s", k.UidRequested.GetUid(), k.UidRequested.GetSource())
	case *journaletv1.Event_UidWithdrawn:
		return fmt.Sprintf("give the UID %s of source %s back", k.UidWithdrawn.GetUid(), k.UidWithdrawn.GetSource())
	case *journaletv1.Event_UidGranted:
		return fmt.Sprintf("give source %s the UID %s", k.UidGranted.GetSource(), k.UidGranted.GetUid())
	case *journaletv1.Event_UidDeferred:
		return fmt.Sprintf("let source %s wait for the UID %s, which source %s has", k.UidDeferred.GetSource(), k.UidDeferred.GetUid(), k.UidDeferred.GetHolder())
	case *journaletv1.Event_OrphanFound:
		return fmt.Sprintf("no source has named pod %s", k.OrphanFound.GetUid())
	case *journaletv1.Event_OrphanConfirmed:
		return fmt.Sprintf("every source has been read and none names pod %s: clear it away", k.OrphanConfirmed.GetUid())
	case *journaletv1.Event_PodForgotten:
		return "forget pod " + d.podName(k.PodForgotten.GetUid())
	case *journaletv1.Event_PodStatusChanged:
		return statusChanged(k.PodStatusChanged)
	case *journaletv1.Event_PodTerminating:
		return podEnding(k.PodTerminating)
	case *journaletv1.Event_PodTerminated:
		return fmt.Sprintf("pod %s has terminated (%s)", d.podName(k.PodTerminated.GetUid()), enumName(k.PodTerminated.GetPhase().String(), "POD_PHASE_"))
	case *journaletv1.Event_PodFinished:
		return fmt.Sprintf("pod %s has finished: nothing is left of it", d.podName(k.PodFinished.GetUid()))
	case *journaletv1.Event_ProbesSet:
		return probesSet(k.ProbesSet)
	case *journaletv1.Event_AllContainersRestarting:
		if k.AllContainersRestarting.GetAllStopped() {
			return "all containers have ended and begin again"
		}
		return "all containers are to begin again: a rule of container " + k.AllContainersRestarting.GetContainer() + " asks for it"
	case *journaletv1.Event_ReadinessGatesSet:
		return gatesSet(k.ReadinessGatesSet)
	case *journaletv1.Event_ReadinessGatesRead:
		return gatesRead(k.ReadinessGatesRead)
	case *journaletv1.Event_ProbeResult:
		return probeResult(k.ProbeResult)
	case *journaletv1.Event_BackOffStarted:
		return fmt.Sprintf("the next restart of container %s waits %s", k.BackOffStarted.GetContainer(), span(k.BackOffStarted.GetDelay().AsDuration()))
	}
	return ""
}

func podEnding(e *journaletv1.PodTerminating) string {
	if e.GetReason() == "" {
		return "end the pod: its containers have ended for good, and what runs beside them keeps it no longer"
	}
	return withMessage("end the pod ("+e.GetReason()+")", e.GetMessage())
}

// podObserved tells what is new against the observation before, or all if none was met.
func (d *Describer) podObserved(o *journaletv1.PodObserved) string {
	before := d.observed.m[o.GetUid()]
	d.observed.put(o.GetUid(), o)
	var parts []string
	for _, s := range o.GetSandboxes() {
		if was := sandboxText(sandboxOf(before, s.GetId())); was != sandboxText(s) {
			parts = append(parts, sandboxText(s))
		}
	}
	for _, c := range o.GetContainers() {
		if was := containerText(containerOf(before, c.GetId())); was != containerText(c) {
			parts = append(parts, containerText(c))
		}
	}
	for _, s := range before.GetSandboxes() {
		if sandboxOf(o, s.GetId()) == nil {
			parts = append(parts, "sandbox is gone")
		}
	}
	for _, c := range before.GetContainers() {
		if containerOf(o, c.GetId()) == nil {
			parts = append(parts, fmt.Sprintf("container %s (attempt %d) is gone", c.GetName(), c.GetAttempt()))
		}
	}
	switch {
	case len(parts) > 0:
		return list(parts, 6)
	case len(o.GetSandboxes())+len(o.GetContainers()) == 0:
		return "nothing of the pod is on the node"
	}
	return "the pod looks different in details"
}

func sandboxOf(o *journaletv1.PodObserved, id string) *journaletv1.SandboxObservation {
	for _, s := range o.GetSandboxes() {
		if s.GetId() == id {
			return s
		}
	}
	return nil
}

func containerOf(o *journaletv1.PodObserved, id string) *journaletv1.ContainerObservation {
	for _, c := range o.GetContainers() {
		if c.GetId() == id {
			return c
		}
	}
	return nil
}

func sandboxText(s *journaletv1.SandboxObservation) string {
	switch s.GetState() {
	case journaletv1.SandboxState_SANDBOX_STATE_READY:
		return strings.TrimSpace("sandbox ready " + strings.Join(s.GetIps(), ","))
	case journaletv1.SandboxState_SANDBOX_STATE_NOT_READY:
		return "sandbox not ready"
	}
	return ""
}

func containerText(c *journaletv1.ContainerObservation) string {
	name := "container " + c.GetName()
	if c.GetAttempt() > 0 {
		name += fmt.Sprintf(" (attempt %d)", c.GetAttempt())
	}
	switch c.GetState() {
	case journaletv1.ContainerState_CONTAINER_STATE_CREATED:
		return name + " created"
	case journaletv1.ContainerState_CONTAINER_STATE_RUNNING:
		return name + " running"
	case journaletv1.ContainerState_CONTAINER_STATE_EXITED:
		s := fmt.Sprintf("%s exited %d", name, c.GetExitCode())
		if c.GetReason() != "" {
			s += " (" + c.GetReason() + ")"
		}
		return s
	case journaletv1.ContainerState_CONTAINER_STATE_UNKNOWN:
		return name + " in unknown state"
	}
	return ""
}

func statusChanged(c *journaletv1.PodStatusChanged) string {
	parts := []string{enumName(c.GetPhase().String(), "POD_PHASE_")}
	for _, cond := range c.GetConditions() {
		if cond.GetType() == string(corev1.PodReady) {
			parts = append(parts, map[bool]string{true: "Ready", false: "not Ready"}[cond.GetStatus()])
		}
		if t := corev1.PodConditionType(cond.GetType()); t == corev1.PodResizePending || t == corev1.PodResizeInProgress {
			parts = append(parts, withReason(cond.GetType(), cond.GetReason()))
		}
	}
	names := make([]string, 0, len(c.GetWaiting()))
	for n, w := range c.GetWaiting() {
		if w.GetReason() != "" {
			names = append(names, n+" "+w.GetReason())
		}
	}
	slices.Sort(names)
	parts = append(parts, names...)
	if c.GetRestarts() > 0 {
		parts = append(parts, count(int(c.GetRestarts()), "restart"))
	}
	s := "status: " + strings.Join(parts, ", ")
	if c.GetReason() != "" {
		s = withMessage(s+" ("+c.GetReason()+")", c.GetMessage())
	}
	return s
}

// withMessage adds a message to a text, on one line and cut to a bearable length.
func withMessage(s, message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if message == "" {
		return s
	}
	if len(message) > maxText {
		message = strings.ToValidUTF8(message[:maxText], "") + "..."
	}
	return s + ": " + message
}

// enumName is an enum's value for people: POD_PHASE_RUNNING is Running, CALL_ERROR_SANDBOX_GONE SandboxGone.
func enumName(s, prefix string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(strings.TrimPrefix(s, prefix), "_") {
		if part != "" {
			b.WriteString(part[:1] + strings.ToLower(part[1:]))
		}
	}
	return b.String()
}

func decisionError(c journaletv1.DecisionError) string {
	return enumName(c.String(), "DECISION_ERROR_")
}

func uid(s string) types.UID { return types.UID(s) }

// span is a duration with no more than three digits of what does not matter.
func span(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func list(parts []string, most int) string {
	if len(parts) > most {
		return strings.Join(parts[:most], ", ") + fmt.Sprintf(" and %d more", len(parts)-most)
	}
	return strings.Join(parts, ", ")
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
