package cri

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func ownUsersPod(p *corev1.Pod) {
	own := false
	p.Spec.HostUsers = &own
}

func TestPodGetsItsUserNamespaceEverywhere(t *testing.T) {
	d, pod := testDriver(), testPod(ownUsersPod)
	ids := &journaletv1.UserNamespace{HostId: 131072, Length: 65536}
	want := []*runtimeapi.IDMapping{{HostId: 131072, Length: 65536}}
	same := func(x, y []*runtimeapi.IDMapping) bool {
		return slices.EqualFunc(x, y, func(a, b *runtimeapi.IDMapping) bool {
			return a.GetHostId() == b.GetHostId() && a.GetContainerId() == b.GetContainerId() && a.GetLength() == b.GetLength()
		})
	}
	sandbox, err := d.sandboxConfig(pod, ids, 0, "i", "/logs")
	must.OK(t, err)
	container, err := d.containerConfig(containerInput{
		pod: pod, container: &pod.Spec.Containers[0], ids: ids,
		mounts: []*runtimeapi.Mount{{ContainerPath: "/a", HostPath: "/b"}, {ContainerPath: "/etc/hosts", HostPath: "/c"}},
	})
	must.OK(t, err)
	for name, o := range map[string]*runtimeapi.UserNamespace{
		"sandbox":   sandbox.GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions(),
		"container": container.GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions(),
	} {
		if o.GetMode() != runtimeapi.NamespaceMode_POD || !same(o.GetUids(), want) || !same(o.GetGids(), want) {
			t.Errorf("%s: %v", name, o)
		}
	}
	for _, m := range container.GetMounts() {
		if !same(m.GetUidMappings(), want) || !same(m.GetGidMappings(), want) {
			t.Errorf("the ids of a mount are not mapped: %v", m)
		}
	}
	// Ids that the node gave to an earlier manifest are of no use to one with the node's users.
	if sandbox, err = d.sandboxConfig(testPod(nil), ids, 0, "i", "/logs"); err != nil ||
		sandbox.GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions() != nil {
		t.Errorf("%v, %v", sandbox, err)
	}
}

func TestSELinuxOptionsArePassedOn(t *testing.T) {
	d, pod := testDriver(), testPod(func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0:c1,c2"}}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "own", SecurityContext: &corev1.SecurityContext{
			SELinuxOptions: &corev1.SELinuxOptions{User: "u", Role: "r", Type: "t"},
		}})
	})
	sandbox, err := d.sandboxConfig(pod, nil, 0, "i", "/logs")
	must.OK(t, err)
	if o := sandbox.GetLinux().GetSecurityContext().GetSelinuxOptions(); o.GetLevel() != "s0:c1,c2" {
		t.Errorf("sandbox: %v", o)
	}
	for i, want := range []*runtimeapi.SELinuxOption{{Level: "s0:c1,c2"}, {User: "u", Role: "r", Type: "t"}} {
		sc, err := d.containerSecurity(containerInput{pod: pod, container: &pod.Spec.Containers[i]})
		must.OK(t, err)
		if o := sc.GetSelinuxOptions(); o.GetLevel() != want.Level || o.GetUser() != want.User || o.GetType() != want.Type ||
			o.GetRole() != want.Role {
			t.Errorf("container %d: %v", i, o)
		}
	}
}

// ownVolumes has each emptyDir get the label.
type ownVolumes struct{ Volumes }

func (ownVolumes) Relabels(pod *corev1.Pod, name string) bool {
	return volumeOf(pod, name).EmptyDir != nil
}

func TestVolumesOfTheAgentGetTheLabel(t *testing.T) {
	pod := testPod(func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{
			{Name: "own", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "node", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}}},
		}
	})
	for enabled, want := range map[bool]bool{true: true, false: false} {
		d := &Driver{opts: Options{Security: Security{SELinux: enabled}, Volumes: ownVolumes{}}}
		own, node := d.relabels(pod, &pod.Spec.Volumes[0]), d.relabels(pod, &pod.Spec.Volumes[1])
		if own != want || node {
			t.Errorf("SELinux %v: %v, hostPath %v", enabled, own, node)
		}
	}
}

