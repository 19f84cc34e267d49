package pressure

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/journalet/journalet/actors/pressure"
)

func bytes(n uint64) api.FsStats { return api.FsStats{UsedBytes: &n, InodesUsed: &n} }

// What a volume takes counts only if it is on the node's file system, goes with the pod, and is in its manifest.
func TestOnlyVolumesOfTheNodeCount(t *testing.T) {
	m := &corev1.Pod{}
	s := &api.Summary{Pods: []api.PodStats{{PodRef: api.PodReference{UID: "u"}}}}
	for name, source := range map[string]corev1.VolumeSource{
		"scratch": {EmptyDir: &corev1.EmptyDirVolumeSource{}},
		"memory":  {EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
		"pages":   {EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumHugePages}},
		"sized":   {EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "HugePages-2Mi"}},
		"conf":    {ConfigMap: &corev1.ConfigMapVolumeSource{}},
		"keys":    {Secret: &corev1.SecretVolumeSource{}},
		"host":    {HostPath: &corev1.HostPathVolumeSource{Path: "/"}},
	} {
		used := map[string]uint64{"scratch": 1, "conf": 10}[name]
		if used == 0 {
			used = 1000
		}
		m.Spec.Volumes = append(m.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		s.Pods[0].VolumeStats = append(s.Pods[0].VolumeStats, api.VolumeStats{Name: name, FsStats: bytes(used)})
	}
	left := api.VolumeStats{Name: "left", FsStats: bytes(1000)}
	s.Pods[0].VolumeStats = append(s.Pods[0].VolumeStats, left)
	got := UsageOf(s, pressure.NodeFsAvailable, func(string) *corev1.Pod { return m })
	if len(got) != 1 || got[0].GetLocalBytes() != 11 || got[0].GetLocalInodes() != 11 {
		t.Errorf("%v, want 11 bytes and 11 inodes", got)
	}
}

// What is no container's and no volume's counts as the rest of the pod's sum.
func TestWhatContainersShareCountsForTheRank(t *testing.T) {
	layer, logs, all := bytes(100), bytes(10), bytes(117)
	s := &api.Summary{Pods: []api.PodStats{{PodRef: api.PodReference{UID: "u"}, EphemeralStorage: &all,
		Containers: []api.ContainerStats{{Name: "main", Rootfs: &layer, Logs: &logs}}}}}
	got := UsageOf(s, pressure.NodeFsAvailable, func(string) *corev1.Pod { return &corev1.Pod{} })
	if len(got) != 1 || got[0].GetLocalBytes() != 17 || got[0].GetLocalInodes() != 17 || got[0].GetLayerBytes() != 100 {
		t.Errorf("%v, want 17 bytes and inodes beside a layer of 100", got)
	}
}

// A container that may have requests is named if it uses more; an ephemeral one has none.
func TestContainersAboveTheirRequests(t *testing.T) {
	request := func(q string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(q)}}
	}
	m := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "side", Resources: request("1Ki")}},
		Containers: []corev1.Container{
			{Name: "above", Resources: request("1Ki")}, {Name: "at", Resources: request("2Ki")},
		},
		EphemeralContainers: []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}},
		},
	}}
	used := uint64(2048)
	p := api.PodStats{PodRef: api.PodReference{UID: "u"}}
	for _, name := range []string{"side", "above", "at", "debug"} {
		p.Containers = append(p.Containers, api.ContainerStats{Name: name, Memory: &api.MemoryStats{WorkingSetBytes: &used}})
	}
	all := UsageOf(&api.Summary{Pods: []api.PodStats{p}}, pressure.MemoryAvailable, func(string) *corev1.Pod { return m })
	var got string
	for _, c := range all[0].GetContainers() {
		got += c.GetContainer() + " " + c.GetUsed() + " of " + c.GetRequest() + "; "
	}
	if want := "side 2Ki of 1Ki; above 2Ki of 1Ki; "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A pod that requests memory itself is named also below it; one with a request of CPU only, or with limits, is not.
func TestPodsWithARequestOfTheirOwnAreNamed(t *testing.T) {
	list := func(name corev1.ResourceName) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse("3Ki")}
	}
	used := uint64(2048)
	s := &api.Summary{Pods: []api.PodStats{{
		PodRef: api.PodReference{UID: "u"}, Memory: &api.MemoryStats{WorkingSetBytes: &used},
	}}}
	for _, c := range []struct {
		signal pressure.Signal
		own    *corev1.ResourceRequirements
		want   string
	}{
		{pressure.MemoryAvailable, &corev1.ResourceRequirements{Requests: list(corev1.ResourceMemory)}, "web 2Ki of 3Ki"},
		{pressure.NodeFsAvailable, &corev1.ResourceRequirements{Requests: list(corev1.ResourceMemory)}, ""},
		{pressure.MemoryAvailable, &corev1.ResourceRequirements{Requests: list(corev1.ResourceCPU)}, ""},
		{pressure.MemoryAvailable, &corev1.ResourceRequirements{Limits: list(corev1.ResourceMemory)}, ""},
		{pressure.MemoryAvailable, nil, ""},
	} {
		m := &corev1.Pod{Spec: corev1.PodSpec{Resources: c.own}}
		m.Name = "web"
		got := ""
		all := UsageOf(s, c.signal, func(string) *corev1.Pod { return m })
		if r := all[0].GetOwnRequest(); r != nil {
			got = r.GetName() + " " + r.GetUsed() + " of " + r.GetRequest()
		}
		if got != c.want {
			t.Errorf("%s, %v: %q, want %q", c.signal, c.own, got, c.want)
		}
	}
}
