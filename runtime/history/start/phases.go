package start

import (
	"slices"
	"strings"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/kind"
)

// begin adds an open phase; nil if the start has too many.
func (s *Start) begin(when at, p Phase) *Phase {
	s.LastSeq = when.seq
	if len(s.Phases) >= MaxPhases {
		s.Dropped++
		return nil
	}
	p.Begin, p.BeginSeq = when.time, when.seq
	s.Phases = append(s.Phases, &p)
	return &p
}

// close ends an open phase. It ignores a nil phase, an ended phase, and every phase of an ended start.
func (s *Start) close(when at, p *Phase, outcome Outcome) {
	if p == nil || p.Outcome != Open || s.Outcome != Open {
		return
	}
	p.End, p.EndSeq, p.Outcome = later(when.time, p.Begin), when.seq, outcome
	s.LastSeq = when.seq
}

// find returns the open phase of a kind for a container or an image; nil if there is no such phase.
func (s *Start) find(kind Kind, key string) *Phase {
	for _, p := range slices.Backward(s.Phases) {
		if p.Outcome == Open && p.Kind == kind && (p.Container == key && kind != Pull || p.Image == key && kind == Pull) {
			return p
		}
	}
	return nil
}

// callRequested begins the phase of a call that belongs to a start. Others (stops, removals, updates) count as time of
// what they delay.
func (c *Collector) callRequested(when at, author messages.Ref, id string, req *journaletv1.CallRequested) {
	if pull := req.GetPullImage(); pull != nil {
		k := &call{id: id, image: pull.GetImage()}
		c.calls[id], c.pulling[pull.GetImage()] = k, k
		return
	}
	s := c.open[author.ID]
	if s == nil || author.Kind != journaletv1.ActorKind_ACTOR_KIND_POD {
		return
	}
	p := Phase{Intent: id}
	switch w := req.GetWork().(type) {
	case *journaletv1.CallRequested_SetUpVolumes:
		p.Kind = Volumes
	case *journaletv1.CallRequested_RunSandbox:
		p.Kind, p.Attempt = Sandbox, w.RunSandbox.GetAttempt()
	case *journaletv1.CallRequested_StartContainer:
		k := w.StartContainer
		p.Kind, p.Container, p.Attempt = StartContainer, k.GetContainer(), k.GetAttempt()
		p.ContainerID = k.GetContainerId()
		p.init, p.both = k.GetInit(), k.GetPart() == journaletv1.StartPart_START_PART_UNSPECIFIED
		if k.GetPart() == journaletv1.StartPart_START_PART_CREATE {
			p.Kind = Create
		}
		s.close(when, s.find(BackOff, k.GetContainer()), Done)
		s.dropSidecars(k.GetContainer())
		for _, phaseKind := range []Kind{Observe, Init} { // an instance that vanished before it was observed
			s.close(when, s.find(phaseKind, k.GetContainer()), Withdrawn)
		}
	case *journaletv1.CallRequested_RunHook:
		if w.RunHook.GetKind() != journaletv1.HookKind_HOOK_KIND_POST_START {
			return
		}
		p.Kind, p.Container, p.ContainerID = Hook, w.RunHook.GetContainer(), w.RunHook.GetContainerId()
	default:
		return
	}
	if phase := s.begin(when, p); phase != nil {
		c.calls[id] = &call{id: id, start: s, phase: phase}
	}
}

// callDispatched notes when a call was handed to its driver. After a restart of the agent it is handed over again.
func (c *Collector) callDispatched(when at, k *journaletv1.CallDispatched) {
	x := c.calls[k.GetIntentId()]
	if x == nil {
		return
	}
	if x.dispatchedSeq == 0 {
		x.dispatched, x.dispatchedSeq = when.time, when.seq
	}
	if x.phase != nil {
		x.dispatch(x.start, x.phase, k.GetInDoubt())
		return
	}
	for _, s := range c.open {
		if p := s.find(Pull, x.image); p != nil {
			x.dispatch(s, p, k.GetInDoubt())
		}
	}
}

func (x *call) dispatch(s *Start, p *Phase, inDoubt bool) {
	if p.Outcome != Open || s.Outcome != Open {
		return
	}
	p.Dispatched, p.DispatchedSeq = later(x.dispatched, p.Begin), x.dispatchedSeq
	p.Intent, p.InDoubt = x.id, p.InDoubt || inDoubt
	s.LastSeq = max(s.LastSeq, x.dispatchedSeq)
}

func (c *Collector) callDropped(when at, id string) {
	if x := c.calls[id]; x != nil && x.phase != nil {
		x.start.close(when, x.phase, Withdrawn)
	}
	c.forget(id)
}

func (c *Collector) forget(id string) {
	if x := c.calls[id]; x != nil && c.pulling[x.image] == x {
		delete(c.pulling, x.image)
	}
	delete(c.calls, id)
}

// callFinished ends the phase of a call. A pull ends for each pod with the image actor's decision.
func (c *Collector) callFinished(when at, k *journaletv1.CallFinished) {
	x := c.calls[k.GetIntentId()]
	c.forget(k.GetIntentId())
	if x == nil || x.phase == nil || x.start.Outcome != Open {
		return
	}
	s, p := x.start, x.phase
	if k.GetContainerId() != "" {
		p.ContainerID = k.GetContainerId()
	}
	if k.GetSandboxId() != "" {
		p.SandboxID = k.GetSandboxId()
	}
	err := k.GetError()
	if p.both && err != journaletv1.CallError_CALL_ERROR_UNSPECIFIED && err != journaletv1.CallError_CALL_ERROR_START {
		p.Kind = Create
	}
	switch {
	case err == journaletv1.CallError_CALL_ERROR_UNSPECIFIED:
		s.close(when, p, Done)
		if p.Kind == StartContainer {
			s.started(when, p)
		}
	case err == journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT:
		s.close(when, p, ImageMissing)
	case !kind.Failed(err):
		s.close(when, p, Withdrawn)
	default:
		p.Reason, p.Message = errorName(err), k.GetMessage()
		s.close(when, p, Failed)
	}
}

// errorName returns the name of an error as Kubernetes writes reasons: CALL_ERROR_IMAGE_INSPECT is ImageInspect.
func errorName(e journaletv1.CallError) string {
	var b strings.Builder
	for word := range strings.SplitSeq(strings.TrimPrefix(e.String(), "CALL_ERROR_"), "_") {
		b.WriteString(word[:1] + strings.ToLower(word[1:]))
	}
	return b.String()
}

// dropSidecars drops the runs of init containers that still run while the next container starts: only sidecars do. A
// container that has been started before says nothing about the others.
func (s *Start) dropSidecars(next string) {
	if slices.ContainsFunc(s.Phases, func(p *Phase) bool { return p.Container == next }) {
		return
	}
	s.Phases = slices.DeleteFunc(s.Phases, func(p *Phase) bool { return p.Kind == Init && p.Outcome == Open })
}
