package cri_test

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
)

// created keeps what containers are created with.
type created struct {
	grpc.ClientConnInterface
	config *runtimeapi.ContainerConfig
}

func (c *created) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if req, ok := args.(*runtimeapi.CreateContainerRequest); ok {
		c.config = req.GetConfig()
	}
	return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

func TestContainerGetsTheDevicesOfItsClaimsOnce(t *testing.T) {
	var c created
	r := newRig(t, func(o *cri.Options) {
		c.ClientConnInterface = o.Conn
		o.Conn = &c
	})
	start := startContainer(r.sandbox(), 0)
	start.GetStartContainer().ClaimDevices = []string{"g/c=1", "g/c=2"}
	start.GetStartContainer().Devices = []*journaletv1.ContainerDevices{{
		Answer: &journaletv1.DeviceAnswer{CdiDevices: []string{"g/c=2"}},
	}}
	r.done("c", start, false)
	var names []string
	for _, d := range c.config.GetCDIDevices() {
		names = append(names, d.GetName())
	}
	if !slices.Equal(names, []string{"g/c=2", "g/c=1"}) {
		t.Errorf("the container has the CDI devices %v", names)
	}
}
