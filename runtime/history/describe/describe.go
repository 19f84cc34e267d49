package describe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/plain"
	"github.com/journalet/journalet/runtime/history"
)

const (
	// maxRemembered bounds what a Describer keeps of each kind; the oldest is forgotten first.
	maxRemembered = 4096
	// maxText bounds the part of a message from elsewhere, such as a runtime's error, that one line shows, in bytes.
	maxText = 240
)

// Describer describes events in words. It remembers the names, calls and observations of earlier events to describe
// later ones, so it must get the events in the journal's order. Without the earlier events a description has less
// detail but is not wrong. It is not safe for concurrent use.
type Describer struct {
	names    memory[string]   // by pod UID
	full     memory[string]   // namespace/name by pod UID
	calls    memory[callText] // by intent id
	observed memory[*journaletv1.PodObserved]
}

// New returns a Describer that remembers nothing yet.
func New() *Describer { return &Describer{} }

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

// Name records the namespace and name of the pod with a UID.
func (d *Describer) Name(uid, namespace, name string) {
	if uid != "" && name != "" {
		d.names.put(uid, name)
		d.full.put(uid, namespace+"/"+name)
	}
}

// podRef formats namespace/name (UID uid), or the UID if the name is unknown. The UID is always there: names are
// reused.
func (d *Describer) podRef(uid string) string {
	if name := d.full.m[uid]; name != "" {
		return name + " (UID " + uid + ")"
	}
	return uid
}

// Actor formats an actor for display: a pod by its name if it is known.
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

// Describe returns one event as a short line. id is the decision's id, empty for a fact.
func (d *Describer) Describe(id string, author messages.Ref, e *journaletv1.Event) string {
	for _, p := range history.NamedPods(e) {
		d.Name(p.GetUid(), p.GetNamespace(), p.GetName())
	}
	for _, describe := range d.describers() {
		if s := describe(id, e); s != "" {
			return s
		}
	}
	if name := messages.EventName(e); name != "" {
		return strings.ReplaceAll(name, "_", " ")
	}
	return "event of a newer version"
}

// describers return "" for events that they do not describe.
func (d *Describer) describers() []func(id string, e *journaletv1.Event) string {
	return []func(string, *journaletv1.Event) string{
		d.agentEvent, d.sourceEvent, d.podEvent, d.callEvent, d.imageEvent, d.admissionEvent, d.resizeEvent,
		d.operatorEvent, d.storageEvent, d.clusterEvent, d.devices,
	}
}

func (d *Describer) agentEvent(_ string, e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		s := k.AgentStarted
		text := fmt.Sprintf("agent %s started on node %s (epoch %d)", s.GetVersion(), s.GetConfig().GetNodeName(),
			s.GetEpoch())
		if left := s.GetKubeletState(); left != nil {
			text += fmt.Sprintf(", with what a kubelet had given to %s", Count(len(left.GetPods()), "pod"))
			if n := len(left.GetImages()); n > 0 {
				text += fmt.Sprintf(" and pulled of %s", Count(n, "image"))
			}
			text = withMessage(text, strings.Join(left.GetProblems(), "; "))
		}
		if n := len(s.GetFoundResources()); n > 0 {
			text += fmt.Sprintf(", with what %s had before the journal was lost", Count(n, "pod"))
		}
		return text
	case *journaletv1.Event_AgentStopped:
		return withMessage("agent stopped", k.AgentStopped.GetReason())
	case *journaletv1.Event_JournalDamaged:
		return withMessage("journal damaged", k.JournalDamaged.GetMessage())
	case *journaletv1.Event_Quarantined:
		q := k.Quarantined
		who := d.actorText(q.GetKind() + "/" + q.GetId())
		s := fmt.Sprintf("quarantined %s: it failed on #%d (%s)", who, q.GetCause(), DecisionError(q.GetCode()))
		return withMessage(s, q.GetMessage())
	case *journaletv1.Event_QuarantineLifted:
		s := "lifted the quarantine of " + d.actorText(k.QuarantineLifted.GetKind()+"/"+k.QuarantineLifted.GetId())
		if skipped := k.QuarantineLifted.GetSkipped(); skipped > 0 {
			s += fmt.Sprintf(", which skips #%d", skipped)
		}
		return s
	case *journaletv1.Event_TimerFired:
		return fmt.Sprintf("timer %q fired", k.TimerFired.GetName())
	case *journaletv1.Event_TimerSet:
		return fmt.Sprintf("timer %q set to %s", k.TimerSet.GetName(), span(k.TimerSet.GetDuration().AsDuration()))
	case *journaletv1.Event_TimerCleared:
		return fmt.Sprintf("timer %q cleared", k.TimerCleared.GetName())
	case *journaletv1.Event_RuntimeHealthChanged:
		return runtimeHealth(k.RuntimeHealthChanged)
	}
	return ""
}

