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

	"github.com/journalet/journalet/runtime/cri"
)

// Waits before the event stream is opened again: doubling between the first two, and the third on a runtime that has
// no events, which may be upgraded under us.
const (
	minReconnect     = time.Second
	maxReconnect     = 30 * time.Second
	unsupportedRetry = 5 * time.Minute
)

// eventLoop keeps the event stream open. While it is closed, relists come more often.
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
			p.log.Info("the runtime tells no events; relisting more often", "every", p.opts.RelistWithoutEvents)
		} else {
			level := slog.LevelWarn
			if wait > minReconnect {
				level = slog.LevelDebug // said already
			}
			wait = min(2*wait, maxReconnect)
			p.log.Log(ctx, level, "the runtime's event stream has ended; relisting more often until it is back", "error", err, "retryIn", pause)
		}
		if cri.Wait(ctx, p.clock, pause) != nil {
			return
		}
	}
}

// stream reads events until they end; got tells whether there was any.
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
	// A stream that is refused ends with its first Recv, so an open one cannot be told from it for a moment. Until it
	// has lived that long or brought an event, relists stay frequent.
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

// setEvents notes whether events come by a stream, once for each: on, then off for good. Both call for a relist: events
// were lost before, or none will tell now.
func (p *PLEG) setEvents(stream uint64, on bool) {
	p.mu.Lock()
	changed := p.events != on && stream == p.streams
	if changed {
		p.events = on
	}
	if !on {
		p.streams++ // what is late of this stream no longer counts
	}
	p.mu.Unlock()
	if changed {
		p.relistNow()
	}
}

// hintFrom makes a hint of an event about one of our pods. That something was created or started is not worth a look: who
// did it is this agent, whose call ends within moments and is a hint itself; what others do behind its back, or a call
// that its death cut short, the relist finds.
func (p *PLEG) hintFrom(e *runtimeapi.ContainerEventResponse) {
	switch e.GetContainerEventType() {
	case runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT:
		return
	}
	if s := e.GetPodSandboxStatus(); s != nil {
		if s.GetAnnotations()[cri.AnnotationAgent] == p.opts.AgentID {
			p.HintByEvent(s.GetMetadata().GetUid())
		}
		return
	}
	// The end of a sandbox leaves an event with nothing but an id.
	p.mu.Lock()
	uid := p.uidOf[e.GetContainerId()]
	p.mu.Unlock()
	p.HintByEvent(uid)
}
