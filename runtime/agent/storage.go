package agent

import (
	"context"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/pod/storage"
	"github.com/journalet/journalet/runtime/pod/volume"
)

// newStorage creates the driver that measures ephemeral storage.
func (a *agent) newStorage(volumes *volume.Driver) *storage.Driver {
	o := storage.Options{
		Conn: a.conn, Manifest: a.manifests.get, Log: a.log,
		PodDir: volumes.PodDir, Path: volumes.Path, PodLogDir: volumes.PodLogDir,
		Sink: func(ctx context.Context, e *journaletv1.StorageExceeded) error {
			event := messages.NewEvent(e)
			return a.host.Fact(ctx, messages.Pod(e.GetUid()), event)
		},
	}
	if a.cluster != nil {
		o.CSI = a.cluster.disks.Measure
	}
	return storage.New(o)
}

// seedStorage gives the driver a pod that runs.
func (a *agent) seedStorage(r *host.Recovered, ref messages.Ref, d *pod.Actor) {
	if s := d.Pod(); s.GetStage() == journaletv1.PodStage_POD_STAGE_RUNNING && s.GetUsedRuntime() {
		a.storage.Seed(ref.ID, s.GetPod().GetDigest())
	}
	r.Pending(ref, a.storage.SeedPending)
}
