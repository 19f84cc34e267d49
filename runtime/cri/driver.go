package cri

import (
	"context"
	"errors"
	"log/slog"

	"golang.org/x/time/rate"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/clock"
)

// Driver performs the journal's calls on the container runtime. It decides nothing, and its only state is a rate limit.
// Its methods may be called concurrently. Calls for one container must not overlap, which the runtime actor ensures;
// its hooks may run beside them.
type Driver struct {
	opts    Options
	log     *slog.Logger
	clock   clock.Clock
	rt      runtimeapi.RuntimeServiceClient
	images  runtimeapi.ImageServiceClient
	pulls   *rate.Limiter
	uses    *imageUses
	earlier *earlierPods
	// answers are reads of volumes whose servers may be away.
	answers *bounded.Answers
}

// New returns a driver. It calls nothing, so the runtime need not be up yet. It panics if a required field of Options
// is missing: that is a programming error.
func New(opts Options) *Driver {
	if opts.Conn == nil || opts.Owner.AgentID == "" || opts.Hash == nil || opts.Volumes == nil {
		panic("cri: Options needs Conn, Owner, Hash and Volumes")
	}
	setDefaults(&opts)
	d := &Driver{opts: opts, log: opts.Log, clock: opts.Clock, answers: new(bounded.Answers)}
	d.uses, d.earlier = new(imageUses), new(earlierPods)
	d.rt = runtimeapi.NewRuntimeServiceClient(opts.Conn)
	d.images = runtimeapi.NewImageServiceClient(opts.ImageConn)
	limit := rate.Limit(opts.Pulls.QPS)
	if opts.Pulls.QPS < 0 {
		limit = rate.Inf
	}
	d.pulls = rate.NewLimiter(limit, opts.Pulls.Burst)
	return d
}

// call is one call under way.
type call struct {
	*Driver
	*calls.Call
}

// aside returns a call that is no intent's, to inspect the runtime.
func (d *Driver) aside() *call { return &call{d, &calls.Call{Log: d.log}} }

// Do implements calls.Worker. A call in doubt inspects the runtime first. A call that creates or starts an object gets
// Timeouts.Drain to end after ctx, so that an orderly stop mostly leaves nothing in doubt. Otherwise a call waits as
// long as the runtime does not respond.
func (d *Driver) Do(ctx context.Context, in *calls.Call, req *journaletv1.CallRequested) (*calls.Outcome, error) {
	out, err := (&call{d, in}).do(ctx, req)
	if err != nil && ctx.Err() == nil && !errors.Is(err, calls.ErrOfAnother) {
		err = failureOf(err)
	}
	return out, err
}

func (c *call) do(ctx context.Context, req *journaletv1.CallRequested) (*calls.Outcome, error) {
	switch w := req.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		return c.runSandbox(ctx, w.RunSandbox)
	case *journaletv1.CallRequested_StartContainer:
		return c.startContainer(ctx, w.StartContainer)
	case *journaletv1.CallRequested_UpdateContainer:
		return c.updateContainer(ctx, w.UpdateContainer)
	case *journaletv1.CallRequested_UpdateSandbox:
		return c.updatePod(ctx, w.UpdateSandbox)
	case *journaletv1.CallRequested_StopContainer:
		return c.stopContainer(ctx, w.StopContainer)
	case *journaletv1.CallRequested_RemoveContainer:
		return c.removeContainer(ctx, w.RemoveContainer.GetContainerId())
	case *journaletv1.CallRequested_StopSandbox:
		return c.stopSandbox(ctx, w.StopSandbox.GetSandboxId())
	case *journaletv1.CallRequested_RemoveSandbox:
		return c.removeSandbox(ctx, w.RemoveSandbox.GetSandboxId())
	case *journaletv1.CallRequested_PullImage:
		return c.pullImage(ctx, w.PullImage)
	case *journaletv1.CallRequested_RemoveImage:
		return c.removeImage(ctx, w.RemoveImage)
	case *journaletv1.CallRequested_UpdateRuntimeConfig:
		return c.updateRuntimeConfig(ctx, w.UpdateRuntimeConfig)
	case *journaletv1.CallRequested_SetUpVolumes:
		return c.setUpVolumes(ctx, w.SetUpVolumes)
	case *journaletv1.CallRequested_CleanPod:
		return c.cleanPod(ctx, w.CleanPod)
	case *journaletv1.CallRequested_RunHook:
		return c.runHook(ctx, w.RunHook)
	}
	return nil, calls.ErrOfAnother
}

// failureOf returns the failure that an error is. Texts of the runtime are without gRPC's words.
func failureOf(err error) *calls.Failure {
	if calls.IsFailure(err) {
		return calls.FailureOf(err)
	}
	return calls.Retryable(journaletv1.CallError_CALL_ERROR_RUNTIME, messageOf(err))
}
