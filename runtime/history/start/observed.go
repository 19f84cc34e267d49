package start

import (
	"slices"
	"strconv"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

// observation is the newest observation of one instance.
type observation struct {
	seq     uint64
	created time.Time
	exited  bool
}

// observed folds what the runtime shows of a pod.
func (c *Collector) observed(when at, k *journaletv1.PodObserved) {
	s := c.open[k.GetUid()]
	if s == nil {
		return
	}
	for _, x := range k.GetContainers() {
		state := x.GetState()
		exited := state == journaletv1.ContainerState_CONTAINER_STATE_EXITED
		if !exited && state != journaletv1.ContainerState_CONTAINER_STATE_RUNNING {
			continue
		}
		s.seen[x.GetId()] = observation{when.seq, x.GetCreatedAt().AsTime(), exited}
		for _, p := range slices.Clone(s.Phases) {
			switch {
			case p.ContainerID != x.GetId():
			case p.Kind == Observe:
				s.close(when, p, Done)
			case p.Kind == Init && exited && p.Outcome == Open:
				s.initExited(when, p, x)
			case p.Kind == StartContainer:
				s.split(p)
			}
		}
	}
}

func (s *Start) initExited(when at, p *Phase, x *journaletv1.ContainerObservation) {
	if x.GetExitCode() == 0 {
		s.close(when, p, Done)
		return
	}
	p.Reason, p.Message = x.GetReason(), "exit code "+strconv.Itoa(int(x.GetExitCode()))
	s.close(when, p, Failed)
}

// started begins what follows the start of an instance: its observation, and of an init container its run. An
// observation may have come before the outcome of the call.
func (s *Start) started(when at, p *Phase) {
	seen, ok := s.seen[p.ContainerID]
	if !ok {
		s.begin(when, Phase{Kind: Observe, Container: p.Container, Attempt: p.Attempt, ContainerID: p.ContainerID})
	}
	if p.init && !seen.exited {
		s.begin(when, Phase{Kind: Init, Container: p.Container, Attempt: p.Attempt, ContainerID: p.ContainerID})
	}
	s.split(p)
}

// split splits a call that created and started a container at the runtime's time of creation, once that is known. A
// time outside the call is of another clock, or of a call before a restart of the agent: the phase stays whole.
func (s *Start) split(p *Phase) {
	seen, ok := s.seen[p.ContainerID]
	if !ok || !p.both || p.Outcome != Done {
		return
	}
	p.both = false
	if begin := later(p.Dispatched, p.Begin); !seen.created.After(begin) || !seen.created.Before(p.End) {
		return
	}
	if len(s.Phases) >= MaxPhases {
		s.Dropped++
		return
	}
	created := *p
	created.Kind, created.End, created.SplitSeq = Create, seen.created, seen.seq
	p.Begin, p.Dispatched, p.SplitSeq = seen.created, seen.created, seen.seq
	s.Phases = slices.Insert(s.Phases, slices.Index(s.Phases, p), &created)
}

// probesSet begins a phase for each probe that has to succeed, and ends the phases of probes that no longer run.
func (s *Start) probesSet(when at, k *journaletv1.ProbesSet) {
	for _, p := range s.Phases {
		if p.Kind == Probe && p.Container == k.GetContainer() &&
			(p.ContainerID != k.GetContainerId() || !slices.Contains(k.GetKinds(), p.ProbeKind)) {
			s.close(when, p, Withdrawn)
		}
	}
	for _, kind := range k.GetKinds() {
		if kind != journaletv1.ProbeKind_PROBE_KIND_LIVENESS && s.probe(k.GetContainerId(), kind) == nil {
			s.begin(when, Phase{Kind: Probe, Container: k.GetContainer(), ContainerID: k.GetContainerId(), ProbeKind: kind})
		}
	}
}

// probe returns the open phase of a probe of an instance.
func (s *Start) probe(id string, kind journaletv1.ProbeKind) *Phase {
	for _, p := range s.Phases {
		if p.Kind == Probe && p.Outcome == Open && p.ContainerID == id && p.ProbeKind == kind {
			return p
		}
	}
	return nil
}

// probed folds a result. A readiness probe that fails keeps running, and may succeed yet.
func (c *Collector) probed(when at, k *journaletv1.ProbeResult) {
	s := c.open[k.GetUid()]
	if s == nil {
		return
	}
	p := s.probe(k.GetContainerId(), k.GetKind())
	if p == nil {
		return
	}
	if k.GetSuccess() {
		p.Reason, p.Message = "", ""
		s.close(when, p, Done)
		return
	}
	p.Reason, p.Message, s.LastSeq = "Unhealthy", k.GetMessage(), when.seq
	if k.GetKind() == journaletv1.ProbeKind_PROBE_KIND_STARTUP {
		s.close(when, p, Failed)
	}
}

// gatesRead ends the wait for readiness gates when all are True.
func (c *Collector) gatesRead(when at, k *journaletv1.ReadinessGatesRead) {
	s := c.open[k.GetUid()]
	if s == nil {
		return
	}
	for _, gate := range s.gates {
		if !slices.ContainsFunc(k.GetConditions(), func(x *journaletv1.ReadinessGateCondition) bool {
			return x.GetType() == gate && x.GetStatus() == "True"
		}) {
			return
		}
	}
	s.close(when, s.find(Gates, ""), Done)
}

// pullRequested begins the wait for an image. The pull may be under way already, for another pod.
func (c *Collector) pullRequested(when at, s *Start, image string) {
	if s.find(Pull, image) != nil {
		return
	}
	p := s.begin(when, Phase{Kind: Pull, Image: image})
	if x := c.pulling[image]; p != nil && x != nil && x.dispatchedSeq > 0 {
		x.dispatch(s, p, false)
	}
}

// pullDecided ends an attempt. After a failed one the image actor retries by itself: another attempt begins at once,
// with the back-off.
func (c *Collector) pullDecided(when at, k *journaletv1.ImagePullDecided) {
	s := c.open[k.GetUid()]
	if s == nil {
		return
	}
	p := s.find(Pull, k.GetImage())
	if p == nil {
		return
	}
	if k.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
		p.Bytes = k.GetBytes()
		s.close(when, p, Done)
		return
	}
	p.Reason, p.Message = errorName(k.GetError()), k.GetMessage()
	s.close(when, p, Failed)
	s.begin(when, Phase{Kind: Pull, Image: k.GetImage()})
}
