package simulation

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Invariants of probes: a result is what the world answered as often as its threshold says, and it is acted on.

// probeRun is what the judge knows of one probe of an instance.
type probeRun struct {
	// successes and failures count equal results in a row, in one run of the agent. unreported counts the failures since
	// the probe was set.
	successes, failures, unreported int32
	// spec is the spec of the last attempt: an instance that was taken over has the probes of the present manifest.
	spec *corev1.Probe
	// reported is the last result that was reported, if any.
	reported *bool
	// results are the recorded results.
	results []recordedResult
}

type recordedResult struct {
	seq uint64
	at  time.Duration
	ok  bool
}

const (
	startup   = journaletv1.ProbeKind_PROBE_KIND_STARTUP
	liveness  = journaletv1.ProbeKind_PROBE_KIND_LIVENESS
	readiness = journaletv1.ProbeKind_PROBE_KIND_READINESS
)

// startTolerance is how much too early a first attempt may be: times of starts are rounded.
const startTolerance = time.Second

// attempted judges an attempt at a probe that has a result.
func (j *judge) attempted(c *container, kind journaletv1.ProbeKind, p *corev1.Probe, ok bool) {
	x := j.book.byID[c.id]
	r := x.probe(kind)
	r.spec = p
	if kind != startup && j.hasStartupProbe(x) && !x.startupSucceeded {
		j.broken(startupGates, x.uid, "a %s probe of %s runs before its startup probe has succeeded", kind, x.id)
	}
	// The driver's clock in the simulation does not follow a clock that is set during a run of the agent. If the clock
	// was set since the start, the delay ends by the time of day.
	delay := time.Duration(p.InitialDelaySeconds) * time.Second
	if age := j.sim.clock.uptime - c.startedAt; age < delay-startTolerance && j.clockSet < min(j.runSince, c.startedAt) {
		j.broken(startupGates, x.uid, "a %s probe of %s runs after %s, and its initial delay is %s", kind, x.id, age, delay)
	}
	if ok {
		r.successes, r.failures, r.unreported = r.successes+1, 0, 0
		x.startupSucceeded = x.startupSucceeded || kind == startup
		return
	}
	r.successes, r.failures, r.unreported = 0, r.failures+1, r.unreported+1
	if r.failures >= failureThreshold(p) && kind != readiness {
		x.unhealthy = true
	}
	if known := r.reported != nil && !*r.reported; r.unreported > failureThreshold(p)+1 && !known {
		j.broken(resultsTrue, x.uid, "a %s probe of %s has failed %d times, and no failure is reported", kind, x.id,
			r.unreported)
	}
}

// hasStartupProbe reports whether an instance has a startup probe. One that was taken over has the probes of the
// present manifest.
func (j *judge) hasStartupProbe(x *instance) bool {
	spec := x.spec
	if j.unrecorded(x) {
		spec = findSpec(j.history(x.uid).manifest, x.name)
	}
	return spec != nil && spec.StartupProbe != nil
}

func failureThreshold(p *corev1.Probe) int32 {
	if p.FailureThreshold > 0 {
		return p.FailureThreshold
	}
	return 3
}

// resultReported: a result is reported after as many attempts with it as its threshold says.
func (j *judge) resultReported(k *journaletv1.ProbeResult) {
	x := j.book.byID[k.GetContainerId()]
	if x == nil {
		return
	}
	r := x.probe(k.GetKind())
	switch p := r.spec; {
	case x.state != running || p == nil: // an attempt at an instance that has ended fails without the world
	case k.GetSuccess() && r.successes < max(p.SuccessThreshold, 1),
		!k.GetSuccess() && r.failures < failureThreshold(p):
		j.broken(resultsTrue, x.uid, "a %s probe of %s is reported with success %t after %d successes and %d failures",
			k.GetKind(), x.id, k.GetSuccess(), r.successes, r.failures)
	}
	ok := k.GetSuccess()
	r.reported = &ok
}

func probeOf(c *corev1.Container, kind journaletv1.ProbeKind) *corev1.Probe {
	switch kind {
	case startup:
		return c.StartupProbe
	case liveness:
		return c.LivenessProbe
	}
	return c.ReadinessProbe
}

func (x *instance) probe(kind journaletv1.ProbeKind) *probeRun {
	if x.probes == nil {
		x.probes = map[journaletv1.ProbeKind]*probeRun{}
	}
	if x.probes[kind] == nil {
		x.probes[kind] = &probeRun{}
	}
	return x.probes[kind]
}

// bookProbes books recorded results, and that probes are set again.
func (j *judge) bookProbes(e *journaletv1.Event, rec *journaletv1.Record) {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_ProbeResult:
		if x := j.book.byID[k.ProbeResult.GetContainerId()]; x != nil {
			r := x.probe(k.ProbeResult.GetKind())
			r.results = append(r.results, recordedResult{rec.GetSeq(), j.sim.clock.uptime, k.ProbeResult.GetSuccess()})
		}
	case *journaletv1.Event_ProbesSet:
		if x := j.book.byID[k.ProbesSet.GetContainerId()]; x != nil {
			for _, r := range x.probes {
				r.unreported = 0
			}
		}
	}
}

// probesEnd forgets the attempts of a run of the agent that has ended, and results that were not recorded.
func (b *instanceBook) probesEnd() {
	for _, x := range b.byID {
		for _, r := range x.probes {
			r.successes, r.failures, r.unreported, r.reported = 0, 0, 0, nil
			if n := len(r.results); n > 0 {
				r.reported = &r.results[n-1].ok
			}
		}
	}
}

// readyReported: a container is reported as ready, or as started, only if its probes' last recorded results say so.
func (j *judge) readyReported(x *instance, s *corev1.ContainerStatus, cause uint64) {
	succeeds := func(kind journaletv1.ProbeKind) bool {
		return probeOf(x.spec, kind) == nil || x.probe(kind).lastBy(cause)
	}
	if s.Ready && !succeeds(readiness) || s.Started != nil && *s.Started && !succeeds(startup) {
		j.broken(readyTrue, x.uid, "%s is reported as started %t and ready %t, and its probes do not succeed", x.id,
			*s.Started, s.Ready)
	}
}

// lastBy returns the last result by a record, false for none.
func (r *probeRun) lastBy(seq uint64) bool {
	ok := false
	for _, x := range r.results {
		if x.seq <= seq {
			ok = x.ok
		}
	}
	return ok
}

// probesActedOn: once faults have ended, no instance runs on whose startup or liveness probe has failed.
func (j *judge) probesActedOn(faultless time.Duration) {
	for _, o := range j.sim.world.objects {
		for _, c := range o.containers {
			x := j.book.byID[c.id]
			for _, kind := range []journaletv1.ProbeKind{startup, liveness} {
				r := x.probe(kind)
				if n := len(r.results); n == 0 || r.results[n-1].ok || !c.alive() || c.termed {
					continue
				}
				since := j.sim.clock.uptime - max(r.results[len(r.results)-1].at, faultless)
				if since > hookWithin+longestGrace(c.manifest) {
					j.broken(probesActed, o.uid, "the %s probe of %s has failed for %s, and it runs on", kind, c.id, since)
				}
			}
		}
	}
}
