package conformance

import (
	"maps"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (s *suite) container(t *testing.T) {
	t.Run("status returns its config", s.containerRoundTrip)
	t.Run("second creation of an attempt fails until the first is removed", s.containerTwin)
	t.Run("is listed by filter", s.containerFilters)
	t.Run("needs an image that is present", s.containerImage)
	t.Run("takes new resources", s.containerResources)
	t.Run("removal kills a running one", s.containerRemove)
	t.Run("removal of one never started", s.containerRemoveCreated)
	t.Run("joins the processes of another one that runs", s.containerTarget)
}

func (s *suite) containerRoundTrip(t *testing.T) {
	p := s.newPod(t)
	config := p.containerConfig("main", forever()...)
	host := t.TempDir()
	config.Mounts = []*cri.Mount{{ContainerPath: "/data", HostPath: host, Readonly: true}}
	id := p.create(t, config)

	st := s.status(t, id)
	equal(t, "state before the start", st.GetState(), cri.ContainerState_CONTAINER_CREATED)
	equal(t, "started_at before the start", st.GetStartedAt(), 0)
	equal(t, "finished_at before the start", st.GetFinishedAt(), 0)
	equal(t, "log path", st.GetLogPath(), p.config.GetLogDirectory()+"/"+config.GetLogPath())
	if !proto.Equal(st.GetMetadata(), config.GetMetadata()) {
		t.Errorf("metadata is %v, want %v", st.GetMetadata(), config.GetMetadata())
	}
	if !maps.Equal(st.GetLabels(), config.GetLabels()) || !maps.Equal(st.GetAnnotations(), config.GetAnnotations()) {
		t.Errorf("labels %v and annotations %v have changed", st.GetLabels(), st.GetAnnotations())
	}
	if len(st.GetMounts()) != 1 || st.GetMounts()[0].GetHostPath() != host || !st.GetMounts()[0].GetReadonly() {
		t.Errorf("mounts are %v", st.GetMounts())
	}
	equal(t, "image", st.GetImage().GetImage(), s.Image)
	// Runtimes before CRI 1.31 leave image_id empty.
	imageID, ref := st.GetImageId(), st.GetImageRef()
	if imageID != "" && !strings.HasPrefix(imageID, "sha256:") || !strings.Contains(ref, "sha256:") {
		t.Errorf("image id %q and ref %q, want digests", imageID, ref)
	}

	must(t, s.runtime.StartContainer, &cri.StartContainerRequest{ContainerId: id})
	st = s.status(t, id)
	equal(t, "state after the start", st.GetState(), cri.ContainerState_CONTAINER_RUNNING)
	if st.GetCreatedAt() <= 0 || st.GetStartedAt() < st.GetCreatedAt() {
		t.Errorf("created at %d, started at %d", st.GetCreatedAt(), st.GetStartedAt())
	}
	equal(t, "finished_at while it runs", st.GetFinishedAt(), 0)
	mustFail(t, "a running container was started again", s.runtime.StartContainer,
		&cri.StartContainerRequest{ContainerId: id})
	equal(t, "state after the second start", s.status(t, id).GetState(), cri.ContainerState_CONTAINER_RUNNING)
}

func (s *suite) containerTwin(t *testing.T) {
	p := s.newPod(t)
	config := p.containerConfig("main", forever()...)
	id := p.create(t, config)
	twin, err := s.runtime.CreateContainer(call(t),
		&cri.CreateContainerRequest{PodSandboxId: p.id, Config: config, SandboxConfig: p.config})
	wantTwinError(t, "a second container of the same attempt", twin.GetContainerId(), err)
	next := proto.CloneOf(config)
	next.Metadata.Attempt = 1
	p.create(t, next)
	must(t, s.runtime.RemoveContainer, &cri.RemoveContainerRequest{ContainerId: id})
	p.create(t, config)
}

func (s *suite) containerFilters(t *testing.T) {
	p, other := s.newPod(t), s.newPod(t)
	id := p.start(t, p.containerConfig("runs", forever()...))
	idle := p.create(t, p.containerConfig("idle", forever()...))
	far := other.create(t, other.containerConfig("far", forever()...))
	label := map[string]string{"suite": "conformance"}
	labels := map[string]string{"suite": "conformance", "container": "idle"}
	running := &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING}
	for _, c := range []struct {
		name            string
		filter          *cri.ContainerFilter
		runs, idle, far bool
	}{
		{"none", nil, true, true, true},
		{"id", &cri.ContainerFilter{Id: id}, true, false, false},
		{"unknown id", &cri.ContainerFilter{Id: "0000000000"}, false, false, false},
		{"sandbox", &cri.ContainerFilter{PodSandboxId: p.id}, true, true, false},
		{"unknown sandbox", &cri.ContainerFilter{PodSandboxId: "0000000000"}, false, false, false},
		{"sandbox and state", &cri.ContainerFilter{PodSandboxId: p.id, State: running}, true, false, false},
		{"label", &cri.ContainerFilter{LabelSelector: label}, true, true, true},
		{"two labels", &cri.ContainerFilter{LabelSelector: labels}, false, true, false},
	} {
		list := must(t, s.runtime.ListContainers, &cri.ListContainersRequest{Filter: c.filter})
		seen := map[string]*cri.Container{}
		for _, item := range list.GetContainers() {
			seen[item.GetId()] = item
		}
		equal(t, "running container listed by "+c.name, seen[id] != nil, c.runs)
		equal(t, "idle container listed by "+c.name, seen[idle] != nil, c.idle)
		equal(t, "other pod's container listed by "+c.name, seen[far] != nil, c.far)
		if item := seen[id]; item != nil {
			equal(t, "listed sandbox id", item.GetPodSandboxId(), p.id)
			equal(t, "listed state", item.GetState(), cri.ContainerState_CONTAINER_RUNNING)
			equal(t, "listed intent", item.GetAnnotations()["conformance/intent"], "intent-of-runs")
			equal(t, "listed created_at", item.GetCreatedAt(), s.status(t, id).GetCreatedAt())
		}
	}
}

