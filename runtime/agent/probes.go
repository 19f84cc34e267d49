package agent

import (
	"context"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/server"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/pod/probe"
)

// newProbes creates the driver that runs probes.
func (a *agent) newProbes() *probe.Driver {
	return probe.New(probe.Options{
		Conn: a.conn, Manifest: a.manifests.get, HostIPs: a.facts.HostIPs, Log: a.log,
		Withhold: a.manifests.withhold, Reaper: a.reaper,
		Sink: func(ctx context.Context, r *journaletv1.ProbeResult) error {
			e := messages.NewEvent(r)
			return a.host.Fact(ctx, messages.Pod(r.GetUid()), e)
		},
		Observe: a.countProbe, Forget: a.metrics.ForgetProbes,
	})
}

// countProbe counts one run of a probe.
func (a *agent) countProbe(r probe.Run) {
	result := server.ProbeFailed
	switch {
	case r.Unknown:
		result = server.ProbeUnknown
	case r.Success:
		result = server.ProbeSuccessful
	}
	a.metrics.Probed(server.Probe{
		Type: probe.Title(r.Kind), Container: r.Container, Pod: r.Pod, Namespace: r.Namespace, PodUID: r.PodUID,
	}, result, r.Took)
}

// seedProbes gives the driver a pod's probes and their last results.
func (a *agent) seedProbes(r *host.Recovered, ref messages.Ref, d *pod.Actor) {
	for _, p := range d.Probed() {
		a.probes.Seed(ref.ID, p.Set, p.Results)
	}
	r.Pending(ref, func(rec *journaletv1.Record) {
		if result := rec.GetFact().GetProbeResult(); result != nil {
			a.probes.SeedPending(result)
		}
	})
}
