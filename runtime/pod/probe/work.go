package probe

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/clean"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/defect"
	"github.com/journalet/journalet/runtime/redact"
)

const (
	// maxMessageBytes bounds a message in the log.
	maxMessageBytes = 1 << 10
	// maxOutputBytes bounds how much of a command's output or a response's body is read (kubelet: 10 KiB).
	maxOutputBytes = cri.MaxExecOutputBytes
	// maxAttempts bounds the attempts of one run without a result (kubelet: maxProbeRetries).
	maxAttempts = 3
	// logUnknownAfter is the number of runs in a row without a result after which one is logged. The first often belongs
	// to a container that has just exited.
	logUnknownAfter = 3
)

// target is the container and address of a probe; node means that the address is the node's.
type target struct {
	container *corev1.Container
	host      string
	node      bool
}

// outcome is the outcome of one attempt, with the kubelet's four results. A warning is a success with a message.
type outcome struct {
	result result
	text   string
}

type result uint8

const (
	unknown result = iota
	success
	warning
	failure
)

// work runs a probe, and then further waiting ones.
func (d *Driver) work(ctx context.Context, p *probe) {
	for p != nil {
		took, done := d.runOnce(ctx, p)
		p = d.next(p, took, done)
	}
}

// next reschedules a probe after its run, and returns a waiting one; nil ends the worker.
func (d *Driver) next(p *probe, took time.Duration, done bool) *probe {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.cancel = nil
	d.lanes.leave(p)
	again := p.ended && !done // canceled to free the worker
	if p.ended = false; done {
		p.pace = paceOf(took, p.timeout())
	}
	switch {
	case p.gone:
	case again:
		d.lanes.wait(p)
	case p.tally.reported == unhealthy && p.kind == journaletv1.ProbeKind_PROBE_KIND_LIVENESS,
		p.tally.reported != undecided && p.kind == journaletv1.ProbeKind_PROBE_KIND_STARTUP:
		// As in the kubelet, its result is final. The pod's actor decides what follows, with another ProbesSet.
	default:
		d.reschedule(p)
	}
	return d.lanes.next(d.clock.Now())
}

// runOnce runs a probe once. done is false if the run was canceled.
func (d *Driver) runOnce(ctx context.Context, p *probe) (took time.Duration, done bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.mu.Lock()
	if p.gone {
		d.mu.Unlock()
		return 0, false
	}
	p.cancel = cancel
	t := p.target
	d.mu.Unlock()
	t = d.resolve(t)
	began := d.clock.Now()
	late := began.Sub(p.due)
	out := d.try(ctx, p, t)
	out.text = redact.Container(out.text, t.container)
	if ctx.Err() != nil {
		return 0, false
	}
	took = d.clock.Now().Sub(began)
	d.observe(p, out, late, took)
	d.report(ctx, p, out)
	return took, true
}

// report reports a changed result, and the first warning of a probe whose result does not change. The kubelet emits an
// event for each warning; nothing new is no record.
func (d *Driver) report(ctx context.Context, p *probe, out outcome) {
	if out.result == unknown {
		p.unknown++
		if p.unknown == logUnknownAfter {
			d.log.Warn("a probe cannot be run; its result stays unchanged", "pod", p.at.uid, "container", p.at.container,
				"probe", Title(p.kind), "error", clean.Text(d.redact(p, out.text), maxMessageBytes))
		}
		return
	}
	p.unknown = 0
	judged, changed := p.tally.add(out.result != failure)
	if !changed && (out.result != warning || !p.tally.firstWarning()) {
		return
	}
	out.text = d.redact(p, out.text)
	result := &journaletv1.ProbeResult{
		Uid: p.at.uid, Container: p.at.container, ContainerId: p.id, Kind: p.kind, Success: judged == healthy,
		Message: messageOf(p.kind, out),
	}
	if err := d.opts.Sink(ctx, result); err != nil {
		if ctx.Err() == nil {
			d.log.Warn("cannot report the result of a probe; the next run retries it",
				"pod", p.at.uid, "container", p.at.container, "error", err)
		}
		return
	}
	d.mu.Lock()
	p.tally.reported = judged
	p.tally.warned = p.tally.warned || out.result == warning
	d.mu.Unlock()
}

// redact takes the contents of Secrets out of a text that is reported.
func (d *Driver) redact(p *probe, text string) string {
	if d.opts.Redact == nil || text == "" {
		return text
	}
	return d.opts.Redact(p.at.uid, text)
}

// try repeats a probe until it has a result, at most maxAttempts times. One that panics has no result: the probes of
// other containers go on (ADR 115).
func (d *Driver) try(ctx context.Context, p *probe, t target) (out outcome) {
	defer defect.Recover(func(stack string) {
		if out = (outcome{unknown, defect.Message}); p.unknown == 0 {
			d.log.Error("a probe cannot be run; its result stays unchanged", "pod", p.at.uid, "container", p.at.container,
				"probe", Title(p.kind), "error", out.text, "stack", stack)
		}
	})
	for range maxAttempts {
		if out = d.once(ctx, p, t); out.result != unknown || ctx.Err() != nil {
			break
		}
	}
	return out
}

func (d *Driver) once(ctx context.Context, p *probe, t target) outcome {
	switch s := p.spec; {
	case d.opts.Attempt != nil:
		result := unknown
		switch ok, known := d.opts.Attempt(ctx, Attempt{PodUID: p.at.uid, ContainerID: p.id, Kind: p.kind, Probe: s}); {
		case known && ok:
			result = success
		case known:
			result = failure
		}
		return outcome{result, "no response"}
	case s.Exec != nil:
		return d.exec(ctx, p.id, t.container, s.Exec.Command, p.timeout())
	case s.HTTPGet != nil:
		return httpGet(ctx, t, s.HTTPGet, p.timeout())
	case s.TCPSocket != nil:
		return tcpSocket(ctx, t, s.TCPSocket, p.timeout())
	case s.GRPC != nil:
		return grpcCheck(ctx, t, s.GRPC, p.timeout())
	}
	return outcome{unknown, "the probe has no handler"}
}

// observe calls Options.Observe, unless the probe was removed.
func (d *Driver) observe(p *probe, out outcome, late, took time.Duration) {
	if d.opts.Observe == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.gone {
		return
	}
	n := d.names[p.at.uid]
	d.opts.Observe(Run{
		Kind: p.kind, Namespace: n.namespace, Pod: n.name, PodUID: p.at.uid, Container: p.at.container,
		Success: out.result == success || out.result == warning, Unknown: out.result == unknown, Late: late, Took: took,
	})
}

// messageOf returns the message of a result, as the kubelet words it; empty for a plain success.
func messageOf(kind journaletv1.ProbeKind, out outcome) string {
	switch out.result {
	case failure:
		return Title(kind) + " probe failed: " + out.text
	case warning:
		return Title(kind) + " probe warning: " + out.text
	}
	return ""
}

// Title returns the kubelet's name of a kind of probe.
func Title(kind journaletv1.ProbeKind) string {
	switch kind {
	case journaletv1.ProbeKind_PROBE_KIND_STARTUP:
		return "Startup"
	case journaletv1.ProbeKind_PROBE_KIND_LIVENESS:
		return "Liveness"
	}
	return "Readiness"
}
