package cri

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Claims has DRA drivers prepare claims of pods. It is implemented by dra.Claims, which documents the methods.
type Claims interface {
	Read(ctx context.Context, pod *corev1.Pod, extended string) ([]*journaletv1.ResourceClaim, error)
	Prepare(ctx context.Context, pod string, all []*journaletv1.ResourceClaim) ([]*journaletv1.ClaimOutcome, error)
	Unprepare(ctx context.Context, pod string, all []*journaletv1.ResourceClaim) ([]*journaletv1.ClaimOutcome, error)
}

// noClaims is why a call for claims fails that was requested while the agent was a node of a cluster.
const noClaims = "DRA drivers need an API server, which has the claims; start the agent with --kubeconfig"

func (c *call) readClaims(ctx context.Context, req *journaletv1.ReadClaims) (result, error) {
	if c.opts.Claims == nil {
		return result{}, retryable(journaletv1.CallError_CALL_ERROR_CLAIM, noClaims)
	}
	pod, err := c.manifest(ctx, req.GetDigest())
	if err != nil {
		return result{}, err
	}
	claims, err := c.opts.Claims.Read(ctx, pod, req.GetExtended())
	switch {
	case ctx.Err() != nil:
		return result{}, ctx.Err()
	case err != nil:
		return result{}, retryable(journaletv1.CallError_CALL_ERROR_CLAIM, err.Error())
	}
	return result{claims: claims}, nil
}

func (c *call) prepareClaims(ctx context.Context, req *journaletv1.PrepareClaims) (result, error) {
	if c.opts.Claims == nil {
		return result{}, retryable(journaletv1.CallError_CALL_ERROR_CLAIM, noClaims)
	}
	out, err := c.opts.Claims.Prepare(ctx, c.uid, req.GetClaims())
	return claimResult(ctx, out, err)
}

func (c *call) unprepareClaims(ctx context.Context, req *journaletv1.UnprepareClaims) (result, error) {
	if c.opts.Claims == nil {
		return result{}, retryable(journaletv1.CallError_CALL_ERROR_CLAIM, noClaims)
	}
	out, err := c.opts.Claims.Unprepare(ctx, c.uid, req.GetClaims())
	return claimResult(ctx, out, err)
}

// claimResult returns the result of a call for claims. The call fails as its first claim does.
func claimResult(ctx context.Context, out []*journaletv1.ClaimOutcome, err error) (result, error) {
	if ctx.Err() != nil {
		return result{}, ctx.Err() // what failed may have failed for this reason
	}
	if err != nil {
		return result{}, retryable(journaletv1.CallError_CALL_ERROR_CLAIM, err.Error())
	}
	for _, o := range out {
		if o.GetMessage() != "" {
			return result{claimOutcomes: out}, retryable(journaletv1.CallError_CALL_ERROR_CLAIM, o.GetMessage())
		}
	}
	return result{claimOutcomes: out}, nil
}

// withheldOutcomes returns the outcomes as they may be recorded.
func (c *call) withheldOutcomes(all []*journaletv1.ClaimOutcome) []*journaletv1.ClaimOutcome {
	for _, o := range all {
		// The whole text: in a text that the journal has cut, a value would not be found.
		o.Message = c.redact(o.GetMessage())
	}
	return all
}

// claimCDIDevices returns the CDI devices of a container's claims that are not there yet.
func claimCDIDevices(there []*runtimeapi.CDIDevice, names []string) []*runtimeapi.CDIDevice {
	for _, name := range names {
		if !slices.ContainsFunc(there, func(o *runtimeapi.CDIDevice) bool { return o.GetName() == name }) {
			there = append(there, &runtimeapi.CDIDevice{Name: name})
		}
	}
	return there
}
