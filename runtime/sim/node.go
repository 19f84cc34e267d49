package sim

import (
	"context"
	"fmt"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtimeVersion is the simulated runtime's own version; kubeAPIVersion is what every CRI runtime reports there.
const (
	runtimeVersion = "1.0.0"
	kubeAPIVersion = "0.1.0"
	criVersion     = "v1"
)

// runtimeHandler is the only handler that RunPodSandbox takes besides the empty one; it is containerd's default.
const runtimeHandler = "runc"

// Reasons of the two conditions when SetReady sets them to false.
const (
	reasonRuntimeDown = "RuntimeNotReady"
	reasonNetworkDown = "NetworkPluginNotReady"
)

func (s *runtimeService) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{
		Version: kubeAPIVersion, RuntimeName: RuntimeName, RuntimeVersion: runtimeVersion, RuntimeApiVersion: criVersion,
	}, nil
}

// handlerFeatures are those of containerd on a recent kernel.
var handlerFeatures = &cri.RuntimeHandlerFeatures{UserNamespaces: true, RecursiveReadOnlyMounts: true}

func (s *runtimeService) Status(_ context.Context, req *cri.StatusRequest) (*cri.StatusResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	var info map[string]string
	if name := s.r.state.sandboxImage; name != "" && req.GetVerbose() {
		info = map[string]string{"config": fmt.Sprintf(`{"sandboxImage": %q}`, name)}
	}
	condition := func(kind, reason, message string) *cri.RuntimeCondition {
		if message == "" {
			return &cri.RuntimeCondition{Type: kind, Status: true}
		}
		return &cri.RuntimeCondition{Type: kind, Reason: reason, Message: message}
	}
	return &cri.StatusResponse{
		Info: info, Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
			condition(cri.RuntimeReady, reasonRuntimeDown, s.r.state.runtimeDown),
			condition(cri.NetworkReady, reasonNetworkDown, s.r.state.networkDown),
		}},
		RuntimeHandlers: []*cri.RuntimeHandler{
			{Name: "", Features: handlerFeatures},
			{Name: runtimeHandler, Features: handlerFeatures},
		},
		Features: &cri.RuntimeFeatures{SupplementalGroupsPolicy: true},
	}, nil
}

func (s *runtimeService) RuntimeConfig(context.Context, *cri.RuntimeConfigRequest) (*cri.RuntimeConfigResponse, error) {
	return &cri.RuntimeConfigResponse{Linux: &cri.LinuxRuntimeConfiguration{CgroupDriver: cri.CgroupDriver_CGROUPFS}}, nil
}

func (s *runtimeService) UpdateRuntimeConfig(
	context.Context, *cri.UpdateRuntimeConfigRequest,
) (*cri.UpdateRuntimeConfigResponse, error) {
	return &cri.UpdateRuntimeConfigResponse{}, nil
}