func (s *suite) containerImage(t *testing.T) {
	p := s.newPod(t)
	config := p.containerConfig("main", forever()...)
	config.Image = &cri.ImageSpec{Image: absentImage, UserSpecifiedImage: absentImage}
	mustFail(t, "a container was created from an image that is not present", s.runtime.CreateContainer,
		&cri.CreateContainerRequest{PodSandboxId: p.id, Config: config, SandboxConfig: p.config})
	// The failed call must not reserve the name.
	p.create(t, p.containerConfig("main", forever()...))
}

func (s *suite) containerResources(t *testing.T) {
	const before, after = 64 << 20, 96 << 20
	p := s.newPod(t)
	config := p.containerConfig("main", forever()...)
	config.Linux.Resources.MemoryLimitInBytes = before
	id := p.start(t, config)
	equal(t, "memory limit", s.status(t, id).GetResources().GetLinux().GetMemoryLimitInBytes(), before)
	update := &cri.UpdateContainerResourcesRequest{
		ContainerId: id, Linux: &cri.LinuxContainerResources{MemoryLimitInBytes: after, CpuShares: 200},
	}
	must(t, s.runtime.UpdateContainerResources, update)
	got := s.status(t, id)
	equal(t, "memory limit after the update", got.GetResources().GetLinux().GetMemoryLimitInBytes(), after)
	equal(t, "CPU shares after the update", got.GetResources().GetLinux().GetCpuShares(), 200)
	equal(t, "state after the update", got.GetState(), cri.ContainerState_CONTAINER_RUNNING)
	// Resources that the update leaves out stay.
	update.Linux = &cri.LinuxContainerResources{CpuPeriod: 100_000, CpuQuota: 20_000}
	must(t, s.runtime.UpdateContainerResources, update)
	got = s.status(t, id)
	equal(t, "memory limit after the second update", got.GetResources().GetLinux().GetMemoryLimitInBytes(), after)
	equal(t, "CPU shares after the second update", got.GetResources().GetLinux().GetCpuShares(), 200)
	equal(t, "CPU quota after the second update", got.GetResources().GetLinux().GetCpuQuota(), 20_000)
	stats := must(t, s.runtime.ContainerStats, &cri.ContainerStatsRequest{ContainerId: id})
	if used := stats.GetStats().GetMemory().GetUsageBytes(); used.GetValue() == 0 || used.GetValue() >= after {
		t.Errorf("memory in use: %v, want some and less than the limit", used)
	}
}

func (s *suite) containerRemove(t *testing.T) {
	p := s.newPod(t)
	id := p.start(t, p.containerConfig("main", forever()...))
	for range 2 {
		must(t, s.runtime.RemoveContainer, &cri.RemoveContainerRequest{ContainerId: id})
	}
	wantCode(t, codes.NotFound, s.runtime.ContainerStatus, &cri.ContainerStatusRequest{ContainerId: id})
	equal(t, "sandbox state", s.sandboxStatus(t, p.id).GetState(), cri.PodSandboxState_SANDBOX_READY)
}

func (s *suite) containerRemoveCreated(t *testing.T) {
	p := s.newPod(t)
	id := p.create(t, p.containerConfig("main", forever()...))
	must(t, s.runtime.RemoveContainer, &cri.RemoveContainerRequest{ContainerId: id})
	wantCode(t, codes.NotFound, s.runtime.ContainerStatus, &cri.ContainerStatusRequest{ContainerId: id})
}

func (s *suite) containerTarget(t *testing.T) {
	p, other := s.newPod(t), s.newPod(t)
	beside := func(name, target string) *cri.ContainerConfig {
		config := p.containerConfig(name, forever()...)
		options := &cri.NamespaceOption{Pid: cri.NamespaceMode_TARGET, TargetId: target}
		options.Network = config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork()
		config.Linux.SecurityContext.NamespaceOptions = options
		return config
	}
	refused := func(what, target string) {
		t.Helper()
		mustFail(t, "a container was created beside "+what, s.runtime.CreateContainer, &cri.CreateContainerRequest{
			PodSandboxId: p.id, Config: beside("debug", target), SandboxConfig: p.config,
		})
	}
	id := p.create(t, p.containerConfig("main", forever()...))
	refused("one that was not started", id)
	refused("one that does not exist", "0000000000")
	refused("one of another sandbox", other.start(t, other.containerConfig("far", forever()...)))
	must(t, s.runtime.StartContainer, &cri.StartContainerRequest{ContainerId: id})
	debug := p.start(t, beside("debug", id))
	equal(t, "state", s.status(t, debug).GetState(), cri.ContainerState_CONTAINER_RUNNING)
	s.stopContainer(t, id, 0)
	s.exited(t, id)
	refused("one that has ended", id)
}
