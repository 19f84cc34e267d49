package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"go.opentelemetry.io/otel/trace/noop"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	containertest "k8s.io/kubernetes/pkg/kubelet/container/testing"
	"k8s.io/kubernetes/pkg/kubelet/images"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	"k8s.io/kubernetes/pkg/kubelet/logs"
	"k8s.io/kubernetes/pkg/kubelet/network/dns"
	kubepod "k8s.io/kubernetes/pkg/kubelet/pod"
	"k8s.io/kubernetes/pkg/kubelet/prober"
	"k8s.io/kubernetes/pkg/kubelet/prober/results"
	"k8s.io/kubernetes/pkg/kubelet/runtimeclass"
	"k8s.io/kubernetes/pkg/kubelet/status"
	"k8s.io/kubernetes/pkg/kubelet/userns"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/utils/clock"

	"github.com/journalet/journalet/test/oracle/fakecri"
	"github.com/journalet/journalet/test/oracle/node"
)

// The kubelet's default back-offs of containers and images.
const (
	firstBackOff   = 10 * time.Second
	defaultBackOff = 300 * time.Second
)

// Options are the node and its configuration.
type Options = node.Options

// Kubelet holds the parts of a kubelet that decide on pods, on a fake runtime.
type Kubelet struct {
	kl      *kubelet.Kubelet
	runtime kuberuntime.KubeGenericRuntime
	vols    volumes
	status  status.Manager

	// Liveness, Readiness and Startup hold the results of probes.
	Liveness, Readiness, Startup results.Manager
	prober                       prober.Manager
	backOff                      *flowcontrol.Backoff
	fake                         *fakecri.Runtime
}

// New assembles a kubelet.
func New(o Options, fake *fakecri.Runtime) (*Kubelet, error) {
	setCgroupV2(o.CgroupV2)
	recorder := &record.FakeRecorder{}
	k := &Kubelet{
		kl: &kubelet.Kubelet{}, vols: volumes{root: o.RootDir, pods: map[types.UID]*v1.Pod{}}, fake: fake,
		Liveness: results.NewManager(), Readiness: results.NewManager(), Startup: results.NewManager(),
	}
	pods := kubepod.NewBasicPodManager()
	k.status = status.NewManager(client{}, pods, workers{}, workers{})
	k.prober = prober.NewManager(k.status, k.Liveness, k.Readiness, k.Startup, nil, recorder)
	managers := containers{cm.NewFakeContainerManager(klog.Background())}
	if err := k.newRuntime(o, recorder, managers); err != nil {
		return nil, err
	}
	most := o.MaxBackOff
	if most == 0 {
		most = defaultBackOff
	}
	k.backOff = flowcontrol.NewBackOff(min(firstBackOff, most), most)
	k.backOff.Clock = o.Clock
	for name, value := range map[string]any{
		"hostname": o.NodeName, "nodeName": types.NodeName(o.NodeName), "nodeIPs": parseIPs(o.HostIPs),
		"kubeClient": client{}, "nodeLister": nodes{node: nodeOf(o)},
		"rootDirectory": o.RootDir, "podLogsDirectory": o.PodLogDir,
		"podManager": pods, "statusManager": statuses{k.status}, "volumeManager": k.vols, "containerManager": managers,
		"probeManager": probes{k.prober}, "reasonCache": kubelet.NewReasonCache(), "podWorkers": workers{},
		"containerRuntime": k.runtime, "streamingRuntime": k.runtime, "mirrorPodClient": workers{},
		"dnsConfigurer": dns.NewConfigurer(recorder, &v1.ObjectReference{}, parseIPs(o.HostIPs), parseIPs(o.ClusterDNS),
			o.ClusterDomain, o.ResolvConf),
		"hostutil": host{hostutil.NewFakeHostUtil(nil)}, "subpather": &subPaths{}, "mounter": disk{},
		"usernsManager": &userns.UsernsManager{}, "tracer": noop.NewTracerProvider().Tracer(""), "recorder": recorder,
		"crashLoopBackOff": k.backOff, "livenessManager": k.Liveness, "readinessManager": k.Readiness,
		"startupManager": k.Startup, "clock": clock.RealClock{}, "pleg": events{},
		"runtimeClassManager": &runtimeclass.Manager{},
		"configMapManager":    configMaps{from: o.Objects}, "secretManager": secrets{from: o.Objects},
		"serviceHasSynced": func() bool { return true },
	} {
		set(k.kl, name, value)
	}
	k.setRuntimeReady()
	return k, nil
}

// newRuntime creates the kubelet's runtime manager by its own constructor.
func (k *Kubelet) newRuntime(o Options, recorder *record.FakeRecorder, managers cm.ContainerManager) error {
	if err := os.MkdirAll(o.RootDir, 0o750); err != nil {
		return fmt.Errorf("create the root directory: %w", err)
	}
	rt, _, err := kuberuntime.NewKubeGenericRuntimeManager(context.Background(), recorder, k.Liveness, k.Readiness,
		k.Startup,
		o.RootDir, o.PodLogDir, &cadvisorapi.MachineInfo{MemoryCapacity: uint64(o.MemoryCapacity)}, workers{}, 110,
		&containertest.FakeOS{}, k.kl, nil, flowcontrol.NewBackOff(firstBackOff, defaultBackOff), false, nil, 0, 0,
		"NeverVerifyPreloadedImages", nil, "", "", new(bool), true, metav1.Duration{Duration: 100 * time.Millisecond}, nil,
		fakecri.Service{Runtime: k.fake}, fakecri.Images{Runtime: k.fake}, managers, logs.NewStubContainerLogManager(),
		nil, o.SeccompDefault, "NoSwap", func() v1.ResourceList { return o.Allocatable }, nil, "",
		images.ImagePodPullingTimeRecorder(workers{}), noop.NewTracerProvider(), nil, nil, nil)
	if err != nil {
		return fmt.Errorf("create the kubelet's runtime manager: %w", err)
	}
	set(rt, "runtimeHelper", helper{k.kl, k.fake})
	set(rt, "getSwapControllerAvailable", func() bool { return o.Swap })
	k.runtime = rt
	return nil
}

// Status returns a pod's status from the kubelet's runtime manager.
func (k *Kubelet) Status(ctx context.Context, pod *v1.Pod) (*kubecontainer.PodStatus, error) {
	running, err := k.runtime.GetPod(ctx, pod.UID)
	if errors.Is(err, kubecontainer.ErrPodNotFound) {
		running = &kubecontainer.Pod{ID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}
	} else if err != nil {
		return nil, fmt.Errorf("find the pod: %w", err)
	}
	return k.runtime.GetPodStatus(ctx, running)
}