func TestLimitsNameCDIDevices(t *testing.T) {
	d, pod := testDriver(), testPod(func(p *corev1.Pod) {
		one := resource.MustParse("1")
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
			"vendor.com/gpu=b": one, "vendor.com/gpu=a": one, corev1.ResourceCPU: one,
		}
	})
	c, err := d.containerConfig(containerInput{pod: pod, container: &pod.Spec.Containers[0]})
	must.OK(t, err)
	var names []string
	for _, x := range c.GetCDIDevices() {
		names = append(names, x.GetName())
	}
	if !slices.Equal(names, []string{"vendor.com/gpu=a", "vendor.com/gpu=b"}) {
		t.Errorf("devices %v", names)
	}
}

func TestHugePagesAreLimited(t *testing.T) {
	node := Resources{Cgroups: Cgroups{HugePages: []string{"1GB", "2MB"}}}
	limits := func(pod *corev1.Pod) (out []uint64) {
		for _, h := range node.ofContainer(pod, &pod.Spec.Containers[0]).GetHugepageLimits() {
			out = append(out, h.GetLimit())
		}
		return out
	}
	pod := testPod(func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")}
	})
	if got := limits(pod); !slices.Equal(got, []uint64{0, 4 << 20}) {
		t.Errorf("limits %v", got)
	}
	pod.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{
		"hugepages-1Gi": resource.MustParse("1Gi"), "hugepages-2Mi": resource.MustParse("8Mi"),
		corev1.ResourceMemory: resource.MustParse("1Gi"),
	}}
	if got := limits(pod); !slices.Equal(got, []uint64{1 << 30, 4 << 20}) {
		t.Errorf("with the pod's limits %v", got)
	}
}

func TestBurstableContainersMaySwap(t *testing.T) {
	limited := Resources{LimitedSwap: true, SwapCapacity: 8 << 30, MemoryCapacity: 16 << 30}
	memory := func(request, limit string) corev1.ResourceRequirements {
		r := corev1.ResourceRequirements{}
		if request != "" {
			r.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(request)}
		}
		if limit != "" {
			r.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
		}
		return r
	}
	critical := int32(systemCritical)
	for name, c := range map[string]struct {
		node     Resources
		own      corev1.ResourceRequirements
		priority *int32
		want     int64
	}{
		"a share":                 {limited, memory("4Gi", ""), nil, 2 << 30},
		"a share below its limit": {limited, memory("1Gi", "2Gi"), nil, 512 << 20},
		"NoSwap":                  {Resources{SwapCapacity: 8 << 30, MemoryCapacity: 16 << 30}, memory("4Gi", ""), nil, 0},
		"BestEffort":              {limited, memory("", ""), nil, 0},
		"request equal to limit":  {limited, memory("1Gi", "1Gi"), nil, 0},
		"critical":                {limited, memory("4Gi", ""), &critical, 0},
		"more than the node has":  {limited, memory("20Gi", ""), nil, 0},
		"unknown memory":          {Resources{LimitedSwap: true, SwapCapacity: 8 << 30}, memory("4Gi", ""), nil, 0},
	} {
		pod := testPod(func(p *corev1.Pod) { p.Spec.Priority, p.Spec.Containers[0].Resources = c.priority, c.own })
		if got := c.node.swapLimit(pod, &pod.Spec.Containers[0]); got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
	limited.CgroupV2, limited.Cgroups.Swap = true, true
	pod := testPod(func(p *corev1.Pod) { p.Spec.Containers[0].Resources = memory("4Gi", "") })
	if r := limited.ofContainer(pod, &pod.Spec.Containers[0]); r.GetUnified()["memory.swap.max"] != "2147483648" {
		t.Errorf("%v", r.GetUnified())
	}
}

func TestSeccompAnnotationsAreCarriedOut(t *testing.T) {
	d, pod := testDriver(), testPod(func(p *corev1.Pod) {
		p.Annotations = map[string]string{
			"seccomp.security.alpha.kubernetes.io/pod":           "runtime/default",
			"container.seccomp.security.alpha.kubernetes.io/own": "localhost/own.json",
		}
		unconfined := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "own"},
			corev1.Container{Name: "field", SecurityContext: &corev1.SecurityContext{SeccompProfile: unconfined}})
	})
	for i, want := range []runtimeapi.SecurityProfile_ProfileType{
		runtimeapi.SecurityProfile_RuntimeDefault, runtimeapi.SecurityProfile_Localhost,
		runtimeapi.SecurityProfile_Unconfined,
	} {
		sc, err := d.containerSecurity(containerInput{pod: pod, container: &pod.Spec.Containers[i]})
		must.OK(t, err)
		if sc.GetSeccomp().GetProfileType() != want {
			t.Errorf("container %d: %v, want %v", i, sc.GetSeccomp(), want)
		}
	}
}
