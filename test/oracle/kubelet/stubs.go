package kubelet

import (
	"context"
	"net"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/pleg"
	kubepod "k8s.io/kubernetes/pkg/kubelet/pod"
	"k8s.io/kubernetes/pkg/kubelet/prober"
	"k8s.io/kubernetes/pkg/kubelet/status"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	volumetypes "k8s.io/kubernetes/pkg/volume/util/types"
	"k8s.io/mount-utils"

	"github.com/journalet/journalet/test/oracle/fakecri"
	"github.com/journalet/journalet/test/oracle/node"
)

// The stubs below replace parts of the kubelet with side effects. Their embedded interfaces are nil, so that a call
// of any other method panics.

// client stands for an API server, without which the kubelet reports no addresses of the node.
type client struct{ clientset.Interface }

// nodes returns the one node.
type nodes struct {
	corelisters.NodeLister
	node *v1.Node
}

func (n nodes) Get(string) (*v1.Node, error) { return n.node, nil }

func nodeOf(o Options) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.NodeName, Labels: o.NodeLabels}}
	n.Status.Allocatable = o.Allocatable
	n.Status.Capacity = o.Allocatable
	for _, ip := range o.HostIPs {
		n.Status.Addresses = append(n.Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
	}
	return n
}

// volumes reports every volume of every pod as mounted, at the kubelet's path.
type volumes struct {
	volumemanager.VolumeManager
	root string
	pods map[types.UID]*v1.Pod
}

func (v volumes) WaitForAttachAndMount(context.Context, *v1.Pod) error { return nil }

func (v volumes) GetExtraSupplementalGroupsForPod(*v1.Pod) []int64 { return nil }

func (v volumes) GetMountedVolumesForPod(name volumetypes.UniquePodName) kubecontainer.VolumeMap {
	out := kubecontainer.VolumeMap{}
	pod := v.pods[types.UID(name)]
	if pod == nil {
		return out
	}
	for _, vol := range pod.Spec.Volumes {
		plugin, readOnly := pluginOf(&vol)
		path := filepath.Join(v.root, "pods", string(pod.UID), "volumes", plugin, vol.Name)
		if vol.HostPath != nil {
			path = vol.HostPath.Path
		}
		out[vol.Name] = kubecontainer.VolumeInfo{
			Mounter: mounted{path: path, readOnly: readOnly}, InnerVolumeSpecName: vol.Name,
		}
	}
	return out
}

// pluginOf returns the directory of a volume's plugin, and whether the plugin's mounter has the attribute ReadOnly
// (GetAttributes in pkg/volume).
func pluginOf(v *v1.Volume) (dir string, readOnly bool) {
	switch {
	case v.ConfigMap != nil:
		return "kubernetes.io~configmap", true
	case v.Secret != nil:
		return "kubernetes.io~secret", true
	case v.DownwardAPI != nil:
		return "kubernetes.io~downward-api", true
	case v.Projected != nil:
		return "kubernetes.io~projected", true
	case v.Image != nil:
		return "kubernetes.io~image", true
	}
	return "kubernetes.io~empty-dir", false
}

type mounted struct {
	volume.Mounter
	path     string
	readOnly bool
}

func (m mounted) GetPath() string                  { return m.path }
func (m mounted) GetAttributes() volume.Attributes { return volume.Attributes{ReadOnly: m.readOnly} }

// host reports every path of a volume as present.
type host struct{ *hostutil.FakeHostUtil }

func (host) PathExists(string) (bool, error) { return true, nil }

// subPaths mounts nothing. It returns where the kubelet would mount a path, and which.
type subPaths struct{ subpath.FakeSubpath }

func (*subPaths) PrepareSafeSubpath(p subpath.Subpath) (string, func(), error) {
	rel, err := filepath.Rel(p.VolumePath, p.Path)
	return node.SubPath(p.PodDir, p.VolumeName, p.ContainerName, p.VolumeMountIndex, rel), nil, err
}

// workers reports no pod as terminating.
type workers struct{ kubelet.PodWorkers }

