package oracle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/test/oracle/agent"
	"github.com/journalet/journalet/test/oracle/fakecri"
	"github.com/journalet/journalet/test/oracle/kubelet"
	"github.com/journalet/journalet/test/oracle/pods"
)

// historyCase is a case of a pod with its history.
type historyCase struct {
	Pod     *corev1.Pod  `json:"pod"`
	History pods.History `json:"history"`
}

// generateHistory returns a pod and its history.
func generateHistory(m *pods.Generator) string {
	p := m.Small()
	return historyText(p, m.History(p))
}

func historyText(p *corev1.Pod, h pods.History) string {
	return podAnd(p, map[string]any{"history": h})
}

// readHistory parses a case. ok is false for a text that is not a valid case, as shrinking may produce.
func readHistory(text string) (s historyCase, manifest string, ok bool) {
	if yaml.Unmarshal([]byte(text), &s) != nil || s.Pod == nil {
		return s, "", false
	}
	for _, c := range s.History.Containers {
		in := slices.IndexFunc(s.History.Sandboxes, func(x pods.SandboxPast) bool { return x.Attempt == c.Sandbox })
		// Skip states that no runtime reports.
		if _, known := states[c.State]; !known || in < 0 {
			return s, "", false
		}
		ended := c.State == pods.Created || c.State == pods.Exited
		if !ended && !s.History.Sandboxes[in].Ready || !provable(specOf(s.Pod, c.Name), c) {
			return s, "", false
		}
	}
	if skipsInit(s.Pod, s.History) {
		return s, "", false
	}
	parts := map[string]any{}
	if yaml.Unmarshal([]byte(text), &parts) != nil {
		return s, "", false
	}
	data, err := yaml.Marshal(parts["pod"])
	return s, string(data), err == nil
}

// provable reports whether a container's probe results are possible: it has the probes, and no other probe runs before
// the startup probe has succeeded.
func provable(spec *corev1.Container, c pods.ContainerPast) bool {
	if spec == nil {
		return true
	}
	early := spec.StartupProbe != nil && c.Startup != pods.Success
	return (c.Startup == "" || spec.StartupProbe != nil) && (c.Liveness == "" || spec.LivenessProbe != nil && !early) &&
		(c.Readiness == "" || spec.ReadinessProbe != nil && !early)
}

// skipsInit reports whether a container exists although an init container before it runs or has failed.
func skipsInit(p *corev1.Pod, h pods.History) bool {
	blocked, seen := false, map[string]pods.ContainerPast{}
	for _, c := range slices.Backward(h.Containers) {
		seen[c.Name] = c // the newest comes first
	}
	for _, spec := range p.Spec.InitContainers {
		c, exists := seen[spec.Name]
		if exists && blocked {
			return true
		}
		open := c.State == pods.Running || c.State == pods.Exited && c.ExitCode != 0
		blocked = blocked || exists && !isSidecar(&spec) && open
	}
	return blocked && slices.ContainsFunc(p.Spec.Containers, func(spec corev1.Container) bool {
		_, exists := seen[spec.Name]
		return exists
	})
}

// tick is how far each reading advances the clock, so that no two events have one time.
const tick = time.Millisecond

// fill adds a pod's history to a side's runtime, and sets its clock.
func (s side) fill(p *corev1.Pod, h pods.History) {
	now := begin
	s.fake.Now = func() time.Time { now = now.Add(tick); return now }
	for _, x := range h.Sandboxes {
		config := sandboxOf(p, x)
		box := &fakecri.Sandbox{
			ID: sandboxID(x.Attempt), Config: config, State: runtimeapi.PodSandboxState_SANDBOX_NOTREADY,
			CreatedAt: begin.Add(-time.Hour + time.Duration(x.Attempt)*time.Minute),
		}
		if x.Ready {
			box.State = runtimeapi.PodSandboxState_SANDBOX_READY
		}
		if !p.Spec.HostNetwork {
			box.IPs = s.fake.IPs
		}
		s.fake.AddSandbox(box)
	}
	for _, past := range h.Containers {
		if spec := specOf(p, past.Name); spec != nil {
			s.fake.AddContainer(containerOf(p, spec, past))
		}
	}
}

func sandboxID(attempt uint32) string { return fmt.Sprintf("sandbox-%d", attempt) }

func labelsOf(p *corev1.Pod) map[string]string {
	return map[string]string{cri.LabelPodName: p.Name, cri.LabelPodNamespace: p.Namespace, cri.LabelPodUID: string(p.UID)}
}

func sandboxOf(p *corev1.Pod, x pods.SandboxPast) *runtimeapi.PodSandboxConfig {
	network := runtimeapi.NamespaceMode_POD
	if p.Spec.HostNetwork {
		network = runtimeapi.NamespaceMode_NODE
	}
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: p.Name, Namespace: p.Namespace, Uid: string(p.UID),
			Attempt: x.Attempt},
		Labels: labelsOf(p), Annotations: map[string]string{cri.AnnotationAgent: agent.ID},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Network: network},
		}},
	}
}

