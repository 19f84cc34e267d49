package sim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Pod IPs come from here: RFC 2544's benchmarking range 198.18.0.0/15, which no real network uses.
const (
	podNetworkBase  = 198<<24 | 18<<16
	podNetworkSize  = 1 << 17
	minShortIDHexes = 4 // ids may be cut to a unique prefix; shorter ones count as unknown
)

// sandbox is one pod sandbox. Only ip and ready ever change.
type sandbox struct {
	id        string
	name      string // the reserved name
	config    *cri.PodSandboxConfig
	handler   string
	ip        string // empty with the host's network
	createdAt int64
	ready     bool
}

// sandboxName is what containerd reserves: one sandbox at a time for a pod's name, namespace, UID and attempt.
func sandboxName(m *cri.PodSandboxMetadata) string {
	return strings.Join([]string{m.GetName(), m.GetNamespace(), m.GetUid(), fmt.Sprint(m.GetAttempt())}, "_")
}

func (s *runtimeService) RunPodSandbox(
	_ context.Context, req *cri.RunPodSandboxRequest,
) (*cri.RunPodSandboxResponse, error) {
	config := req.GetConfig()
	if config.GetMetadata().GetName() == "" {
		return nil, status.Error(codes.Unknown, "sandbox config must include metadata")
	}
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	name := sandboxName(config.GetMetadata())
	if holder, taken := r.state.sandboxNames[name]; taken {
		return nil, errReserved("sandbox", name, holder)
	}
	if h := req.GetRuntimeHandler(); h != "" && h != runtimeHandler {
		return nil, status.Errorf(codes.Unknown, "no runtime for %q is configured", h)
	}
	if len(r.state.sandboxes) >= maxSandboxes {
		return nil, status.Errorf(codes.ResourceExhausted, "%d sandboxes exist; remove some", maxSandboxes)
	}
	if why := r.state.networkDown; why != "" && !hostNetwork(config) {
		return nil, status.Errorf(codes.Unknown, "failed to setup network for sandbox: %s", why)
	}
	sb := &sandbox{
		id: r.newID(), name: name, config: config, handler: req.GetRuntimeHandler(), createdAt: r.stamp(), ready: true,
	}
	if !hostNetwork(config) {
		sb.ip = r.newIP()
	}
	r.state.sandboxes[sb.id] = sb
	r.state.sandboxNames[name] = sb.id
	r.publish(sb.id, sb.id, cri.ContainerEventType_CONTAINER_CREATED_EVENT)
	r.publish(sb.id, sb.id, cri.ContainerEventType_CONTAINER_STARTED_EVENT)
	return &cri.RunPodSandboxResponse{PodSandboxId: sb.id}, nil
}

func hostNetwork(c *cri.PodSandboxConfig) bool {
	return c.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == cri.NamespaceMode_NODE
}

// newIP returns the next address, wrapping around after 131,070 sandboxes. r.mu is held.
func (r *Runtime) newIP() string {
	r.state.nextIP = r.state.nextIP%(podNetworkSize-2) + 1
	n := uint32(podNetworkBase) + r.state.nextIP
	return fmt.Sprintf("%d.%d.%d.%d", n>>24, n>>16&255, n>>8&255, n&255)
}