func runtimeHealth(h *journaletv1.RuntimeHealthChanged) string {
	name := strings.TrimSpace(h.GetRuntimeName() + " " + h.GetRuntimeVersion())
	if name == "" {
		name = "container runtime"
	}
	switch {
	case h.GetRuntimeReady() && h.GetNetworkReady():
		return name + " ready"
	case h.GetRuntimeReady():
		return withMessage(name+" ready, network not ready", h.GetMessage())
	}
	return withMessage(name+" not ready", h.GetMessage())
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
			p += " (removed)"
		}
		paths = append(paths, p)
	}
	s := "read source " + r.GetSource()
	if len(paths) == 0 {
		return s + ": no changes"
	}
	s += ": " + list(paths, 3)
	if pods > 0 || problems > 0 {
		s += " with " + Count(pods, "pod")
	}
	if problems > 0 {
		s += ", " + Count(problems, "problem")
	}
	return s
}

func (d *Describer) sourceEvent(_ string, e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_ManifestsRead:
		return manifestsRead(k.ManifestsRead)
	case *journaletv1.Event_PodUpdated:
		u := k.PodUpdated
		verb := map[journaletv1.PodOperation]string{
			journaletv1.PodOperation_POD_OPERATION_ADD:    "added",
			journaletv1.PodOperation_POD_OPERATION_REMOVE: "removed",
		}[u.GetOperation()]
		return fmt.Sprintf("%s pod %s (source %s)", cmp.Or(verb, "updated"), refName(u.GetPod()), u.GetSource())
	case *journaletv1.Event_ManifestIgnored:
		i := k.ManifestIgnored
		s := fmt.Sprintf("ignored pod %s in %s (%s)", refName(i.GetPod()), i.GetPath(), i.GetReason())
		return withMessage(s, i.GetMessage())
	case *journaletv1.Event_PodsKeptOut:
		if len(k.PodsKeptOut.GetPods()) == 0 {
			return fmt.Sprintf("manifests of source %s keep no pod out any more", k.PodsKeptOut.GetSource())
		}
		return fmt.Sprintf("problems of manifests of source %s keep out %s: what runs of them stays",
			k.PodsKeptOut.GetSource(), strings.Join(k.PodsKeptOut.GetPods(), ", "))
	case *journaletv1.Event_SourceSynced:
		return fmt.Sprintf("source %s synced", k.SourceSynced.GetSource())
	case *journaletv1.Event_UidRequested:
		return fmt.Sprintf("requested UID %s for source %s", k.UidRequested.GetUid(), k.UidRequested.GetSource())
	case *journaletv1.Event_UidWithdrawn:
		return fmt.Sprintf("withdrew UID %s of source %s", k.UidWithdrawn.GetUid(), k.UidWithdrawn.GetSource())
	case *journaletv1.Event_UidGranted:
		return fmt.Sprintf("granted UID %s to source %s", k.UidGranted.GetUid(), k.UidGranted.GetSource())
	case *journaletv1.Event_UidDeferred:
		u := k.UidDeferred
		return fmt.Sprintf("deferred UID %s for source %s: source %s has it", u.GetUid(), u.GetSource(), u.GetHolder())
	case *journaletv1.Event_OrphanFound:
		return fmt.Sprintf("found orphan pod %s: in the runtime, in no source", k.OrphanFound.GetUid())
	case *journaletv1.Event_OrphanConfirmed:
		return fmt.Sprintf("confirmed orphan pod %s, all sources are synced: deleting it", k.OrphanConfirmed.GetUid())
	case *journaletv1.Event_PodForgotten:
		return fmt.Sprintf("forgot pod %s: finished and in no source", d.podName(k.PodForgotten.GetUid()))
	}
	return ""
}

// refName formats namespace/name.
func refName(p *journaletv1.PodRef) string { return p.GetNamespace() + "/" + p.GetName() }

