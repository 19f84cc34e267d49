package sim

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

// handlerFeatures are containerd's features on a recent kernel.
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

// UpdateRuntimeConfig takes the pod CIDR. Like containerd, it refuses text that is not a CIDR, and keeps its CIDR if
// the request has none.
func (s *runtimeService) UpdateRuntimeConfig(
	_ context.Context, req *cri.UpdateRuntimeConfigRequest,
) (*cri.UpdateRuntimeConfigResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	text := req.GetRuntimeConfig().GetNetworkConfig().GetPodCidr()
	if text == "" {
		return &cri.UpdateRuntimeConfigResponse{}, nil
	}
	for _, c := range strings.Split(text, ",") {
		if _, err := netip.ParsePrefix(strings.TrimSpace(c)); err != nil {
			return nil, status.Errorf(codes.Unknown, "get routes: %v", err)
		}
	}
	s.r.state.podCIDR = text
	return &cri.UpdateRuntimeConfigResponse{}, nil
}

// PodCIDR returns the pod CIDR that the runtime was given last; empty: none.
func (r *Runtime) PodCIDR() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.podCIDR
}
