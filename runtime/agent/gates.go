package agent

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
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
