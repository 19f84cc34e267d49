//go:build integration

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/node"
)

// sized gives a pod's first container resources, written as "100m/32Mi", and a resize policy: RestartContainer for the
// resources in restarts, else NotRequired.
func sized(requests, limits string, restarts ...corev1.ResourceName) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Resources = size(requests, limits)
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			policy := corev1.NotRequired
			if slices.Contains(restarts, name) {
				policy = corev1.RestartContainer
			}
			c.ResizePolicy = append(c.ResizePolicy,
				corev1.ContainerResizePolicy{ResourceName: name, RestartPolicy: policy})
		}
	}
}

// inCgroup returns a container's own CPU shares or weight, CPU quota and memory limit.
func inCgroup(t *testing.T, id string) string {
	t.Helper()
	return strings.TrimSpace(setup.Runtime.Exec(t, id, "sh", "-c", `cd /sys/fs/cgroup
if test -e memory.max; then cat cpu.weight cpu.max memory.max
else cat cpu/cpu.shares cpu/cpu.cfs_quota_us memory/memory.limit_in_bytes; fi | tr '\n' ' '`))
}

func resized(p *corev1.Pod) bool {
	c := container(p, "main")
	spec := p.Spec.Containers[0].Resources
	if c.Resources == nil || condition(p, corev1.PodResizeInProgress) != "" ||
		condition(p, corev1.PodResizePending) != "" {
		return false
	}
	for _, pair := range [][2]corev1.ResourceList{{spec.Limits, c.Resources.Limits},
		{spec.Requests, c.AllocatedResources}} {
		for name, want := range pair[0] {
			if got := pair[1][name]; got.Cmp(want) != 0 {
				return false
			}
		}
	}
	return true
}

func TestResizeNeedsNoRestart(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("grows", idle, sized("100m/32Mi", "200m/64Mi")))
	before := a.pod("grows", "ready", ready)
	was := container(before, "main")
	cgroup := inCgroup(t, was.ContainerID)

	// The agent is killed when the node has allocated the resources, and again between the calls.
	after := a.journal.last()
	a.put(newPod("grows", idle, sized("500m/64Mi", "600m/128Mi")))
	applied := named("call_finished", node.BareID(was.ContainerID))
	for _, moment := range []func(messages.Flat) bool{named("resize_decided"), applied} {
		a.journal.wait(t, after, settle, "a moment of the resize", moment)
		a.crash()
	}
	p := a.pod("grows", "resized", resized)
	now := container(p, "main")
	if p.UID != before.UID || now.ContainerID != was.ContainerID || now.RestartCount != 0 {
		t.Errorf("it is %s %s with %d restarts, and was %s %s",
			p.UID, now.ContainerID, now.RestartCount, before.UID, was.ContainerID)
	}
	got := inCgroup(t, now.ContainerID)
	if got == cgroup || !strings.HasSuffix(got, fmt.Sprint(128<<20)) || !strings.Contains(got, "60000") {
		t.Errorf("the cgroup has %q, and had %q", got, cgroup)
	}
	t.Logf("cgroup: %s before, %s after", cgroup, got)
	a.Verified()

	// And back.
	a.put(newPod("grows", idle, sized("100m/32Mi", "200m/64Mi")))
	p = a.pod("grows", "its old size again", func(p *corev1.Pod) bool {
		return p.Spec.Containers[0].Resources.Limits.Cpu().MilliValue() == 200 && resized(p)
	})
	equal(t, "the cgroup at its old size", inCgroup(t, container(p, "main").ContainerID), cgroup)
	a.prints(p, "ResizeStarted", "ResizeCompleted")
}

func TestResizeOfAPodAsAWholeNeedsNoRestart(t *testing.T) {
	t.Parallel()
	uid := func(p *corev1.Pod) { p.UID = "sized-as-a-whole" }
	a := started(t, onePod("whole", idle, uid, podSize("100m/32Mi", "200m/64Mi")))
	before := a.pod("whole", "ready", ready)
	was := container(before, "main")
	equal(t, "the limits of the pod", a.limits(cgroupOf(before)), fmt.Sprint("20000 ", 64<<20))

	// The agent is killed when the node has allocated the resources.
	after := a.journal.last()
	a.put(newPod("whole", idle, uid, podSize("500m/64Mi", "600m/128Mi")))
	a.journal.wait(t, after, settle, "a moment of the resize", named("resize_decided"))
	a.crash()
	a.journal.wait(t, after, settle, "the end of the resize", named("resize_completed"))
	p := a.pod("whole", "ready", func(p *corev1.Pod) bool {
		return ready(p) && condition(p, corev1.PodResizeInProgress) == ""
	})
	now := container(p, "main")
	if now.ContainerID != was.ContainerID || now.RestartCount != 0 {
		t.Errorf("it is %s with %d restarts, and was %s", now.ContainerID, now.RestartCount, was.ContainerID)
	}
	equal(t, "the limits of the pod after the resize", a.limits(cgroupOf(p)), fmt.Sprint("60000 ", 128<<20))
	if got := inCgroup(t, now.ContainerID); !strings.HasSuffix(got, fmt.Sprint(128<<20)) {
		t.Errorf("its container, which has no limit of its own, has %q", got)
	}
	if has := p.Status.Resources.Limits.Cpu().MilliValue(); has != 600 {
		t.Errorf("the status has a CPU limit of %dm", has)
	}
	a.Verified()
}