func specOf(p *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

var states = map[string]runtimeapi.ContainerState{
	pods.Created: runtimeapi.ContainerState_CONTAINER_CREATED, pods.Running: runtimeapi.ContainerState_CONTAINER_RUNNING,
	pods.Exited: runtimeapi.ContainerState_CONTAINER_EXITED, pods.Unknown: runtimeapi.ContainerState_CONTAINER_UNKNOWN,
}

func containerOf(p *corev1.Pod, spec *corev1.Container, past pods.ContainerPast) *fakecri.Container {
	was := spec.DeepCopy()
	if past.OtherImage {
		was.Image = "registry.example/before:1"
	}
	labels := labelsOf(p)
	labels[cri.LabelContainerName] = spec.Name
	c := &fakecri.Container{
		ID: fakecri.ContainerID(spec.Name, past.Attempt), SandboxID: sandboxID(past.Sandbox), State: states[past.State],
		CreatedAt: begin.Add(-30*time.Minute + time.Duration(past.Attempt)*time.Minute), ImageID: "sha256:was",
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: spec.Name, Attempt: past.Attempt},
			Image:    &runtimeapi.ImageSpec{Image: was.Image, UserSpecifiedImage: was.Image}, Labels: labels,
			Annotations: map[string]string{
				cri.AnnotationHash: pod.ContainerHash(was), cri.AnnotationRestartCount: fmt.Sprint(past.Attempt),
				cri.AnnotationTerminationMessagePath: "/dev/termination-log", cri.AnnotationTerminationMessagePolicy: "File",
				cri.AnnotationAgent: agent.ID,
			},
			Linux: &runtimeapi.LinuxContainerConfig{Resources: inheritedBy(p, spec)},
		},
	}
	if past.State != pods.Created {
		c.StartedAt = c.CreatedAt.Add(time.Second)
	}
	if past.State == pods.Exited {
		c.ExitCode, c.FinishedAt, c.Reason = past.ExitCode, begin.Add(-time.Duration(past.EndedAgo)*time.Second), "Error"
		if past.ExitCode == 0 {
			c.Reason = "Completed"
		}
	}
	return c
}

// compareHistories compares what follows from a history: the calls until nothing is left to do, and the status then.
func compareHistories(c *testCase) {
	s, text, ok := readHistory(c.text)
	if !ok {
		return
	}
	w := newWorld(text)
	ready := w != nil
	if !ready {
		// A pod that we do not carry out yet still runs on the kubelet's side, which tests that side.
		w = newWorldOfTheirs(text)
	}
	if w == nil {
		c.count("rejected by both")
		return
	}
	defer w.close()
	ctx := context.Background()
	w.theirs.fill(w.parsed.Pod, s.History)
	w.ours.fill(w.parsed.Pod, s.History)
	kl := w.newKubelet()
	probe(kl, w.parsed.Pod, s.History)
	err := kl.Settle(ctx, w.parsed.Pod.DeepCopy())
	if errors.Is(err, kubelet.ErrUnsettled) {
		c.count("the kubelet does not settle")
		return
	}
	check("the kubelet cannot sync", err)
	if s.History.Removed {
		check("the kubelet cannot end the pod", kl.End(ctx, w.parsed.Pod.DeepCopy()))
	}
	if !ready {
		c.count("only the kubelet's side")
		return
	}
	theirs, err := kl.APIStatus(ctx, w.parsed.Pod.DeepCopy(), false)
	check("the kubelet has no status", err)
	decider, err := agent.NewPod(ctx, w.ours.opts, w.ours.fake, w.parsed, probesOf(s.History))
	if err != nil {
		c.differs("our decider fails", err, "no error")
		return
	}
	b := &both{testCase: c, world: w, key: classesOf(w.parsed.Pod, s.History).key,
		again: startsAgain(w.parsed.Pod, s.History), removed: s.History.Removed}
	if s.History.Removed {
		if err := decider.Remove(ctx); err != nil {
			c.differs("our decider fails", err, "no error")
			return
		}
		// Then we have no object left. The kubelet has the objects that its garbage collection has not found yet.
		b.compareCalls()
		return
	}
	if b.compareCalls() && b.compareObjects() {
		b.compareStatus(decider.View().Status, theirs)
	}
}

// probe sets the results of the kubelet's probes.
func probe(kl *kubelet.Kubelet, p *corev1.Pod, h pods.History) {
	kl.Probe(p)
	for _, c := range h.Containers {
		id := fakecri.ContainerID(c.Name, c.Attempt)
		kl.SetProbes(p, id, c.Liveness, c.Readiness, c.Startup)
	}
}

