package simulation

import (
	"math/rand/v2"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/journaletv1"
)

// prober stands for runtime/pod/probe: it runs the probes that are set, counts in a row, and tells a result that changed.
type prober struct {
	run   *run
	noise *rand.Rand
	set   map[place]map[journaletv1.ProbeKind]*probe
}

type place struct{ uid, container string }

type probe struct {
	at   place
	id   string
	kind journaletv1.ProbeKind
	spec *corev1.Probe
	gone bool
	// told, last: 0 nothing, 1 healthy, 2 unhealthy.
	told, last int
	inARow     int32
}

func newProber(r *run) *prober {
	return &prober{run: r, noise: stream(r.seed, "probes", r.name()), set: map[place]map[journaletv1.ProbeKind]*probe{}}
}

func (b *prober) seed(uid string, probed []pod.Probed) {
	for _, p := range probed {
		b.begin(uid, p.Set, p.Results, true)
	}
}

// seedOpen takes in a result that is in the journal and in no state yet.
func (b *prober) seedOpen(r *journaletv1.ProbeResult) {
	p := b.set[place{r.GetUid(), r.GetContainer()}][r.GetKind()]
	if p != nil && p.id == r.GetContainerId() {
		p.told = judged(r.GetSuccess())
	}
}

func judged(ok bool) int {
	if ok {
		return 1
	}
	return 2
}

func (b *prober) stored(rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		if k := e.GetProbesSet(); k != nil {
			b.begin(rec.GetActor().GetId(), k, nil, false)
		}
		for _, uid := range []string{e.GetPodTerminated().GetUid(), e.GetPodForgotten().GetUid()} {
			if uid != "" {
				b.forget(uid)
			}
		}
	}
}

func (b *prober) forget(uid string) {
	for at, kinds := range b.set {
		if at.uid == uid {
			for _, p := range kinds {
				p.gone = true
			}
			delete(b.set, at)
		}
	}
}

// begin makes the probes of a container those of a setting. One that stays as it was goes on.
func (b *prober) begin(uid string, s *journaletv1.ProbesSet, results []*journaletv1.ProbeResult, seeded bool) {
	at := place{uid, s.GetContainer()}
	spec := findSpec(b.run.manifests.byDigest[s.GetDigest()], s.GetContainer())
	old, now := b.set[at], map[journaletv1.ProbeKind]*probe{}
	for _, kind := range s.GetKinds() {
		if spec == nil || probeOf(spec, kind) == nil {
			continue
		}
		if p := old[kind]; p != nil && p.id == s.GetContainerId() && reflect.DeepEqual(p.spec, probeOf(spec, kind)) {
			now[kind] = p
			delete(old, kind)
			continue
		}
		p := &probe{at: at, id: s.GetContainerId(), kind: kind, spec: probeOf(spec, kind)}
		if kind == journaletv1.ProbeKind_PROBE_KIND_LIVENESS {
			p.told = 1
		}
		for _, r := range results {
			if r.GetKind() == kind {
				p.told = judged(r.GetSuccess())
			}
		}
		now[kind] = p
		delay := time.Duration(p.spec.InitialDelaySeconds) * time.Second
		if started := s.GetStartedAt(); started != nil {
			delay = min(max(started.AsTime().Add(delay).Sub(b.run.clock.Now()), 0), delay)
		}
		if seeded && delay == 0 {
			delay = between(b.noise, 0, p.period())
		}
		b.run.clock.after(b.run.life, delay, func() { b.work(p) })
	}
	for _, p := range old {
		p.gone = true
	}
	b.set[at] = now
}

func probeOf(c *corev1.Container, kind journaletv1.ProbeKind) *corev1.Probe {
	switch kind {
	case journaletv1.ProbeKind_PROBE_KIND_STARTUP:
		return c.StartupProbe
	case journaletv1.ProbeKind_PROBE_KIND_LIVENESS:
		return c.LivenessProbe
	}
	return c.ReadinessProbe
}

func (p *probe) period() time.Duration {
	return time.Duration(max(1, p.spec.PeriodSeconds)) * time.Second
}

// work is one run of a probe. Of an instance that has ended nothing is learnt.
func (b *prober) work(p *probe) {
	if p.gone {
		return
	}
	b.run.clock.after(b.run.life, p.period(), func() { b.work(p) })
	w := b.run.world
	exec := p.spec.Exec != nil
	if exec && (!w.up || w.clock.uptime < w.hungUntil) {
		return // the runtime is asked to run it
	}
	c := w.container(p.id)
	if c == nil || c.state != running {
		if !exec {
			b.note(p, false) // nobody answers any more
		}
		return
	}
	b.note(p, w.probe(c, p.kind))
}

func (b *prober) note(p *probe, ok bool) {
	result, need := judged(ok), max(1, p.spec.FailureThreshold)
	if ok {
		need = max(1, p.spec.SuccessThreshold)
	}
	if p.last != result {
		p.last, p.inARow = result, 0
	}
	p.inARow = min(p.inARow+1, need)
	if p.inARow < need || p.told == result {
		return
	}
	p.told = result
	message := ""
	if !ok {
		message = "it does not answer"
	}
	b.run.clock.start(b.run.life, func(q *proc) {
		b.run.fact(q, podRef(p.at.uid), &journaletv1.Event{Kind: &journaletv1.Event_ProbeResult{ProbeResult: &journaletv1.ProbeResult{
			Uid: p.at.uid, Container: p.at.container, ContainerId: p.id, Kind: p.kind, Success: ok, Message: message,
		}}})
	})
}
