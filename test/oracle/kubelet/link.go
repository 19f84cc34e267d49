package kubelet

import (
	"reflect"
	"unsafe"

	"github.com/opencontainers/cgroups"
	_ "k8s.io/kubernetes/pkg/kubelet/kuberuntime" // what is linked to below
)

//go:linkname isCgroup2UnifiedMode k8s.io/kubernetes/pkg/kubelet/kuberuntime.isCgroup2UnifiedMode
var isCgroup2UnifiedMode func() bool

// setCgroupV2 tells every kubelet of this process what kind of cgroups the node has.
func setCgroupV2(on bool) { isCgroup2UnifiedMode = func() bool { return on } }

// HugePages are the sizes of huge pages of the machine that this runs on, which the kubelet cannot be told.
func HugePages() []string { return cgroups.HugePageSizes() }

// makeRuntimeState has the kubelet take the runtime's network for ready.
func (k *Kubelet) makeRuntimeState() {
	field := reflect.ValueOf(k.kl).Elem().FieldByName("runtimeState")
	state := reflect.New(field.Type().Elem())
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(state)
}
