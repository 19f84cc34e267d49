package devices

import (
	"context"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
)

// Plugins are what calls about devices need of a Driver.
type Plugins interface {
	Allocate(ctx context.Context, req *journaletv1.AllocateDevices) (
		answer *journaletv1.DeviceAnswer, again bool, err error)
	PreStart(ctx context.Context, resource string, ids []string) error
}

// Worker has device plugins allocate devices, and prepare them for a container that is about to start.
type Worker struct {
	// Plugins is nil on a node without device plugins.
	Plugins Plugins
}

// notServed is why a call about devices fails on a node without device plugins.
const notServed = "no device plugins are served"

// Do implements calls.Worker.
func (w Worker) Do(ctx context.Context, _ *calls.Call, req *journaletv1.CallRequested) (*calls.Outcome, error) {
	switch k := req.GetWork().(type) {
	case *journaletv1.CallRequested_AllocateDevices:
		return w.allocate(ctx, k.AllocateDevices)
	case *journaletv1.CallRequested_PreStartContainer:
		return nil, w.preStart(ctx, k.PreStartContainer)
	}
	return nil, calls.ErrOfAnother
}

func (w Worker) allocate(ctx context.Context, req *journaletv1.AllocateDevices) (*calls.Outcome, error) {
	if w.Plugins == nil {
		return nil, calls.Retryable(journaletv1.CallError_CALL_ERROR_DEVICE, notServed)
	}
	answer, again, err := w.Plugins.Allocate(ctx, req)
	switch {
	case err == nil:
		return &calls.Outcome{DeviceAnswer: answer}, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case again:
		return nil, calls.Retryable(journaletv1.CallError_CALL_ERROR_DEVICE, err.Error())
	}
	return nil, calls.Fail(journaletv1.CallError_CALL_ERROR_DEVICE, err.Error())
}

// preStart has plugins prepare a container's devices. The first error ends it.
func (w Worker) preStart(ctx context.Context, req *journaletv1.PreStartContainer) error {
	if w.Plugins == nil && len(req.GetDevices()) > 0 {
		return calls.Retryable(journaletv1.CallError_CALL_ERROR_CONFIG, notServed)
	}
	for _, d := range req.GetDevices() {
		err := w.Plugins.PreStart(ctx, d.GetResource(), d.GetIds())
		if ctx.Err() != nil && err != nil {
			return ctx.Err()
		}
		if err != nil {
			return calls.Retryable(journaletv1.CallError_CALL_ERROR_CONFIG, err.Error())
		}
	}
	return nil
}
