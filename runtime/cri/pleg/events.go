package pleg

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/clock"
)

// Waits before the event stream is opened again: they double between the first two. The third is for a runtime without
// events, which may be upgraded while the agent runs.
const (
	minReconnect     = time.Second
	maxReconnect     = 30 * time.Second
	unsupportedRetry = 5 * time.Minute
)

// eventLoop keeps the event stream open. While it is closed, relists are more frequent.
func (p *PLEG) eventLoop(ctx context.Context) {
	wait := minReconnect
	for ctx.Err() == nil {
		got, err := p.stream(ctx)
		if ctx.Err() != nil {
			return
		}
		if got {
			wait = minReconnect
		}
		pause := wait
		if status.Code(err) == codes.Unimplemented {
			pause = unsupportedRetry
			p.log.Info("the runtime has no events; relisting more often", "every", p.opts.RelistWithoutEvents)
		} else {
			level := slog.LevelWarn
			if wait > minReconnect {
				level = slog.LevelDebug // already logged
			}
			wait = min(2*wait, maxReconnect)
			p.log.Log(ctx, level, "the runtime's event stream ended; relisting more often until it is back",
				"error", err, "retryIn", pause)
		}
		if clock.Wait(ctx, p.clock, pause) != nil {
			return
		}
	}
}

// stream reads events until the stream ends; got reports whether there was any.
func (p *PLEG) stream(ctx context.Context) (got bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := p.rt.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	p.streams++
	mine := p.streams
	p.mu.Unlock()
	// A refused stream ends with its first Recv, so at first it cannot be distinguished from an open one. Relists stay
	// frequent until the stream was open for that long or delivered an event.
	stop := p.clock.AfterFunc(minReconnect, func() { p.setEvents(mine, true) })
	defer func() {
		stop()
		p.setEvents(mine, false)
	}()
	for {
		e, err := events.Recv()
		if errors.Is(err, io.EOF) {
			return got, errors.New("closed by the runtime")
		}
		if err != nil {
			return got, err
		}
		if !got {
			got = true
			p.setEvents(mine, true)
		}
		p.hintFrom(e)
	}
}

// setEvents records that a stream delivers events, or that it has ended. Both trigger a relist: events were lost
// before, or none will come.
func (p *PLEG) setEvents(stream uint64, on bool) {
	p.mu.Lock()
	changed := p.events != on && stream == p.streams
	if changed {
		p.events = on
	}
	if !on {
		p.streams++ // later calls for this stream have no effect
	}
	p.mu.Unlock()
	if changed {
		p.relistNow()
	}
}

// hintFrom turns an event about one of the agent's pods into a hint. Created and started objects give no hint: usually
// this agent's call did it, which ends soon and gives a hint itself. The relist finds what others do, and the objects
// of a call that the agent's death interrupted.
func (p *PLEG) hintFrom(e *runtimeapi.ContainerEventResponse) {
	switch e.GetContainerEventType() {
	case runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT:
		return
	}
	if s := e.GetPodSandboxStatus(); s != nil {
		if p.opts.Owner.Owns(s) {
			p.HintByEvent(s.GetMetadata().GetUid())
		}
		return
	}
	// The event of a sandbox's end has only an id.
	p.mu.Lock()
	uid := p.uidOf[e.GetContainerId()]
	p.mu.Unlock()
	p.HintByEvent(uid)
}