func TestAgentWithoutItsJournalAppliesTheAllocatedResources(t *testing.T) {
	t.Parallel()
	a := started(t, manifests(
		newPod("found", idle, sized("100m/32Mi", "200m/64Mi")),
		newPod("equal", idle, sized("5m/32Mi", "5m/64Mi")),
	))
	was := container(a.pod("found", "ready", ready), "main")
	a.pod("equal", "ready", ready)
	a.loseJournal()
	a.put(newPod("found", idle, sized("500m/32Mi", "600m/128Mi")))
	a.start()
	p := a.pod("found", "resized", func(p *corev1.Pod) bool { return ready(p) && resized(p) })
	now := container(p, "main")
	if now.ContainerID != was.ContainerID || now.RestartCount != 0 {
		t.Errorf("it is %s with %d restarts, and was %s", now.ContainerID, now.RestartCount, was.ContainerID)
	}
	if got := inCgroup(t, now.ContainerID); !strings.HasSuffix(got, fmt.Sprint(128<<20)) ||
		!strings.Contains(got, "60000") {
		t.Errorf("the cgroup has %q", got)
	}
	a.pod("equal", "ready", ready)
	if n := a.journal.count(named("resize_started")); n != 1 {
		t.Errorf("%d pods were resized, want the changed one", n)
	}
}

func TestPodWithAnotherContainerIsAnotherIncarnation(t *testing.T) {
	t.Parallel()
	uid := func(p *corev1.Pod) { p.UID = "grows-by-one" }
	a := started(t, onePod("grows", idle, uid))
	was := container(a.pod("grows", "ready", ready), "main").ContainerID
	a.put(newPod("grows", idle, uid, with(shell("more", idle))))
	p := a.pod("grows", "ready with both", func(p *corev1.Pod) bool {
		return ready(p) && len(p.Status.ContainerStatuses) == 2
	})
	// Its restarts count on.
	if now := container(p, "main"); now.ContainerID == was || now.RestartCount != 1 {
		t.Errorf("main is %s with %d restarts, and was %s", now.ContainerID, now.RestartCount, was)
	}
}

func TestResizePolicyRestartContainerRestartsTheContainer(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("again", idle, sized("100m/32Mi", "200m/64Mi", corev1.ResourceMemory)))
	before := a.pod("again", "ready", ready)
	a.put(newPod("again", idle, sized("100m/64Mi", "200m/96Mi", corev1.ResourceMemory)))
	p := a.pod("again", "restarted and resized", func(p *corev1.Pod) bool {
		return ready(p) && container(p, "main").RestartCount == 1 && resized(p)
	})
	if p.UID != before.UID {
		t.Errorf("it is another pod, %s instead of %s", p.UID, before.UID)
	}
	if got := inCgroup(t, container(p, "main").ContainerID); !strings.HasSuffix(got, fmt.Sprint(96<<20)) {
		t.Errorf("the cgroup has %q", got)
	}
}

func TestMemoryLimitBelowUsageIsReportedAndRetried(t *testing.T) {
	t.Parallel()
	const script = "dd if=/dev/zero of=/dev/shm/held bs=1M count=32 2>/dev/null; " + idle
	a := started(t, onePod("full", script, sized("50m/32Mi", "200m/64Mi")))
	before := container(a.pod("full", "ready", ready), "main")
	eventually(t, settle, "the memory to be in use", func() error {
		out := setup.Runtime.Exec(t, before.ContainerID, "sh", "-c", "wc -c < /dev/shm/held 2>/dev/null")
		if strings.TrimSpace(out) != fmt.Sprint(32<<20) {
			return fmt.Errorf("%q bytes are written", out)
		}
		return nil
	})
	a.put(newPod("full", script, sized("50m/8Mi", "200m/16Mi")))
	a.pod("full", "reports that its memory is in use", func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodResizeInProgress && c.Reason == corev1.PodReasonError &&
				strings.Contains(c.Message, "below current usage")
		})
	})
	if got := inCgroup(t, before.ContainerID); !strings.HasSuffix(got, fmt.Sprint(64<<20)) {
		t.Errorf("the cgroup has %q", got)
	}
	setup.Runtime.Exec(t, before.ContainerID, "rm", "/dev/shm/held")
	p := a.pod("full", "resized", resized)
	if now := container(p, "main"); now.ContainerID != before.ContainerID {
		t.Errorf("the container was replaced: %+v", now)
	}
}
