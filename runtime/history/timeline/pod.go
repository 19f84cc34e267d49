package timeline

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
)

// pod folds what is recorded about one pod to its lanes.
type pod struct {
	b     *builder
	group *Group
	uid   string

	added, removed, terminated, gone bool
	phase                            journaletv1.PodPhase
	ready                            bool
	// waits is why the pod is not admitted, stops why it is terminating, reason its status's reason.
	waits, stops, reason string

	sandbox    sandbox
	containers map[string]*container
	pulling    map[string]*Lane // by image
	gates      []string
}

func newPod(b *builder, uid string) *pod {
	return &pod{
		b: b, uid: uid, group: newGroup(PodGroup, uid, uid), containers: map[string]*container{}, pulling: map[string]*Lane{},
	}
}

// name sets the pod's name from an event that holds it.
func (p *pod) name(e *journaletv1.Event) {
	for _, ref := range history.NamedPods(e) {
		if ref.GetUid() == p.uid && ref.GetName() != "" {
			p.group.Name = ref.GetNamespace() + "/" + ref.GetName()
		}
	}
	if o := e.GetPodObserved(); o.GetPodName() != "" && p.group.Name == p.uid {
		p.group.Name = o.GetPodNamespace() + "/" + o.GetPodName()
	}
}

func (p *pod) fold(ev *Event) {
	switch k := ev.event.GetKind().(type) {
	case *journaletv1.Event_PodUpdated, *journaletv1.Event_AdmissionRequested, *journaletv1.Event_AdmissionDecided,
		*journaletv1.Event_AdmissionDeferred, *journaletv1.Event_AdmissionPendingPreemption,
		*journaletv1.Event_OrphanConfirmed:
		p.foldAdmission(ev)
	case *journaletv1.Event_PodStatusChanged:
		p.statusChanged(ev, k.PodStatusChanged)
	case *journaletv1.Event_PodTerminating:
		p.stops = cmp.Or(k.PodTerminating.GetReason(), "containers are done")
	case *journaletv1.Event_PodTerminated:
		p.terminated, p.phase = true, k.PodTerminated.GetPhase()
	case *journaletv1.Event_PodFinished:
		p.finish(ev)
		return
	case *journaletv1.Event_PodObserved:
		p.observed(ev, k.PodObserved)
	case *journaletv1.Event_ProbesSet, *journaletv1.Event_ProbeResult:
		p.foldProbes(ev)
	case *journaletv1.Event_ReadinessGatesSet, *journaletv1.Event_ReadinessGatesRead:
		p.foldGates(ev)
	case *journaletv1.Event_ImagePullRequested, *journaletv1.Event_ImagePullWithdrawn,
		*journaletv1.Event_ImagePullDecided:
		p.foldPulls(ev)
	case *journaletv1.Event_ResizeRequested, *journaletv1.Event_ResizeDecided, *journaletv1.Event_ResizeStarted,
		*journaletv1.Event_ResizePendingPreemption, *journaletv1.Event_ResizeWithdrawn,
		*journaletv1.Event_ResizeCompleted:
		p.foldResize(ev)
	case *journaletv1.Event_BackOffStarted:
		p.container(k.BackOffStarted.GetContainer()).show(ev)
	case *journaletv1.Event_Quarantined:
		p.group.lane("quarantine", "", "quarantine", rankQuarantine).set(ev, ClassFail, "quarantined")
		return
	case *journaletv1.Event_QuarantineLifted:
		p.group.lane("quarantine", "", "quarantine", rankQuarantine).close(ev)
		return
	default:
		return
	}
	p.showPhase(ev)
}

