//go:build integration

package integration

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/strict"
)

// inMemory gives a pod a volume in memory, at /v.
func inMemory(p *corev1.Pod) {
	scratch(p)
	p.Spec.Volumes[0].EmptyDir.Medium = corev1.StorageMediumMemory
}

// evicted waits until a pod is evicted, and returns how long that took from the first sample that met the threshold to
// the end of its containers.
func (a *agent) evicted(name, signal string) time.Duration {
	a.T.Helper()
	p := a.pod(name, "evicted", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed && p.Status.ContainerStatuses[0].State.Terminated != nil
	})
	if p.Status.Reason != "Evicted" || !strings.HasPrefix(p.Status.Message, "The node was low on resource: ") {
		a.T.Errorf("%s: %s %q", name, p.Status.Reason, p.Status.Message)
	}
	var since time.Time
	for _, f := range a.journal.all(named("pressure_observed")) {
		for _, t := range event(a.T, f).GetPressureObserved().GetThresholds() {
			if t.GetSignal() == signal && since.IsZero() {
				since = t.GetSince().AsTime()
			}
		}
	}
	decided := event(a.T, a.journal.wait(a.T, 0, settle, "the eviction", named("pod_eviction_decided")))
	if got := decided.GetPodEvictionDecided().GetSignal(); got != signal {
		a.T.Errorf("evicted for %s, want %s", got, signal)
	}
	ended := a.journal.wait(a.T, 0, settle, "the end of the pod", func(f messages.Flat) bool {
		return named("pod_terminated")(f) && event(a.T, f).GetPodTerminated().GetUid() == string(p.UID)
	})
	at, err := time.Parse(time.RFC3339Nano, ended.Time)
	must.OK(a.T, err)
	return at.Sub(since)
}

// stays fails unless these pods run, and have since they started.
func (a *agent) stays(names ...string) {
	a.T.Helper()
	for _, name := range names {
		if p := a.podNow(name); !ready(p) || container(p, "main").RestartCount != 0 {
			a.T.Errorf("%s: %+v", name, p.Status)
		}
	}
}

// The limit is the limit of all pods together: 300 MiB. 100 MiB of it are to be available.
func TestMemoryPressureEvictsThePodThatCausesIt(t *testing.T) {
	t.Parallel()
	var all syscall.Sysinfo_t
	must.OK(t, syscall.Sysinfo(&all))
	reserved := all.Totalram*uint64(all.Unit) - 300<<20
	fill := func(mebibytes string) string {
		return "dd if=/dev/zero of=/v/f bs=1M count=" + mebibytes + "; " + idle
	}
	request := func(q string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(q)}
		}
	}
	a := started(t, manifests(
		newPod("fits", fill("60"), inMemory, request("80Mi")), newPod("small", fill("20"), inMemory),
	), "--system-reserved", fmt.Sprintf("memory=%d", reserved), "--eviction-hard", "memory.available<100Mi")
	a.pods("both pods", allReady(2))
	a.put(newPod("hog", fill("150"), inMemory, request("20Mi")))
	took := a.evicted("hog", "allocatableMemory.available")
	strict.Within(t, "the end of the pod, from when the threshold was crossed,", took, 10*time.Second)
	a.journal.wait(t, 0, settle, "the end of the pressure", func(f messages.Flat) bool {
		o := event(t, f).GetPressureObserved()
		return o != nil && len(o.GetThresholds()) == 0
	})
	a.stays("fits", "small")
	if n := len(a.journal.all(named("pod_eviction_decided"))); n != 1 {
		t.Errorf("%d pods were evicted", n)
	}
	a.Verified()
}

// The agent's directory is a file system of 64 MiB. 32 MiB of it are to be available.
func TestDiskPressureEvictsThePodThatFillsTheDisk(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "--eviction-hard", "nodefs.available<32Mi,nodefs.inodesFree<5%")
	must.OK(t, os.MkdirAll(a.Root, 0o755))
	must.OK(t, syscall.Mount("tmpfs", a.Root, "tmpfs", 0, "size=64m,mode=0755"))
	a.AtTheEnd(func() { _ = syscall.Unmount(a.Root, syscall.MNT_DETACH) })
	write := func(mebibytes string) string {
		return "dd if=/dev/zero of=/v/f bs=1M count=" + mebibytes + "; " + idle
	}
	a.start()
	a.put(newPod("small", write("4"), scratch))
	a.pod("small", "ready", ready)
	a.put(newPod("hog", write("30"), scratch))
	t.Logf("the pod ended %s after the threshold was crossed", a.evicted("hog", "nodefs.available"))
	a.journal.wait(t, 0, settle, "the end of the pressure", func(f messages.Flat) bool {
		o := event(t, f).GetPressureObserved()
		return o != nil && len(o.GetThresholds()) == 0
	})
	a.stays("small")
	if got := len(a.journal.all(named("pod_eviction_decided"))); got != 1 {
		t.Errorf("%d pods were evicted", got)
	}
	stage := journaletv1.EvictionStage_EVICTION_STAGE_UNSPECIFIED
	for _, f := range a.journal.all(named("eviction_progressed")) {
		stage = event(t, f).GetEvictionProgressed().GetStage()
	}
	if stage != journaletv1.EvictionStage_EVICTION_STAGE_UNSPECIFIED {
		t.Errorf("the last stage is %s", stage)
	}
	a.Verified()
}

// A pod fills the disk in its first run only. It ends for that, and runs again when the node is no longer short.
func TestPodThatPressureEndedStartsAgain(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "--eviction-hard", "nodefs.available<32Mi", "--eviction-pressure-transition-period", "1s")
	must.OK(t, os.MkdirAll(a.Root, 0o755))
	must.OK(t, syscall.Mount("tmpfs", a.Root, "tmpfs", 0, "size=64m,mode=0755"))
	a.AtTheEnd(func() { _ = syscall.Unmount(a.Root, syscall.MNT_DETACH) })
	a.start()
	a.put(newPod("hog", "[ -e /ran/once ] || dd if=/dev/zero of=/v/f bs=1M count=40; touch /ran/once; "+idle, scratch,
		func(p *corev1.Pod) {
			ran := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: t.TempDir()}}
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "ran", VolumeSource: ran})
			c := &p.Spec.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "ran", MountPath: "/ran"})
		}))
	first := event(t, a.journal.wait(t, 0, settle, "the eviction", named("pod_eviction_decided")))
	a.journal.wait(t, 0, settle, "the end of the pressure", func(f messages.Flat) bool {
		return event(t, f).GetPodReadmitted().GetUid() == first.GetPodEvictionDecided().GetUid()
	})
	a.pod("hog", "ready again", ready)
	if n := len(a.journal.all(named("pod_eviction_decided"))); n != 1 {
		t.Errorf("%d evictions", n)
	}
	a.Verified()
}
