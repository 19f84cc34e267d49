package agent

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/pod/gate"
)

// newGates creates the driver that reads the conditions of readiness gates.
func (a *agent) newGates() *gate.Driver {
	return gate.New(gate.Options{
		RootDir: a.cfg.RootDir, Log: a.log, Object: a.apiObject,
		Sink: func(ctx context.Context, r *journaletv1.ReadinessGatesRead) error {
			e := messages.NewEvent(r)
			return a.host.Fact(ctx, messages.Pod(r.GetUid()), e)
		},
	})
}

// apiObject returns the newest object of a pod at the API server, nil if none is known.
func (a *agent) apiObject(uid string) *corev1.Pod {
	if a.cluster == nil {
		return nil
	}
	return a.cluster.reports.objects.Get(types.UID(uid))
}

// seedGates gives the driver a pod's readiness gates and their last conditions.
func (a *agent) seedGates(r *host.Recovered, ref messages.Ref, d *pod.Actor) {
	kinds, conditions := d.Gates()
	a.gates.Seed(ref.ID, kinds, d.Pod().GetPod().GetApi() != nil, conditions)
	r.Pending(ref, func(rec *journaletv1.Record) {
		if read := rec.GetFact().GetReadinessGatesRead(); read != nil {
			a.gates.SeedPending(read)
		}
	})
}
