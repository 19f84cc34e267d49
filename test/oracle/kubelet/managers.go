package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/status"
	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/messages/journaletv1"
)

// ManagerOptions are the settings of the kubelet's CPU, memory and topology managers. Policies are by the kubelet's
// names.
type ManagerOptions struct {
	Machine                                        *journaletv1.NodeTopology
	CPUPolicy, MemoryPolicy, TopologyPolicy, Scope string
	CPUOptions, TopologyOptions                    map[string]string
	ReservedMilliCPU                               int64
	ReservedCPUs                                   string
	ReservedMemory                                 []*journaletv1.NumaMemory
	// Devices are the devices of the device plugin of Thing; none: there is no plugin.
	Devices []*journaletv1.Device
	// Dir is the kubelet's root directory, with its state files, and Active are the pods that run. Empty: a directory of
	// the managers' own, where nothing runs.
	Dir    string
	Active []*v1.Pod
}

// Managers are the kubelet's CPU, memory, device and topology managers.
type Managers struct {
	cpus   cpumanager.Manager
	memory memorymanager.Manager
	admit  topologymanager.Manager
	// devices is nil without a plugin.
	devices *devicemanager.ManagerImpl
	active  []*v1.Pod
	dir     string
}

type noStatus struct{ status.PodStatusProvider }

func (noStatus) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

type noRuntime struct{}

func (noRuntime) UpdateContainerResources(context.Context, string, *runtimeapi.ContainerResources) error {
	return nil
}

// NewManagers returns the managers of a machine, or the error that would keep the kubelet from starting. Close removes
// their files.
func NewManagers(o ManagerOptions) (*Managers, error) {
	// Ours offers all options.
	if err := utilfeature.DefaultMutableFeatureGate.Set("CPUManagerPolicyAlphaOptions=true"); err != nil {
		return nil, err
	}
	log, machine := klog.Background(), machineOf(o.Machine)
	m, err := &Managers{dir: o.Dir, active: o.Active}, error(nil)
	if o.Dir == "" {
		if m.dir, err = os.MkdirTemp("", "managers"); err != nil {
			return nil, err
		}
	}
	m.admit, err = topologymanager.NewManager(log, machine.Topology, o.TopologyPolicy, o.Scope, o.TopologyOptions)
	if err != nil {
		return m, err
	}
	reserved := v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(o.ReservedMilliCPU, resource.DecimalSI)}
	sum, byNode := int64(0), []kubeletconfig.MemoryReservation{}
	for _, r := range o.ReservedMemory {
		sum += r.GetBytes()
		byNode = append(byNode, kubeletconfig.MemoryReservation{NumaNode: int32(r.GetNode()), Limits: v1.ResourceList{
			v1.ResourceMemory: *resource.NewQuantity(r.GetBytes(), resource.BinarySI)}})
	}
	reserved[v1.ResourceMemory] = *resource.NewQuantity(sum, resource.BinarySI)
	list, err := cpuset.Parse(o.ReservedCPUs)
	if err != nil {
		return m, err
	}
	m.cpus, err = cpumanager.NewManager(
		log, o.CPUPolicy, o.CPUOptions, time.Hour, machine, list, reserved, m.dir, m.admit)
	if err != nil {
		return m, err
	}
	m.memory, err = memorymanager.NewManager(log, o.MemoryPolicy, machine, reserved, byNode, m.dir, m.admit)
	if err != nil {
		return m, err
	}
	active := func() []*v1.Pod { return m.active }
	ready := config.NewSourcesReady(func(sets.Set[string]) bool { return true })
	if len(o.Devices) > 0 {
		if err := m.startDevices(o.Devices, machine.Topology, ready); err != nil {
			return m, err
		}
	}
	m.admit.AddHintProvider(log, m.cpus)
	m.admit.AddHintProvider(log, m.memory)
	return m, errors.Join(
		m.cpus.Start(context.Background(), active, ready, noStatus{}, noRuntime{}, containermap.NewContainerMap()),
		m.memory.Start(context.Background(), active, ready, noStatus{}, noRuntime{}, containermap.NewContainerMap()))
}

// Close removes the files of the managers.
func (m *Managers) Close() error {
	var err error
	if m.devices != nil {
		err = m.devices.Stop(klog.Background())
	}
	return errors.Join(err, os.RemoveAll(m.dir))
}

// machineOf returns a machine as cAdvisor describes it.
func machineOf(t *journaletv1.NodeTopology) *cadvisorapi.MachineInfo {
	out := &cadvisorapi.MachineInfo{}
	sockets := map[int]bool{}
	for _, n := range t.GetNodes() {
		node := cadvisorapi.Node{Id: int(n.GetId()), Memory: uint64(n.GetMemoryBytes())}
		for _, d := range n.GetDistances() {
			node.Distances = append(node.Distances, uint64(d))
		}
		for _, h := range n.GetHugePages() {
			node.HugePages = append(node.HugePages, cadvisorapi.HugePagesInfo{
				PageSize: uint64(h.GetPageBytes() >> 10), NumPages: uint64(h.GetBytes() / h.GetPageBytes())})
		}
		for i, c := range t.GetCores() {
			if c.GetNumaNode() != n.GetId() {
				continue
			}
			core := cadvisorapi.Core{Id: i, SocketID: int(c.GetSocket())}
			core.UncoreCaches = []cadvisorapi.Cache{{Id: int(c.GetCache()), Level: 3}}
			for _, cpu := range c.GetCpus() {
				core.Threads = append(core.Threads, int(cpu))
				out.NumCores++
			}
			sockets[core.SocketID] = true
			node.Cores = append(node.Cores, core)
		}
		out.Topology = append(out.Topology, node)
	}
	out.NumSockets = len(sockets)
	return out
}

// Admit requests the admission of a pod, and returns the reason and message of a rejection, or what each container has.
func (m *Managers) Admit(pod *v1.Pod) string {
	m.active = append(m.active, pod)
	r := m.admit.Admit(context.Background(), &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation})
	if !r.Admit {
		m.active = m.active[:len(m.active)-1]
		return r.Reason + ": " + r.Message
	}
	return m.Has(pod)
}

// Has returns what each container of an admitted pod has.
func (m *Managers) Has(pod *v1.Pod) string {
	var text []string
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			nodes := sets.List(m.memory.GetMemoryNUMANodes(klog.Background(), pod, c))
			text = append(text, fmt.Sprintf("%s: %s, memory of %v%s",
				c.Name, m.cpus.GetExclusiveCPUs(string(pod.UID), c.Name), nodes, m.devicesOf(pod, c)))
		}
	}
	return strings.Join(text, "\n")
}

// Shared returns the CPUs of containers without exclusive CPUs, once everything that has ended is swept.
func (m *Managers) Shared() string {
	m.sweep()
	return m.cpus.GetCPUAffinity("nobody", "nothing").String()
}

// sweep has the managers free what pods have that are not active.
func (m *Managers) sweep() {
	other := &v1.Pod{}
	other.Spec.Containers = []v1.Container{{Name: "nothing"}}
	_ = m.cpus.GetTopologyHints(klog.Background(), other, &other.Spec.Containers[0], lifecycle.AddOperation)
	_ = m.memory.GetTopologyHints(klog.Background(), other, &other.Spec.Containers[0], lifecycle.AddOperation)
}

// End ends a pod.
func (m *Managers) End(uid types.UID) {
	for i, p := range m.active {
		if p.UID == uid {
			m.active = append(m.active[:i:i], m.active[i+1:]...)
			break
		}
	}
	m.sweep()
}
