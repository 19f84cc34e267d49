package kubelet

import (
	"reflect"
	"unsafe"

	"github.com/opencontainers/cgroups"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	_ "k8s.io/kubernetes/pkg/kubelet/kuberuntime" // linked to below
)

//go:linkname isCgroup2UnifiedMode k8s.io/kubernetes/pkg/kubelet/kuberuntime.isCgroup2UnifiedMode
var isCgroup2UnifiedMode func() bool

// setCgroupV2 sets the cgroup version of every kubelet of this process.
func setCgroupV2(on bool) { isCgroup2UnifiedMode = func() bool { return on } }

// HugePages returns the sizes of huge pages of this machine, which no option of the kubelet can change.
func HugePages() []string { return cgroups.HugePageSizes() }

// setRuntimeReady sets the kubelet's state of the runtime, so that its network is ready and it has every feature.
func (k *Kubelet) setRuntimeReady() {
	field := reflect.ValueOf(k.kl).Elem().FieldByName("runtimeState")
	state := reflect.New(field.Type().Elem())
	set(state.Interface(), "rtHandlers", []kubecontainer.RuntimeHandler{
		{SupportsRecursiveReadOnlyMounts: true, SupportsUserNamespaces: true},
	})
	set(state.Interface(), "rtFeatures", &kubecontainer.RuntimeFeatures{SupplementalGroupsPolicy: true})
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(state)
}
