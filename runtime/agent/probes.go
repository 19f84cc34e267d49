package agent

import (
	"context"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/monitoring"
	"github.com/journalet/journalet/runtime/pod/probe"
)

// newProbes creates the driver that runs probes.
func (a *agent) newProbes() *probe.Driver {
	return probe.New(probe.Options{
		Conn: a.conn, Manifest: a.manifests.Get, HostIPs: a.hostIPs, Log: a.log,
		Redact: a.manifests.Redact, Reaper: a.reaper,
		Sink: func(ctx context.Context, r *journaletv1.ProbeResult) error {
			e := messages.NewEvent(r)
			return a.host.Fact(ctx, messages.Pod(r.GetUid()), e)
		},
		Observe: a.countProbe, Forget: a.metrics.ForgetProbes,
	})
}

// countProbe counts one run of a probe.
func (a *agent) countProbe(r probe.Run) {
	result := monitoring.ProbeFailed
	switch {
	case r.Unknown:
		result = monitoring.ProbeUnknown
	case r.Success:
		result = monitoring.ProbeSuccessful
	}
	a.metrics.Probed(monitoring.Probe{
		Type: probe.Title(r.Kind), Container: r.Container, Pod: r.Pod, Namespace: r.Namespace, PodUID: r.PodUID,
	}, result, r.Took)
}