// probesOf returns the results of our probes.
func probesOf(h pods.History) agent.Probes {
	out := agent.Probes{}
	for _, c := range h.Containers {
		found := map[journaletv1.ProbeKind]bool{}
		for kind, result := range map[journaletv1.ProbeKind]string{
			journaletv1.ProbeKind_PROBE_KIND_LIVENESS: c.Liveness, journaletv1.ProbeKind_PROBE_KIND_READINESS: c.Readiness,
			journaletv1.ProbeKind_PROBE_KIND_STARTUP: c.Startup,
		} {
			if result != "" {
				found[kind] = result == pods.Success
			}
		}
		out[fakecri.ContainerID(c.Name, c.Attempt)] = found
	}
	return out
}

// inheritedBy returns the runtime's resources of a container that inherits limits of its pod. It is nil for a pod
// without limits, whose containers have the manifest's resources.
func inheritedBy(p *corev1.Pod, c *corev1.Container) *runtimeapi.LinuxContainerResources {
	if p.Spec.Resources == nil {
		return nil
	}
	limit := func(name corev1.ResourceName) resource.Quantity {
		if own := c.Resources.Limits[name]; !own.IsZero() {
			return own
		}
		return p.Spec.Resources.Limits[name]
	}
	cpu, memory := limit(corev1.ResourceCPU), limit(corev1.ResourceMemory)
	request := cpu
	if own, ok := c.Resources.Requests[corev1.ResourceCPU]; ok {
		request = own
	}
	out := &runtimeapi.LinuxContainerResources{
		CpuShares: max(2, request.MilliValue()*1024/1000), CpuPeriod: 100_000, CpuQuota: cpu.MilliValue() * 100,
		MemoryLimitInBytes: memory.Value(),
	}
	if out.CpuQuota > 0 {
		out.CpuQuota = max(1000, out.CpuQuota)
	}
	return out
}

// compareObjects compares the sandboxes and containers that are left, and reports whether they are equal.
func (b *both) compareObjects() bool {
	ours, theirs := b.ours.fake.Objects(), b.theirs.fake.Objects()
	for _, object := range slices.Concat(ours, theirs) {
		if slices.Contains(ours, object) && slices.Contains(theirs, object) {
			continue
		}
		what, rest, _ := strings.Cut(object, ": ")
		id, _, _ := strings.Cut(rest, " ")
		name, aspect := "", sandboxesLeft
		if what == "container" {
			name, aspect = id[:strings.LastIndexByte(id, '-')], itsContainers
		}
		b.differsIn(name)(aspect, strings.Join(ours, "\n"), strings.Join(theirs, "\n"))
	}
	return slices.Equal(ours, theirs)
}

// compareStatus compares the status of the pod and of each container.
func (b *both) compareStatus(ours, theirs corev1.PodStatus) {
	o, t := statusTree(ours), statusTree(theirs)
	for _, list := range []string{"initContainerStatuses", "containerStatuses"} {
		mine, others := byName(o[list]), byName(t[list])
		for _, c := range slices.Concat(b.parsed.Pod.Spec.InitContainers, b.parsed.Pod.Spec.Containers) {
			compareTrees(b.differsIn(c.Name), "status of a container", mine[c.Name], others[c.Name])
		}
		delete(o, list)
		delete(t, list)
	}
	compareTrees(b.differsIn(""), "status", o, t)
}

// byName returns the objects of a list by their names.
func byName(list any) map[string]map[string]any {
	out := map[string]map[string]any{}
	all, _ := list.([]any)
	for _, x := range all {
		if object, ok := x.(map[string]any); ok {
			out[fmt.Sprint(object["name"])] = object
		}
	}
	return out
}

// statusTree returns a status without times.
func statusTree(s corev1.PodStatus) map[string]any {
	s.StartTime, s.ObservedGeneration = nil, 0
	canonical(s.AllocatedResources)
	if s.Resources != nil {
		canonical(s.Resources.Requests)
		canonical(s.Resources.Limits)
	}
	conditions := map[string]any{}
	for _, x := range s.Conditions {
		conditions[string(x.Type)] = map[string]any{"status": string(x.Status), "reason": x.Reason, "message": x.Message}
	}
	s.Conditions = nil
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			x := &list[i]
			x.VolumeMounts, x.User = nil, nil
			canonical(x.AllocatedResources)
			if x.Resources != nil {
				canonical(x.Resources.Requests)
				canonical(x.Resources.Limits)
			}
			x.State, x.LastTerminationState = timeless(x.State), timeless(x.LastTerminationState)
		}
	}
	out := tree(s)
	out["conditions"] = conditions
	return out
}

func timeless(s corev1.ContainerState) corev1.ContainerState {
	s = *s.DeepCopy()
	if s.Running != nil {
		s.Running.StartedAt = metav1.Time{}
	}
	if s.Terminated != nil {
		s.Terminated.StartedAt = metav1.Time{}
		s.Terminated.FinishedAt = metav1.Time{}
	}
	return s
}

// generateLifecycle returns a pod of all kinds of containers, and its history.
func generateLifecycle(m *pods.Generator) string {
	p := m.Lifecycle()
	return historyText(p, m.History(p))
}
