package simulation

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/pod/probe"
)

// prober runs runtime/pod/probe on coroutines. The outcome of each attempt is a model.
type prober struct {
	*probe.Driver
	p *proc
}

func newProber(r *run) *prober {
	b := &prober{}
	b.Driver = probe.New(probe.Options{
		Conn: criConn{r}, Attempt: r.world.attempt, Clock: newSteadyClock(r), Log: defects(r),
		Manifest: func(_ context.Context, digest string) (*corev1.Pod, error) { return r.manifests.get(digest) },
		Go:       func(work func()) { r.clock.start(r.scope, func(*proc) { work(); b.interrupt() }) },
		Sink: func(_ context.Context, k *journaletv1.ProbeResult) error {
			r.judge.resultReported(k)
			return r.emit(messages.Pod(k.GetUid()), k)
		},
	})
	return b
}

func (b *prober) loop(p *proc) {
	for b.p = p; ; {
		p.sleep(b.Step(context.Background()))
	}
}

func (b *prober) interrupt() {
	if b.p != nil {
		b.p.interrupt()
	}
}

// Stored implements drivers.Storer.
func (b *prober) Stored(rec *journaletv1.Record) {
	b.Driver.Stored(rec)
	if decides(rec, func(e *journaletv1.Event) bool { return e.GetProbesSet() != nil }) {
		b.interrupt()
	}
}

// attempt is one attempt at a probe. An exec probe asks the runtime; it learns nothing of an instance that has ended.
func (w *world) attempt(_ context.Context, a probe.Attempt) (ok, known bool) {
	c, exec := w.container(a.ContainerID), a.Probe.Exec != nil
	switch {
	case exec && (!w.up || w.clock.uptime < w.hungUntil):
		return false, false
	case c == nil || c.state != running:
		return false, !exec
	}
	ok = w.probe(c, a.Kind)
	w.judge.attempted(c, a.Kind, a.Probe, ok)
	return ok, true
}