func (d *Describer) podEvent(_ string, e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_PodObserved:
		return d.podObserved(k.PodObserved)
	case *journaletv1.Event_PodStatusChanged:
		return statusChanged(k.PodStatusChanged)
	case *journaletv1.Event_PodTerminating:
		if t := k.PodTerminating; t.GetReason() != "" {
			return withMessage("terminating the pod ("+t.GetReason()+")", t.GetMessage())
		}
		return "terminating the pod: its main containers have exited for good, only sidecars are left"
	case *journaletv1.Event_PodTerminated:
		phase := Enum(k.PodTerminated.GetPhase().String(), "POD_PHASE_")
		return fmt.Sprintf("pod %s terminated (%s)", d.podName(k.PodTerminated.GetUid()), phase)
	case *journaletv1.Event_PodFinished:
		return fmt.Sprintf("pod %s finished: nothing of it is left on the node", d.podName(k.PodFinished.GetUid()))
	case *journaletv1.Event_ProbesSet:
		return probesSet(k.ProbesSet)
	case *journaletv1.Event_AllContainersRestarting:
		if k.AllContainersRestarting.GetAllStopped() {
			return "all containers stopped, starting them again"
		}
		return "restarting all containers: restart rule of container " + k.AllContainersRestarting.GetContainer()
	case *journaletv1.Event_ReadinessGatesSet:
		return readinessGatesSet(k.ReadinessGatesSet)
	case *journaletv1.Event_ReadinessGatesRead:
		return readinessGatesRead(k.ReadinessGatesRead)
	case *journaletv1.Event_ObjectsSet:
		return objectsSet(k.ObjectsSet)
	case *journaletv1.Event_ObjectsRead:
		return objectsRead(k.ObjectsRead)
	case *journaletv1.Event_VolumesLost:
		return "volumes are no longer mounted: " + strings.Join(k.VolumesLost.GetNames(), ", ")
	case *journaletv1.Event_PodDirectoryFound:
		return "found a directory of the pod that the journal does not know of"
	case *journaletv1.Event_PodCgroupLost:
		return "the pod has lost its cgroup"
	case *journaletv1.Event_StorageExceeded:
		return "used more ephemeral storage than allowed: " + k.StorageExceeded.GetMessage()
	case *journaletv1.Event_OomKillObserved:
		return d.oomKill(k.OomKillObserved)
	case *journaletv1.Event_ProbeResult:
		return probeResult(k.ProbeResult)
	case *journaletv1.Event_BackOffStarted:
		delay := span(k.BackOffStarted.GetDelay().AsDuration())
		return fmt.Sprintf("back-off %s restarting container %s", delay, k.BackOffStarted.GetContainer())
	}
	return ""
}

// podObserved lists the differences to the previous observation, or everything if no previous one is known.
func (d *Describer) podObserved(o *journaletv1.PodObserved) string {
	before := d.observed.m[o.GetUid()]
	d.observed.put(o.GetUid(), o)
	var parts []string
	for _, s := range o.GetSandboxes() {
		if was := sandboxText(SandboxOf(before, s.GetId())); was != sandboxText(s) {
			parts = append(parts, sandboxText(s))
		}
	}
	for _, c := range o.GetContainers() {
		if was := containerText(ContainerOf(before, c.GetId())); was != containerText(c) {
			parts = append(parts, containerText(c))
		}
	}
	for _, s := range before.GetSandboxes() {
		if SandboxOf(o, s.GetId()) == nil {
			parts = append(parts, "sandbox removed")
		}
	}
	for _, c := range before.GetContainers() {
		if ContainerOf(o, c.GetId()) == nil {
			parts = append(parts, fmt.Sprintf("container %s (attempt %d) removed", c.GetName(), c.GetAttempt()))
		}
	}
	switch {
	case len(parts) > 0:
		return list(parts, 6)
	case len(o.GetSandboxes())+len(o.GetContainers()) == 0:
		return "no sandbox and no container"
	}
	return "details changed"
}

// IsBookkeeping reports whether a decision adds nothing for a reader to the other decisions of its step.
func IsBookkeeping(e *journaletv1.Event) bool {
	return e.GetTimerSet() != nil || e.GetTimerCleared() != nil
}

// SandboxOf returns the sandbox with an id that was observed, nil without one.
func SandboxOf(o *journaletv1.PodObserved, id string) *journaletv1.SandboxObservation {
	for _, s := range o.GetSandboxes() {
		if s.GetId() == id {
			return s
		}
	}
	return nil
}

// ContainerOf returns the container with an id that was observed, nil without one.
func ContainerOf(o *journaletv1.PodObserved, id string) *journaletv1.ContainerObservation {
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
	parts := []string{Enum(c.GetPhase().String(), "POD_PHASE_")}
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
		parts = append(parts, Count(int(c.GetRestarts()), "restart"))
	}
	s := "status: " + strings.Join(parts, ", ")
	if c.GetReason() != "" {
		s = withMessage(s+" ("+c.GetReason()+")", c.GetMessage())
	}
	return s
}

// withMessage adds a message to a text, on one line and of at most maxText bytes.
func withMessage(s, message string) string {
	if message = clip(message); message == "" {
		return s
	}
	return s + ": " + message
}

// clip returns a text on one line, of at most maxText bytes.
func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxText {
		return plain.Cut(s, maxText) + "..."
	}
	return s
}

// Enum formats an enum's value: POD_PHASE_RUNNING is Running, CALL_ERROR_SANDBOX_GONE is SandboxGone.
func Enum(s, prefix string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(strings.TrimPrefix(s, prefix), "_") {
		if part != "" {
			b.WriteString(part[:1] + strings.ToLower(part[1:]))
		}
	}
	return b.String()
}

// DecisionError returns an error of a decider in words.
func DecisionError(c journaletv1.DecisionError) string {
	return Enum(c.String(), "DECISION_ERROR_")
}

// span formats a duration: from a minute on in seconds, from a second on in 10 ms, below in milliseconds.
func span(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// Count returns a number of things in words: "1 pod", "2 pods".
func Count(n int, what string) string {
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
