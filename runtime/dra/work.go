package dra

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
)

// noClaims is why a call for claims fails that was requested while the agent was a node of a cluster.
const noClaims = "DRA drivers need an API server, which has the claims; start the agent with --kubeconfig"

// Preparer is what calls for claims need of Claims.
type Preparer interface {
	Read(ctx context.Context, pod *corev1.Pod, extended string) ([]*journaletv1.ResourceClaim, error)
	Prepare(ctx context.Context, pod string, all []*journaletv1.ResourceClaim) ([]*journaletv1.ClaimOutcome, error)
	Unprepare(ctx context.Context, pod string, all []*journaletv1.ResourceClaim) ([]*journaletv1.ClaimOutcome, error)
}

// Worker reads the claims of pods, and has DRA drivers prepare and unprepare them.
type Worker struct {
	// Claims is nil on a node without an API server.
	Claims Preparer
}

// Do implements calls.Worker.
func (w Worker) Do(ctx context.Context, in *calls.Call, req *journaletv1.CallRequested) (*calls.Outcome, error) {
	switch k := req.GetWork().(type) {
	case *journaletv1.CallRequested_ReadClaims:
		return w.read(ctx, in, k.ReadClaims)
	case *journaletv1.CallRequested_PrepareClaims:
		return w.each(ctx, in.UID, k.PrepareClaims.GetClaims(), Preparer.Prepare)
	case *journaletv1.CallRequested_UnprepareClaims:
		return w.each(ctx, in.UID, k.UnprepareClaims.GetClaims(), Preparer.Unprepare)
	}
	return nil, calls.ErrOfAnother
}

func (w Worker) read(ctx context.Context, in *calls.Call, req *journaletv1.ReadClaims) (*calls.Outcome, error) {
	if w.Claims == nil {
		return nil, failed(noClaims)
	}
	pod, err := in.Manifest(ctx, req.GetDigest())
	if err != nil {
		return nil, err
	}
	claims, err := w.Claims.Read(ctx, pod, req.GetExtended())
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, failed(err.Error())
	}
	return &calls.Outcome{Claims: claims}, nil
}

// each prepares or unprepares claims of a pod. The call fails as its first claim does.
func (w Worker) each(ctx context.Context, pod string, all []*journaletv1.ResourceClaim, do func(
	Preparer, context.Context, string, []*journaletv1.ResourceClaim) ([]*journaletv1.ClaimOutcome, error),
) (*calls.Outcome, error) {
	if w.Claims == nil {
		return nil, failed(noClaims)
	}
	outcomes, err := do(w.Claims, ctx, pod, all)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err() // what failed may have failed for this reason
	case err != nil:
		return nil, failed(err.Error())
	}
	out := &calls.Outcome{ClaimOutcomes: outcomes}
	for _, o := range outcomes {
		if o.GetMessage() != "" {
			return out, failed(o.GetMessage())
		}
	}
	return out, nil
}

func failed(message string) error {
	return calls.Retryable(journaletv1.CallError_CALL_ERROR_CLAIM, message)
}