func (s *runtimeService) StopPodSandbox(
	_ context.Context, req *cri.StopPodSandboxRequest,
) (*cri.StopPodSandboxResponse, error) {
	if req.GetPodSandboxId() == "" {
		return nil, errEmptyID
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if sb := s.r.findSandbox(req.GetPodSandboxId()); sb != nil {
		s.r.stopSandbox(sb)
	}
	return &cri.StopPodSandboxResponse{}, nil
}

// stopSandbox kills what runs in a sandbox, without grace, and then the sandbox itself. r.mu is held.
func (r *Runtime) stopSandbox(sb *sandbox) {
	for _, c := range r.containersOf(sb.id) {
		r.killNow(c)
	}
	r.endSandbox(sb)
	sb.ip = ""
}

// LoseNetwork takes a sandbox's address away behind the agent's back; the sandbox stays ready. It fails with NotFound.
func (r *Runtime) LoseNetwork(sandboxID string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	sb := r.findSandbox(sandboxID)
	if sb == nil {
		return notFound("sandbox", sandboxID)
	}
	sb.ip = ""
	return nil
}

// endSandbox marks a sandbox NOTREADY. r.mu is held.
func (r *Runtime) endSandbox(sb *sandbox) {
	if sb.ready {
		sb.ready = false
		r.publish(sb.id, sb.id, cri.ContainerEventType_CONTAINER_STOPPED_EVENT)
	}
}

func (s *runtimeService) RemovePodSandbox(
	_ context.Context, req *cri.RemovePodSandboxRequest,
) (*cri.RemovePodSandboxResponse, error) {
	if req.GetPodSandboxId() == "" {
		return nil, errEmptyID
	}
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	sb := r.findSandbox(req.GetPodSandboxId())
	if sb == nil {
		return &cri.RemovePodSandboxResponse{}, nil
	}
	r.stopSandbox(sb)
	for _, c := range r.containersOf(sb.id) {
		r.removeContainer(c)
	}
	// The record is still there when the event is sent, as with containerd: it carries the last status.
	r.publish(sb.id, sb.id, cri.ContainerEventType_CONTAINER_DELETED_EVENT)
	delete(r.state.sandboxes, sb.id)
	delete(r.state.sandboxNames, sb.name)
	return &cri.RemovePodSandboxResponse{}, nil
}

func (s *runtimeService) PodSandboxStatus(
	_ context.Context, req *cri.PodSandboxStatusRequest,
) (*cri.PodSandboxStatusResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	sb := s.r.findSandbox(req.GetPodSandboxId())
	if sb == nil {
		return nil, notFound("sandbox", req.GetPodSandboxId())
	}
	return &cri.PodSandboxStatusResponse{Status: sb.status()}, nil
}

func (sb *sandbox) state() cri.PodSandboxState {
	if sb.ready {
		return cri.PodSandboxState_SANDBOX_READY
	}
	return cri.PodSandboxState_SANDBOX_NOTREADY
}

func (sb *sandbox) status() *cri.PodSandboxStatus {
	namespaces := &cri.Namespace{Options: sb.config.GetLinux().GetSecurityContext().GetNamespaceOptions()}
	return &cri.PodSandboxStatus{
		Id:             sb.id,
		Metadata:       sb.config.GetMetadata(),
		State:          sb.state(),
		CreatedAt:      sb.createdAt,
		Network:        &cri.PodSandboxNetworkStatus{Ip: sb.ip},
		Linux:          &cri.LinuxPodSandboxStatus{Namespaces: namespaces},
		Labels:         sb.config.GetLabels(),
		Annotations:    sb.config.GetAnnotations(),
		RuntimeHandler: sb.handler,
	}
}

func (s *runtimeService) ListPodSandbox(
	_ context.Context, req *cri.ListPodSandboxRequest,
) (*cri.ListPodSandboxResponse, error) {
	return &cri.ListPodSandboxResponse{Items: s.r.listSandboxes(req.GetFilter())}, nil
}

// listSandboxes returns what matches the filter, oldest first.
func (r *Runtime) listSandboxes(f *cri.PodSandboxFilter) []*cri.PodSandbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	var items []*cri.PodSandbox
	for _, sb := range r.state.sandboxes {
		if f.GetId() != "" && r.findSandbox(f.GetId()) != sb {
			continue
		}
		if f.GetState() != nil && f.GetState().GetState() != sb.state() {
			continue
		}
		if !matchLabels(f.GetLabelSelector(), sb.config.GetLabels()) {
			continue
		}
		items = append(items, &cri.PodSandbox{
			Id: sb.id, Metadata: sb.config.GetMetadata(), State: sb.state(), CreatedAt: sb.createdAt,
			Labels: sb.config.GetLabels(), Annotations: sb.config.GetAnnotations(), RuntimeHandler: sb.handler,
		})
	}
	slices.SortFunc(items, func(a, b *cri.PodSandbox) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	return items
}

// matchLabels reports whether have holds every pair of want.
func matchLabels(want, have map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// findSandbox finds by id or by a prefix of it that fits only one. r.mu is held.
func (r *Runtime) findSandbox(id string) *sandbox { return findByID(r.state.sandboxes, id) }

func findByID[T any](m map[string]*T, id string) *T {
	if v := m[id]; v != nil || len(id) < minShortIDHexes {
		return v
	}
	var hit *T
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if strings.HasPrefix(k, id) {
			if hit != nil {
				return nil
			}
			hit = m[k]
		}
	}
	return hit
}
