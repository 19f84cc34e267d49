package conformance

import (
	"maps"
	"net/netip"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (s *suite) sandbox(t *testing.T) {
	t.Run("status returns its config", s.sandboxRoundTrip)
	t.Run("has no address of its own on the host network", s.sandboxHostNetwork)
	t.Run("second creation of an attempt fails until the first is removed", s.sandboxTwin)
	t.Run("is listed by filter", s.sandboxFilters)
	t.Run("stop kills its containers", s.sandboxStop)
	t.Run("removal removes running containers", s.sandboxRemove)
}

func (s *suite) sandboxRoundTrip(t *testing.T) {
	p := s.newPod(t)
	st := s.sandboxStatus(t, p.id)
	equal(t, "id", st.GetId(), p.id)
	equal(t, "state", st.GetState(), cri.PodSandboxState_SANDBOX_READY)
	if !proto.Equal(st.GetMetadata(), p.config.GetMetadata()) {
		t.Errorf("metadata is %v, want %v", st.GetMetadata(), p.config.GetMetadata())
	}
	if !maps.Equal(st.GetLabels(), p.config.GetLabels()) || !maps.Equal(st.GetAnnotations(), p.config.GetAnnotations()) {
		t.Errorf("labels %v and annotations %q have changed", st.GetLabels(), st.GetAnnotations())
	}
	if st.GetCreatedAt() <= 0 {
		t.Errorf("created_at is %d, want nanoseconds", st.GetCreatedAt())
	}
	if _, err := netip.ParseAddr(st.GetNetwork().GetIp()); err != nil {
		t.Errorf("pod IP: %v", err)
	}
	options := st.GetLinux().GetNamespaces().GetOptions()
	equal(t, "pid namespace", options.GetPid(), cri.NamespaceMode_CONTAINER)
	equal(t, "network namespace", options.GetNetwork(), cri.NamespaceMode_POD)
	other := s.newPod(t)
	if ip := s.sandboxStatus(t, other.id).GetNetwork().GetIp(); ip == st.GetNetwork().GetIp() {
		t.Errorf("two sandboxes have the address %s", ip)
	}
}

func (s *suite) sandboxHostNetwork(t *testing.T) {
	c := s.podConfig(t)
	c.Hostname = ""
	c.Linux.SecurityContext.NamespaceOptions.Network = cri.NamespaceMode_NODE
	st := s.sandboxStatus(t, s.run(t, c).id)
	equal(t, "pod IP", st.GetNetwork().GetIp(), "")
	equal(t, "network mode", st.GetLinux().GetNamespaces().GetOptions().GetNetwork(), cri.NamespaceMode_NODE)
}

func (s *suite) sandboxTwin(t *testing.T) {
	p := s.newPod(t)
	twin, err := s.runtime.RunPodSandbox(call(t), &cri.RunPodSandboxRequest{Config: p.config})
	wantTwinError(t, "a second sandbox of the same attempt", twin.GetPodSandboxId(), err)
	next := proto.CloneOf(p.config)
	next.Metadata.Attempt++
	if q := s.run(t, next); q.id == p.id {
		t.Errorf("the next attempt got the same id %s", q.id)
	}
	must(t, s.runtime.RemovePodSandbox, &cri.RemovePodSandboxRequest{PodSandboxId: p.id})
	s.run(t, p.config)
}

// wantTwinError checks that the second creation of an attempt failed. Runtimes differ in the code, so an agent must
// list to find out what exists. The code must be neither a code for a missing object nor a code that asks for a
// repetition.
func wantTwinError(t *testing.T, what, id string, err error) {
	t.Helper()
	switch code := status.Code(err); code {
	case codes.OK:
		t.Fatalf("%s was created: %s", what, id)
	case codes.NotFound, codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unimplemented:
		t.Errorf("%s failed with %s: %v", what, code, err)
	}
}

func (s *suite) sandboxFilters(t *testing.T) {
	p, stopped := s.newPod(t), s.newPod(t)
	must(t, s.runtime.StopPodSandbox, &cri.StopPodSandboxRequest{PodSandboxId: stopped.id})
	ready := &cri.PodSandboxStateValue{State: cri.PodSandboxState_SANDBOX_READY}
	notReady := &cri.PodSandboxStateValue{State: cri.PodSandboxState_SANDBOX_NOTREADY}
	own := map[string]string{"pod": p.config.Labels["pod"]}
	for _, c := range []struct {
		name          string
		filter        *cri.PodSandboxFilter
		first, second bool
	}{
		{"none", nil, true, true},
		{"id", &cri.PodSandboxFilter{Id: p.id}, true, false},
		{"unknown id", &cri.PodSandboxFilter{Id: "0000000000"}, false, false},
		{"ready", &cri.PodSandboxFilter{State: ready}, true, false},
		{"not ready", &cri.PodSandboxFilter{State: notReady}, false, true},
		{"shared label", &cri.PodSandboxFilter{LabelSelector: map[string]string{"suite": "conformance"}}, true, true},
		{"own label", &cri.PodSandboxFilter{LabelSelector: own}, true, false},
		{"label and state", &cri.PodSandboxFilter{LabelSelector: own, State: notReady}, false, false},
	} {
		list := must(t, s.runtime.ListPodSandbox, &cri.ListPodSandboxRequest{Filter: c.filter})
		seen := map[string]*cri.PodSandbox{}
		for _, item := range list.GetItems() {
			seen[item.GetId()] = item
		}
		equal(t, "first sandbox listed by "+c.name, seen[p.id] != nil, c.first)
		equal(t, "stopped sandbox listed by "+c.name, seen[stopped.id] != nil, c.second)
		if item := seen[p.id]; item != nil {
			if !maps.Equal(item.GetAnnotations(), p.config.GetAnnotations()) ||
				!proto.Equal(item.GetMetadata(), p.config.GetMetadata()) {
				t.Errorf("listed sandbox differs from its config: %v", item)
			}
			equal(t, "listed created_at", item.GetCreatedAt(), s.sandboxStatus(t, p.id).GetCreatedAt())
		}
	}
}

func (s *suite) sandboxStop(t *testing.T) {
	p := s.newPod(t)
	id := p.start(t, p.containerConfig("main", forever()...))
	created := p.create(t, p.containerConfig("never-started", forever()...))
	for range 2 { // the second stop finds nothing to do
		must(t, s.runtime.StopPodSandbox, &cri.StopPodSandboxRequest{PodSandboxId: p.id})
	}
	st := s.sandboxStatus(t, p.id)
	equal(t, "sandbox state", st.GetState(), cri.PodSandboxState_SANDBOX_NOTREADY)
	equal(t, "pod IP after the stop", st.GetNetwork().GetIp(), "")
	c := s.status(t, id)
	equal(t, "container state", c.GetState(), cri.ContainerState_CONTAINER_EXITED)
	equal(t, "exit code", c.GetExitCode(), 137)
	equal(t, "state of the container never started", s.status(t, created).GetState(), cri.ContainerState_CONTAINER_CREATED)

	mustFail(t, "a container was created in a stopped sandbox", s.runtime.CreateContainer,
		&cri.CreateContainerRequest{
			PodSandboxId: p.id, Config: p.containerConfig("late", forever()...), SandboxConfig: p.config,
		})
	mustFail(t, "a container was started in a stopped sandbox", s.runtime.StartContainer,
		&cri.StartContainerRequest{ContainerId: created})
}

func (s *suite) sandboxRemove(t *testing.T) {
	p := s.newPod(t)
	id := p.start(t, p.containerConfig("main", forever()...))
	for range 2 {
		must(t, s.runtime.RemovePodSandbox, &cri.RemovePodSandboxRequest{PodSandboxId: p.id})
	}
	wantCode(t, codes.NotFound, s.runtime.PodSandboxStatus, &cri.PodSandboxStatusRequest{PodSandboxId: p.id})
	wantCode(t, codes.NotFound, s.runtime.ContainerStatus, &cri.ContainerStatusRequest{ContainerId: id})
}
