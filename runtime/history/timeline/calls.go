package timeline

import (
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/kind"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
)

// call is one call under way.
type call struct {
	request *journaletv1.CallRequested
	pod     *pod // nil for a pull, and for a pod that the picture does not show
	span    *Span
}

// containerOf returns the container that an event is about, "" for none.
func (b *builder) containerOf(ev *Event) string {
	fd := messages.EventField(ev.event)
	if fd == nil {
		return ""
	}
	m := ev.event.ProtoReflect().Get(fd).Message()
	request := ev.event.GetCallRequested()
	if c := b.calls[history.Text(m, "intent_id")]; c != nil {
		request = c.request
	}
	if request == nil {
		return history.Text(m, "container")
	}
	m = request.ProtoReflect()
	if fd := m.WhichOneof(m.Descriptor().Oneofs().ByName("work")); fd != nil {
		return history.Text(m.Get(fd).Message(), "container")
	}
	return ""
}

// foldShared folds events of calls, which concern a pod, the images and the node's lanes.
func (b *builder) foldShared(ev *Event) {
	switch k := ev.event.GetKind().(type) {
	case *journaletv1.Event_CallRequested:
		b.callRequested(ev, k.CallRequested)
	case *journaletv1.Event_CallDispatched:
		if c := b.calls[k.CallDispatched.GetIntentId()]; c != nil {
			b.callDispatched(ev, c, k.CallDispatched.GetInDoubt())
		}
	case *journaletv1.Event_CallDropped:
		b.callEnded(ev, k.CallDropped.GetIntentId(), ClassDone, "dropped", nil)
	case *journaletv1.Event_CallFinished:
		f := k.CallFinished
		class, how := ClassBusy, ""
		switch {
		case kind.Failed(f.GetError()):
			class, how = ClassFail, "failed"
		case f.GetError() == journaletv1.CallError_CALL_ERROR_WITHDRAWN:
			class, how = ClassDone, "withdrawn"
		}
		b.callEnded(ev, f.GetIntentId(), class, how, f)
	case *journaletv1.Event_Quarantined:
		b.quarantined(ev, k.Quarantined.GetKind(), k.Quarantined.GetId())
	case *journaletv1.Event_QuarantineLifted:
		b.quarantined(ev, k.QuarantineLifted.GetKind(), k.QuarantineLifted.GetId())
	}
}

func (b *builder) callRequested(ev *Event, k *journaletv1.CallRequested) {
	c := &call{request: k, pod: b.pods[k.GetPodUid()]}
	b.calls[ev.id] = c
	g := b.node
	switch {
	case c.pod != nil:
		g = c.pod.group
	case k.GetPodUid() != "" || len(b.o.Pods) > 0:
		return
	}
	lane := g.lane("calls", "", "calls", rankCalls)
	c.span = newSpan(ev, ClassWait, describe.Call(k), ev.Text)
	lane.Spans = append(lane.Spans, c.span)
	if c.pod != nil {
		c.pod.replaced(ev, k)
		c.pod.doing(ev, k, true)
	}
}

// replaced folds that an update is another incarnation of the pod, which no event reports: the pod ends as if its
// source had removed it.
func (p *pod) replaced(ev *Event, k *journaletv1.CallRequested) {
	switch {
	case k.GetStopContainer().GetReason() == "pod removed":
		if p.stops == "" {
			p.stops = "replaced"
		}
	case p.terminated && (k.GetRemoveSandbox() != nil || k.GetCleanPod().GetAll()):
		p.removed = true
	default:
		return
	}
	p.showPhase(ev)
}

func (b *builder) callDispatched(ev *Event, c *call, inDoubt bool) {
	if s := c.span; s != nil && s.Class == ClassWait {
		s.Class, s.Queued = ClassBusy, ev.At
		if inDoubt {
			s.Text = ev.Text
		}
	}
	if c.pod != nil {
		c.pod.doing(ev, c.request, false)
	}
	pull := c.request.GetPullImage()
	if pull == nil {
		return
	}
	for _, g := range b.groups[1:] {
		if l := b.pods[g.UID].pulling[pull.GetImage()]; l != nil && l.open != nil {
			l.set(ev, ClassBusy, "pulling")
		}
	}
}