func (workers) IsPodTerminationRequested(types.UID) bool            { return false }
func (workers) UpdatePod(context.Context, kubelet.UpdatePodOptions) {}
func (workers) ShouldPodContentBeRemoved(types.UID) bool            { return false }
func (workers) ShouldPodRuntimeBeRemoved(types.UID) bool            { return false }
func (workers) ShouldPodContainersBeTerminating(types.UID) bool     { return false }
func (workers) PodCouldHaveRunningContainers(*v1.Pod) bool          { return true }
func (workers) RecordImageStartedPulling(types.UID)                 {}
func (workers) RecordImageFinishedPulling(types.UID)                {}
func (workers) RecordStatusUpdated(klog.Logger, *v1.Pod)            {}
func (workers) DeletePodStartupState(types.UID)                     {}
func (workers) GetResources() *resource.Quantity                    { return nil }
func (workers) CreateMirrorPod(context.Context, *v1.Pod) error      { return nil }
func (workers) DeleteMirrorPod(context.Context, string, *types.UID) (bool, error) {
	return false, nil
}

var _ kubepod.MirrorClient = workers{}

// statuses keeps out what the kubelet writes on its own: a goroutine of OnPodSandboxReady writes the status it read
// before, and so undoes a newer one. Only SetStatus writes here, in the order of the syncs.
type statuses struct{ status.Manager }

func (s statuses) SetPodStatus(_ klog.Logger, pod *v1.Pod, _ v1.PodStatus) (v1.PodStatus, bool) {
	kept, _ := s.GetPodStatus(pod.UID)
	return kept, false
}

// probes returns the results of SetProbes, and probes nothing.
type probes struct{ prober.Manager }

func (probes) AddPod(context.Context, *v1.Pod) {}
func (probes) StopLivenessAndStartup(*v1.Pod)  {}
func (probes) RemovePod(*v1.Pod)               {}

// events is a PLEG without events.
type events struct {
	pleg.PodLifecycleEventGenerator
}

func (events) RequestReinspect(types.UID)           {}
func (events) RequestRelist(klog.Logger, types.UID) {}

// containers is the kubelet's own stub for cgroups and devices, with a cgroup for every pod.
type containers struct{ *cm.FakeContainerManager }

func (containers) NewPodContainerManager() cm.PodContainerManager {
	return podCgroups{cm.NewFakePodContainerManager()}
}

type podCgroups struct{ *cm.FakePodContainerManager }

func (podCgroups) Exists(*v1.Pod) bool { return true }

// GetPodCgroupConfig returns limits above the limits of any pod.
func (podCgroups) GetPodCgroupConfig(*v1.Pod, v1.ResourceName) (*cm.ResourceConfig, error) {
	memory, quota, shares, period := int64(1)<<50, int64(1)<<40, uint64(1)<<18, uint64(100_000)
	return &cm.ResourceConfig{Memory: &memory, CPUQuota: &quota, CPUShares: &shares, CPUPeriod: &period}, nil
}

func (podCgroups) SetPodCgroupConfig(klog.Logger, *v1.Pod, *cm.ResourceConfig) error { return nil }

// helper is the kubelet's interface for its runtime manager, with the containers' usage of the fake runtime.
type helper struct {
	kubecontainer.RuntimeHelper
	fake *fakecri.Runtime
}

func (h helper) PodCPUAndMemoryStats(context.Context, *v1.Pod, *kubecontainer.PodStatus) (*statsapi.PodStats, error) {
	out := &statsapi.PodStats{Memory: &statsapi.MemoryStats{UsageBytes: new(uint64)}}
	for name, bytes := range h.fake.Uses() {
		memory := &statsapi.MemoryStats{UsageBytes: &bytes}
		out.Containers = append(out.Containers, statsapi.ContainerStats{Name: name, Memory: memory})
	}
	return out, nil
}

// GetOrCreateUserNamespaceMappings gives a pod with a user namespace of its own the ids of the case.
func (h helper) GetOrCreateUserNamespaceMappings(
	logger klog.Logger, pod *v1.Pod, handler string,
) (*runtimeapi.UserNamespace, error) {
	if pod == nil || pod.Spec.HostUsers == nil || *pod.Spec.HostUsers {
		return h.RuntimeHelper.GetOrCreateUserNamespaceMappings(logger, pod, handler)
	}
	ids := []*runtimeapi.IDMapping{{HostId: node.UserNamespaceHostID, Length: node.UserNamespaceLength}}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: ids, Gids: ids}, nil
}

func (podCgroups) GetPodContainerName(*v1.Pod) (cm.CgroupName, string) { return nil, "" }

// disk is the host's mounter; the kubelet calls none of its methods here.
type disk struct{ mount.Interface }

func parseIPs(list []string) []net.IP {
	var out []net.IP
	for _, s := range list {
		if ip := net.ParseIP(s); ip != nil {
			out = append(out, ip)
		}
	}
	return out
}