func (p *pod) foldAdmission(ev *Event) {
	switch k := ev.event.GetKind().(type) {
	case *journaletv1.Event_PodUpdated:
		switch k.PodUpdated.GetOperation() {
		case journaletv1.PodOperation_POD_OPERATION_ADD:
			if !p.added || p.gone {
				p.begin()
			}
		case journaletv1.PodOperation_POD_OPERATION_REMOVE:
			p.removed, p.stops = true, "removed"
		}
	case *journaletv1.Event_AdmissionRequested:
		p.begin()
	case *journaletv1.Event_AdmissionDeferred:
		if p.waits = "its name is taken"; k.AdmissionDeferred.GetReason() != "" {
			p.waits = k.AdmissionDeferred.GetReason()
		}
	case *journaletv1.Event_AdmissionPendingPreemption:
		if k.AdmissionPendingPreemption.GetUid() == p.uid {
			p.waits = "preempts others"
		} else {
			p.stops = "preempted"
		}
	case *journaletv1.Event_AdmissionDecided:
		if p.waits = ""; !k.AdmissionDecided.GetAdmitted() {
			p.waits = "rejected: " + k.AdmissionDecided.GetReason()
		}
	case *journaletv1.Event_OrphanConfirmed:
		p.stops = "orphan"
	}
}

// begin begins an incarnation.
func (p *pod) begin() {
	p.added, p.gone, p.removed, p.terminated = true, false, false, false
	p.phase, p.ready, p.waits, p.stops, p.reason = journaletv1.PodPhase_POD_PHASE_PENDING, false, "admission", "", ""
}

// finish ends all that is open: nothing of the pod is left on the node.
func (p *pod) finish(ev *Event) {
	p.gone, p.added = true, false
	for _, l := range p.group.lanes {
		l.close(ev)
		if l.Kind == "calls" || l.Kind == "start" {
			continue // they end on their own
		}
		for _, s := range l.Spans {
			s.finish(ev)
		}
	}
	p.containers, p.pulling, p.sandbox = map[string]*container{}, map[string]*Lane{}, sandbox{}
}

func (p *pod) statusChanged(ev *Event, k *journaletv1.PodStatusChanged) {
	p.phase, p.reason = k.GetPhase(), k.GetReason()
	for _, c := range k.GetConditions() {
		if c.GetType() == "Ready" {
			p.ready = c.GetStatus()
		}
	}
	for name, w := range k.GetWaiting() {
		p.container(name).waiting = w.GetReason()
	}
	p.showContainers(ev)
}

func (p *pod) showPhase(ev *Event) {
	lane := p.group.lane("phase", "", "phase", rankPhase)
	label := describe.Enum(p.phase.String(), "POD_PHASE_")
	if p.reason != "" {
		label += " (" + p.reason + ")"
	}
	switch failed := p.phase == journaletv1.PodPhase_POD_PHASE_FAILED; {
	case p.gone:
	case p.terminated && p.removed:
		lane.set(ev, ClassStop, "Cleaning up")
	case p.stops != "" && !p.terminated:
		lane.set(ev, ClassStop, "Terminating ("+p.stops+")")
	case failed:
		lane.set(ev, ClassFail, label)
	case p.phase == journaletv1.PodPhase_POD_PHASE_SUCCEEDED:
		lane.set(ev, ClassDone, label)
	case p.phase == journaletv1.PodPhase_POD_PHASE_RUNNING && p.ready:
		lane.set(ev, ClassOK, "Ready")
	case p.phase == journaletv1.PodPhase_POD_PHASE_RUNNING:
		lane.set(ev, ClassRun, "Running, not ready")
	case p.added && p.waits != "":
		lane.set(ev, ClassWait, "Pending ("+p.waits+")")
	case p.added:
		lane.set(ev, ClassWait, "Pending")
	case p.phase == journaletv1.PodPhase_POD_PHASE_UNSPECIFIED:
		lane.set(ev, ClassDown, "in no source")
	}
}

func (p *pod) foldProbes(ev *Event) {
	lane := func(container string, k journaletv1.ProbeKind) *Lane {
		name := strings.ToLower(describe.Enum(k.String(), "PROBE_KIND_"))
		return p.group.lane("probe", container, name, rankContainer)
	}
	switch k := ev.event.GetKind().(type) {
	case *journaletv1.Event_ProbesSet:
		set := map[string]bool{}
		c := p.container(k.ProbesSet.GetContainer())
		another := c.probed != k.ProbesSet.GetContainerId()
		c.probed = k.ProbesSet.GetContainerId()
		for _, kind := range k.ProbesSet.GetKinds() {
			l := lane(k.ProbesSet.GetContainer(), kind)
			if set[l.Name] = true; l.open == nil || another {
				l.close(ev)
				if kind == journaletv1.ProbeKind_PROBE_KIND_LIVENESS { // only its failure is recorded
					l.set(ev, ClassOK, "no failure")
				} else {
					l.set(ev, ClassWait, "no result yet")
				}
			}
		}
		for _, l := range p.group.Lanes {
			if l.Kind == "probe" && l.Container == k.ProbesSet.GetContainer() && !set[l.Name] {
				l.close(ev)
			}
		}
	case *journaletv1.Event_ProbeResult:
		r := k.ProbeResult
		if l := lane(r.GetContainer(), r.GetKind()); r.GetSuccess() {
			l.set(ev, ClassOK, "passing")
		} else {
			l.set(ev, ClassFail, "failing")
		}
	}
}

