package agent

import (
	"context"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/pod/storage"
	"github.com/journalet/journalet/runtime/pod/volume"
)

// newStorage creates the driver that measures ephemeral storage.
func (a *agent) newStorage(volumes *volume.Driver) *storage.Driver {
	o := storage.Options{
		Conn: a.conn, Manifest: a.manifests.Get, NoLimits: !a.cfg.LocalStorage, Log: a.log,
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
