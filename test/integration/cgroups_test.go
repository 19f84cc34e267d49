//go:build integration

package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/test/node"
)

// cgroupOf returns the path of a pod's cgroup below the test's root, by QoS class.
func cgroupOf(p *corev1.Pod) string {
	class := strings.ToLower(string(p.Status.QOSClass)) + "/"
	if p.Status.QOSClass == corev1.PodQOSGuaranteed {
		class = ""
	}
	return "kubepods/" + class + "pod" + string(p.UID)
}

// inPod reports whether a container has processes in its pod's cgroup. The last part of its cgroup's path is its id,
// which CRI-O puts a prefix to.
func (a *agent) inPod(p *corev1.Pod, id string) bool {
	return slices.ContainsFunc([]string{"", "crio-"}, func(prefix string) bool {
		return a.Cgroup("memory", cgroupOf(p)+"/"+prefix+node.BareID(id), "cgroup.procs") != ""
	})
}

// limits returns the CPU quota and memory limit of a pod's cgroup, as cgroup v1 and v2 write them.
func (a *agent) limits(path string) string {
	if limit := a.Cgroup("", path, "memory.max"); limit != "" {
		quota, _, _ := strings.Cut(a.Cgroup("", path, "cpu.max"), " ")
		return quota + " " + limit
	}
	return a.Cgroup("cpu", path, "cpu.cfs_quota_us") + " " + a.Cgroup("memory", path, "memory.limit_in_bytes")
}

// size returns requests and limits of CPU and memory, written as "100m/32Mi"; empty for none.
func size(requests, limits string) corev1.ResourceRequirements {
	list := func(text string) corev1.ResourceList {
		cpu, memory, both := strings.Cut(text, "/")
		if !both {
			return nil
		}
		return corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}
	}
	return corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
}

// podSize gives a pod resources at the level of the pod.
func podSize(requests, limits string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Resources = ptr.To(size(requests, limits)) }
}

// containerSize gives a pod's first container resources.
func containerSize(requests, limits string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources = size(requests, limits) }
}

func TestPodLimitBoundsAllContainersTogether(t *testing.T) {
	t.Parallel()
	twice := func(p *corev1.Pod) {
		second := *p.Spec.Containers[0].DeepCopy()
		second.Name = "second"
		p.Spec.Containers = append(p.Spec.Containers, second)
	}
	a := started(t, manifests(
		newPod("whole", idle, podSize("100m/32Mi", "500m/96Mi"), twice),
		newPod("sum", idle, containerSize("100m/32Mi", "200m/64Mi"), twice),
	))
	wants := map[string]string{"whole": fmt.Sprint("50000 ", 96<<20), "sum": fmt.Sprint("40000 ", 128<<20)}
	for name, want := range wants {
		p := a.pod(name, "ready", ready)
		equal(t, "the limits of pod "+name, a.limits(cgroupOf(p)), want)
		for _, c := range p.Status.ContainerStatuses {
			if !a.inPod(p, c.ContainerID) {
				t.Errorf("container %s of pod %s runs outside of its pod's cgroup", c.Name, name)
			}
		}
	}
	// A container without a limit of its own has the pod's.
	first := container(a.podNow("whole"), "main").ContainerID
	equal(t, "the inherited limit", strings.Fields(inCgroup(t, first))[2], fmt.Sprint(96<<20))
}

func TestWithoutCgroupsPerQOSOnlyPodsWithPodResourcesHaveACgroup(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("small", idle, containerSize("50m/16Mi", "50m/16Mi")), "--cgroups-per-qos=false")
	a.pod("small", "ready", ready)
	if tree := a.PodCgroups(true); len(tree) > 0 {
		t.Errorf("cgroups were created that no pod needs: %v", tree)
	}
	a.put(newPod("whole", idle, podSize("100m/32Mi", "500m/96Mi")))
	p := a.pod("whole", "ready", ready)
	equal(t, "the limits of the pod", a.limits(cgroupOf(p)), fmt.Sprint("50000 ", 96<<20))
	for _, path := range a.PodCgroups(false) {
		if !strings.Contains(path, string(p.UID)) {
			t.Errorf("%s is another pod's", path)
		}
	}
	a.Kill()
	a.Remove("whole.yaml")
	a.start()
	eventually(t, settle, "the next agent to remove the pod's cgroup", func() error {
		if left := a.PodCgroups(false); len(left) > 0 {
			return fmt.Errorf("%v still exist", left)
		}
		return nil
	})
}

func TestPodCgroupsAreRemovedWithTheirPods(t *testing.T) {
	t.Parallel()
	a := started(t, manifests(
		newPod("none", idle),
		newPod("all", idle, containerSize("50m/16Mi", "50m/16Mi")),
		newPod("some", idle, containerSize("100m/16Mi", "")),
		newPod("job", "true", restarts(corev1.RestartPolicyNever)),
	))
	burstable := func(when, want string) {
		t.Helper()
		const path = "kubepods/burstable"
		equal(t, "the shares of Burstable pods "+when,
			a.Cgroup("cpu", path, "cpu.shares")+a.Cgroup("", path, "cpu.weight"), want)
	}
	before := map[string]bool{}
	for _, name := range []string{"none", "all", "some"} {
		p := a.pod(name, "ready", ready)
		if a.limits(cgroupOf(p)) == " " {
			t.Errorf("pod %s (%s) has no cgroup", name, p.Status.QOSClass)
		}
		before[string(p.UID)] = true
	}
	burstable("of three pods", "102")
	job := a.pod("job", "succeeded", phase(corev1.PodSucceeded))
	eventually(t, settle, "the cgroup of a terminated pod to be removed", func() error {
		for _, path := range a.PodCgroups(false) {
			if strings.Contains(path, string(job.UID)) {
				return fmt.Errorf("%s still exists", path)
			}
		}
		return nil
	})

	// A restart keeps the cgroups and their containers.
	tree, runs := a.PodCgroups(true), a.fingerprint()
	a.crash()
	a.pod("none", "ready", ready)
	equal(t, "the tree after a restart", strings.Join(a.PodCgroups(true), "\n"), strings.Join(tree, "\n"))
	a.unchanged(runs, "the restart")
	burstable("after a restart", "102")
	for _, name := range []string{"none", "all", "some", "job"} {
		a.Remove(name + ".yaml")
	}
	a.gone()
	if left := a.PodCgroups(false); len(left) > 0 {
		t.Errorf("cgroups are left: %v", left)
	}
	burstable("without a pod", "2")
}

func TestStartNamesTheFlagWhenCgroupsAreNotWritable(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	a := newAgent(t)
	if err := errors.Join(chownAll(a.Dir, nobody), os.Chmod(filepath.Dir(setup.Program), 0o755)); err != nil {
		t.Fatal(err)
	}
	a.User = &syscall.Credential{Uid: nobody, Gid: nobody}
	a.failsToStart("/sys/fs/cgroup", "--cgroups-per-qos=false")
}