func (p *pod) foldGates(ev *Event) {
	lane := p.group.lane("gates", "", "gates", rankGates)
	switch k := ev.event.GetKind().(type) {
	case *journaletv1.Event_ReadinessGatesSet:
		if p.gates = k.ReadinessGatesSet.GetTypes(); len(p.gates) == 0 {
			lane.close(ev)
			return
		}
		lane.set(ev, ClassWait, "not read yet")
	case *journaletv1.Event_ReadinessGatesRead:
		var missing []string
		for _, gate := range p.gates {
			if !holds(k.ReadinessGatesRead.GetConditions(), gate) {
				missing = append(missing, gate)
			}
		}
		if len(missing) == 0 {
			lane.set(ev, ClassOK, "all True")
		} else {
			lane.set(ev, ClassWait, "not True: "+strings.Join(missing, ", "))
		}
	}
}

func holds(conditions []*journaletv1.ReadinessGateCondition, gate string) bool {
	for _, c := range conditions {
		if c.GetType() == gate {
			return c.GetStatus() == "True"
		}
	}
	return false
}

func (p *pod) foldPulls(ev *Event) {
	lane := func(image string) *Lane {
		l := p.group.lane("pull", "", "pull "+shortImage(image), rankPull)
		p.pulling[image] = l
		return l
	}
	switch k := ev.event.GetKind().(type) {
	case *journaletv1.Event_ImagePullRequested:
		lane(k.ImagePullRequested.GetImage()).set(ev, ClassBusy, "pulling")
	case *journaletv1.Event_ImagePullWithdrawn:
		lane(k.ImagePullWithdrawn.GetImage()).close(ev)
		delete(p.pulling, k.ImagePullWithdrawn.GetImage())
	case *journaletv1.Event_ImagePullDecided:
		d := k.ImagePullDecided
		l := lane(d.GetImage())
		switch {
		case d.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED:
			l.close(ev)
			delete(p.pulling, d.GetImage())
		case d.GetRetryAfter().AsDuration() > 0:
			l.set(ev, ClassBackOff, "back-off "+span(d.GetRetryAfter().AsDuration()))
		default:
			l.set(ev, ClassFail, "failed")
		}
	}
}

// shortImage returns an image's last path element.
func shortImage(image string) string {
	return image[strings.LastIndexByte(image, '/')+1:]
}

func (p *pod) foldResize(ev *Event) {
	lane := p.group.lane("resize", "", "resize", rankResize)
	switch k := ev.event.GetKind().(type) {
	case *journaletv1.Event_ResizeRequested:
		lane.set(ev, ClassWait, "requested")
	case *journaletv1.Event_ResizePendingPreemption:
		if k.ResizePendingPreemption.GetUid() == p.uid {
			lane.set(ev, ClassWait, "preempts others")
		} else {
			p.stops = "preempted"
		}
	case *journaletv1.Event_ResizeDecided:
		if k.ResizeDecided.GetAllocated() {
			lane.set(ev, ClassBusy, "applying")
		} else {
			lane.set(ev, ClassBackOff, fmt.Sprintf("pending (%s)", k.ResizeDecided.GetReason()))
		}
	case *journaletv1.Event_ResizeStarted:
		lane.set(ev, ClassBusy, "applying")
	case *journaletv1.Event_ResizeWithdrawn, *journaletv1.Event_ResizeCompleted:
		lane.close(ev)
	}
}