// callEnded ends a call. f is nil for a dropped call.
func (b *builder) callEnded(ev *Event, id string, class Class, how string, f *journaletv1.CallFinished) {
	c := b.calls[id]
	if c == nil {
		return
	}
	delete(b.calls, id)
	if s := c.span; s != nil {
		s.finish(ev)
		if s.Class = class; how != "" {
			s.Label += " (" + how + ")"
			s.Text = ev.Text
		}
	}
	if c.pod != nil && !c.pod.gone {
		c.pod.did(ev, c.request, f)
	}
}

// doing folds that a call is requested, or dispatched.
func (p *pod) doing(ev *Event, k *journaletv1.CallRequested, queued bool) {
	set := func(name, doing string) {
		c := p.container(name)
		c.doing, c.queued = doing, queued
		c.show(ev)
	}
	switch w := k.GetWork().(type) {
	case *journaletv1.CallRequested_StartContainer:
		doing := "starting"
		if w.StartContainer.GetPart() == journaletv1.StartPart_START_PART_CREATE {
			doing = "creating"
		}
		set(w.StartContainer.GetContainer(), doing)
	case *journaletv1.CallRequested_StopContainer:
		set(w.StopContainer.GetContainer(), "stopping")
	case *journaletv1.CallRequested_RunSandbox:
		p.sandbox.doing, p.sandbox.queued, p.sandbox.failed = "creating", queued, false
		p.sandbox.show(p, ev)
	case *journaletv1.CallRequested_StopSandbox:
		p.sandbox.doing, p.sandbox.queued = "stopping", queued
		p.sandbox.show(p, ev)
	case *journaletv1.CallRequested_RemoveSandbox:
		p.sandbox.doing, p.sandbox.queued = "removing", queued
		p.sandbox.show(p, ev)
	}
}

// did folds that a call has ended. f is nil for a dropped call.
func (p *pod) did(ev *Event, k *journaletv1.CallRequested, f *journaletv1.CallFinished) {
	ok := f != nil && f.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	switch w := k.GetWork().(type) {
	case *journaletv1.CallRequested_StartContainer:
		c := p.container(w.StartContainer.GetContainer())
		if c.doing = ""; ok {
			state := journaletv1.ContainerState_CONTAINER_STATE_RUNNING
			if w.StartContainer.GetPart() == journaletv1.StartPart_START_PART_CREATE {
				state = journaletv1.ContainerState_CONTAINER_STATE_CREATED
			}
			if c.now.GetId() != f.GetContainerId() || f.GetContainerId() == "" || ranks(state) > ranks(c.now.GetState()) {
				c.now = &journaletv1.ContainerObservation{
					Id: f.GetContainerId(), Attempt: w.StartContainer.GetAttempt(), State: state,
				}
				c.ended = f.GetEndedAt().AsTime()
			}
		}
		c.show(ev)
	case *journaletv1.CallRequested_StopContainer:
		c := p.container(w.StopContainer.GetContainer())
		c.doing = ""
		c.show(ev)
	case *journaletv1.CallRequested_RunSandbox:
		p.sandbox.doing, p.sandbox.failed = "", f != nil && kind.Failed(f.GetError())
		if ok && p.sandbox.now.GetId() != f.GetSandboxId() {
			p.sandbox.now = &journaletv1.SandboxObservation{
				Id: f.GetSandboxId(), Attempt: w.RunSandbox.GetAttempt(), State: journaletv1.SandboxState_SANDBOX_STATE_READY,
			}
			p.sandbox.ended = f.GetEndedAt().AsTime()
		}
		p.sandbox.show(p, ev)
	case *journaletv1.CallRequested_StopSandbox, *journaletv1.CallRequested_RemoveSandbox:
		p.sandbox.doing = ""
		p.sandbox.show(p, ev)
	}
}

// ranks orders the states of an instance: an outcome never replaces what an observation has shown.
func ranks(s journaletv1.ContainerState) int {
	switch s {
	case journaletv1.ContainerState_CONTAINER_STATE_CREATED:
		return 1
	case journaletv1.ContainerState_CONTAINER_STATE_RUNNING:
		return 2
	case journaletv1.ContainerState_CONTAINER_STATE_EXITED, journaletv1.ContainerState_CONTAINER_STATE_UNKNOWN:
		return 3
	}
	return 0
}
