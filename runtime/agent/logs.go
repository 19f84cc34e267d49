package agent

import (
	"context"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/pod/logs/rotate"
)

// newRotation creates the driver that rotates logs, nil if none is to be rotated.
func (a *agent) newRotation() (*rotate.Driver, error) {
	l := a.cfg.ContainerLogs
	bytes, err := l.MaxBytes()
	if err != nil || bytes < 0 {
		return nil, err
	}
	return rotate.New(rotate.Options{
		Dir: a.cfg.PodLogDir, Conn: a.conn, Log: a.log, Timeout: a.cfg.RuntimeRequestTimeout,
		Policy:   rotate.Policy{MaxBytes: bytes, MaxFiles: int(l.MaxFiles)},
		Interval: l.MonitorInterval, Workers: int(l.MaxWorkers),
		Sink: func(ctx context.Context, r *journaletv1.LogRotated) error {
			e := messages.NewEvent(r)
			return a.host.Fact(ctx, messages.Pod(r.GetUid()), e)
		},
	}), nil
}
