package fakecri

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Conn is our driver's connection to the runtime. Every call returns at once.
type Conn struct{ *Runtime }

var _ grpc.ClientConnInterface = Conn{}

// NewStream fails: the driver needs no stream, and the PLEG relists without one.
func (c Conn) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "no streams")
}

// Invoke serves one call by the type of its request.
func (c Conn) Invoke(_ context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	resp, err := c.serve(args)
	if err != nil {
		return err
	}
	to, ok := reply.(proto.Message)
	if !ok || resp == nil {
		return status.Errorf(codes.Unimplemented, "method %s", method)
	}
	if resp.ProtoReflect().Descriptor() != to.ProtoReflect().Descriptor() {
		return errors.New("the fake runtime's response to " + method + " has the wrong type")
	}
	proto.Merge(to, resp)
	return nil
}

func (c Conn) serve(args any) (proto.Message, error) {
	switch q := args.(type) {
	case *runtimeapi.StatusRequest:
		return &runtimeapi.StatusResponse{
			Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true},
			RuntimeHandlers: []*runtimeapi.RuntimeHandler{{Features: &runtimeapi.RuntimeHandlerFeatures{
				RecursiveReadOnlyMounts: true, UserNamespaces: true,
			}}},
		}, nil
	case *runtimeapi.RunPodSandboxRequest:
		return &runtimeapi.RunPodSandboxResponse{PodSandboxId: c.runSandbox(proto.CloneOf(q.GetConfig()))}, nil
	case *runtimeapi.StopPodSandboxRequest:
		c.stopSandbox(q.GetPodSandboxId())
		return &runtimeapi.StopPodSandboxResponse{}, nil
	case *runtimeapi.RemovePodSandboxRequest:
		c.removeSandbox(q.GetPodSandboxId())
		return &runtimeapi.RemovePodSandboxResponse{}, nil
	case *runtimeapi.PodSandboxStatusRequest:
		return c.sandboxStatus(q.GetPodSandboxId())
	case *runtimeapi.ListPodSandboxRequest:
		return &runtimeapi.ListPodSandboxResponse{Items: c.listSandboxes(q.GetFilter())}, nil
	case *runtimeapi.CreateContainerRequest:
		id, err := c.createContainer(q.GetPodSandboxId(), proto.CloneOf(q.GetConfig()), proto.CloneOf(q.GetSandboxConfig()))
		return &runtimeapi.CreateContainerResponse{ContainerId: id}, err
	case *runtimeapi.StartContainerRequest:
		return &runtimeapi.StartContainerResponse{}, c.startContainer(q.GetContainerId())
	case *runtimeapi.StopContainerRequest:
		return &runtimeapi.StopContainerResponse{}, c.stopContainer(q.GetContainerId(), q.GetTimeout())
	case *runtimeapi.RemoveContainerRequest:
		c.removeContainer(q.GetContainerId())
		return &runtimeapi.RemoveContainerResponse{}, nil
	case *runtimeapi.ListContainersRequest:
		return &runtimeapi.ListContainersResponse{Containers: c.listContainers(q.GetFilter())}, nil
	case *runtimeapi.ContainerStatusRequest:
		return c.containerStatus(q.GetContainerId())
	case *runtimeapi.ExecSyncRequest:
		return &runtimeapi.ExecSyncResponse{}, c.exec(q.GetContainerId(), q.GetCmd())
	case *runtimeapi.UpdateContainerResourcesRequest:
		return &runtimeapi.UpdateContainerResourcesResponse{}, c.updateContainer(q.GetContainerId(), q.GetLinux())
	case *runtimeapi.UpdatePodSandboxResourcesRequest:
		return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
	case *runtimeapi.ContainerStatsRequest:
		return &runtimeapi.ContainerStatsResponse{Stats: &runtimeapi.ContainerStats{Memory: &runtimeapi.MemoryUsage{
			UsageBytes: &runtimeapi.UInt64Value{Value: c.Container(q.GetContainerId()).MemoryBytes},
		}}}, nil
	case *runtimeapi.ImageStatusRequest:
		return c.imageStatus(q.GetImage()), nil
	case *runtimeapi.ImageFsInfoRequest:
		return &runtimeapi.ImageFsInfoResponse{}, nil
	case *runtimeapi.PullImageRequest:
		ref, err := c.pullImage(q.GetImage())
		return &runtimeapi.PullImageResponse{ImageRef: ref}, err
	}
	return nil, nil
}
