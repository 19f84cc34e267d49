//go:build integration

package integration

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/test/node"
)

// Where a pod's cgroup stands below the root that the test has, by class.
func cgroupOf(p *corev1.Pod) string {
	class := strings.ToLower(string(p.Status.QOSClass)) + "/"
	if p.Status.QOSClass == corev1.PodQOSGuaranteed {
		class = ""
	}
	return "kubepods/" + class + "pod" + string(p.UID)
}

// limits are what a pod's cgroup is held to: CPU quota and memory, as cgroup v1 and v2 write them.
func (a *agent) limits(path string) string {
	if limit := a.Cgroup("", path, "memory.max"); limit != "" {
		quota, _, _ := strings.Cut(a.Cgroup("", path, "cpu.max"), " ")
		return quota + " " + limit
	}
	return a.Cgroup("cpu", path, "cpu.cfs_quota_us") + " " + a.Cgroup("memory", path, "memory.limit_in_bytes")
}

// size are requests and limits of CPU and memory, as in "100m/32Mi"; empty for none.
func size(requests, limits string) corev1.ResourceRequirements {
	list := func(text string) corev1.ResourceList {
		cpu, memory, both := strings.Cut(text, "/")
		if !both {
			return nil
		}
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	return corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
}

func TestAPodsLimitHoldsAllItsContainersTogether(t *testing.T) {
	t.Parallel()
	whole := newPod("whole", idle, func(p *corev1.Pod) {
		r := size("100m/32Mi", "500m/96Mi")
		p.Spec.Resources = &r
		second := *p.Spec.Containers[0].DeepCopy()
		second.Name = "second"
		p.Spec.Containers = append(p.Spec.Containers, second)
	})
	sum := newPod("sum", idle, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = size("100m/32Mi", "200m/64Mi")
		second := *p.Spec.Containers[0].DeepCopy()
		second.Name = "second"
		p.Spec.Containers = append(p.Spec.Containers, second)
	})
	a := started(t, map[string]string{"whole.yaml": manifest(whole), "sum.yaml": manifest(sum)})
	for name, want := range map[string]string{"whole": fmt.Sprint("50000 ", 96<<20), "sum": fmt.Sprint("40000 ", 128<<20)} {
		p := a.pod(name, "ready", ready)
		equal(t, "the limits of pod "+name, a.limits(cgroupOf(p)), want)
		for _, c := range p.Status.ContainerStatuses {
			procs := a.Cgroup("memory", cgroupOf(p)+"/"+node.BareID(c.ContainerID), "cgroup.procs")
			if procs == "" {
				t.Errorf("container %s of pod %s runs outside of its pod's cgroup", c.Name, name)
			}
		}
	}
	// A container without a limit of its own has the pod's.
	p := a.podNow("whole")
	first := container(p, "main").ContainerID
	equal(t, "the inherited limit", strings.Fields(inCgroup(t, first))[2], fmt.Sprint(96<<20))
}

func TestOnlyPodsThatNeedACgroupGetOneWhereNotAllDo(t *testing.T) {
	t.Parallel()
	whole := newPod("whole", idle, func(p *corev1.Pod) {
		r := size("100m/32Mi", "500m/96Mi")
		p.Spec.Resources = &r
	})
	small := newPod("small", idle, func(p *corev1.Pod) { p.Spec.Containers[0].Resources = size("50m/16Mi", "50m/16Mi") })
	a := newAgent(t, "--cgroups-per-qos=false")
	a.Put("small.yaml", manifest(small))
	a.start()
	a.pod("small", "ready", ready)
	if tree := a.PodCgroups(true); len(tree) > 0 {
		t.Errorf("cgroups were made for nobody: %v", tree)
	}
	a.Put("whole.yaml", manifest(whole))
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
	node.Eventually(t, settle, "the pod's cgroup to be gone, though the agent that made it is", func() error {
		if left := a.PodCgroups(false); len(left) > 0 {
			return fmt.Errorf("%v are there", left)
		}
		return nil
	})
}

func TestPodsLeaveNothingInTheTreeOfCgroups(t *testing.T) {
	t.Parallel()
	small := func(p *corev1.Pod) { p.Spec.Containers[0].Resources = size("50m/16Mi", "50m/16Mi") }
	a := started(t, map[string]string{
		"none.yaml": manifest(newPod("none", idle)), "all.yaml": manifest(newPod("all", idle, small)),
		"some.yaml": manifest(newPod("some", idle, func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = size("100m/16Mi", "")
		})),
		"job.yaml": manifest(newPod("job", "true", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever })),
	})
	before := map[string]bool{}
	for _, name := range []string{"none", "all", "some"} {
		p := a.pod(name, "ready", ready)
		if a.limits(cgroupOf(p)) == " " {
			t.Errorf("pod %s (%s) has no cgroup", name, p.Status.QOSClass)
		}
		before[string(p.UID)] = true
	}
	equal(t, "the shares of Burstable pods", a.Cgroup("cpu", "kubepods/burstable", "cpu.shares")+a.Cgroup("", "kubepods/burstable", "cpu.weight"), "102")
	ended := a.pod("job", "ended", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	node.Eventually(t, settle, "the cgroup of a pod that has ended to be gone", func() error {
		for _, path := range a.PodCgroups(false) {
			if strings.Contains(path, string(ended.UID)) {
				return fmt.Errorf("%s is there", path)
			}
		}
		return nil
	})

	// A restart leaves the cgroups, and what they hold, as they are.
	tree, runs := a.PodCgroups(true), a.fingerprint()
	a.Kill()
	a.start()
	a.pod("none", "ready", ready)
	equal(t, "the tree after a restart", strings.Join(a.PodCgroups(true), "\n"), strings.Join(tree, "\n"))
	if now := a.fingerprint(); !maps.Equal(runs, now) {
		t.Errorf("the restart changed what runs:\n%v\n%v", runs, now)
	}
	equal(t, "the shares of Burstable pods after it", a.Cgroup("cpu", "kubepods/burstable", "cpu.shares")+a.Cgroup("", "kubepods/burstable", "cpu.weight"), "102")
	for _, name := range []string{"none", "all", "some", "job"} {
		a.Remove(name + ".yaml")
	}
	a.gone()
	if left := a.PodCgroups(false); len(left) > 0 {
		t.Errorf("cgroups are left: %v", left)
	}
	equal(t, "the shares of no Burstable pods", a.Cgroup("cpu", "kubepods/burstable", "cpu.shares")+a.Cgroup("", "kubepods/burstable", "cpu.weight"), "2")
}

func TestCgroupsThatCannotBeWrittenAreToldWithTheirFlag(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	a := newAgent(t)
	if err := errors.Join(chownAll(a.Dir, nobody), os.Chmod(filepath.Dir(setup.Program), 0o755)); err != nil {
		t.Fatal(err)
	}
	as := &syscall.Credential{Uid: nobody, Gid: nobody}
	r := node.Run(t, a.Dir, as, nil, setup.Program, a.Args()...)
	if code := r.Ended(t); code <= 0 || !strings.Contains(r.Text(), "/sys/fs/cgroup") || !strings.Contains(r.Text(), "--cgroups-per-qos=false") {
		t.Errorf("it ended with %d and says:\n%s", code, r.Text())
	}
}
