package cri

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
)

// updateRuntimeConfig gives the runtime the pod CIDR. It is idempotent, so a call in doubt is repeated. A runtime that
// has no such call needs no pod CIDR.
func (c *call) updateRuntimeConfig(ctx context.Context, req *journaletv1.UpdateRuntimeConfig) (*calls.Outcome, error) {
	_, err := retry(ctx, c, "UpdateRuntimeConfig", c.opts.Timeouts.Call, c.rt.UpdateRuntimeConfig,
		&runtimeapi.UpdateRuntimeConfigRequest{RuntimeConfig: &runtimeapi.RuntimeConfig{
			NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: req.GetPodCidr()},
		}})
	if status.Code(err) == codes.Unimplemented {
		c.Log.Info("the runtime takes no pod CIDR", "error", messageOf(err))
		err = nil
	}
	return nil, err
}
