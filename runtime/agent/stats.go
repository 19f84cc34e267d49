package agent

import (
	"net"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/local"
	"github.com/journalet/journalet/runtime/cri/cgroup"
	"github.com/journalet/journalet/runtime/stats"
	"github.com/journalet/journalet/runtime/stats/usage"
)

// newStats creates what measures the node and its pods, when somebody asks, and adds what it exports of volumes to the
// agent's own metrics, as the kubelet.
func (a *agent) newStats() *stats.Stats {
	o := stats.Options{
		Node: a.facts.NodeName, Pods: a.measuredPods, Conn: a.conn, Storage: a.storage, RootDir: a.cfg.RootDir,
		VolumePeriod: a.cfg.VolumeStatsAggPeriod, Log: a.log, Reader: usage.NewReader("/", cgroup.V2()),
	}
	if !simulated(a.cfg) {
		o.RuntimePID = func() int { return runtimePID(a.cfg.ContainerRuntimeEndpoint) }
		if a.cgroups != nil {
			o.PodsCgroup = a.cgroups.Top
		}
	}
	s := stats.New(o)
	a.metrics.MustRegister(s.VolumeMetrics())
	return s
}

// measuredPods returns the pods that have a sandbox, as the runtime showed them last.
func (a *agent) measuredPods() []stats.Pod {
	var out []stats.Pod
	for _, o := range a.pleg.Observed() {
		m := a.manifests.Newest(o.GetUid())
		if m == nil {
			continue // an orphan
		}
		if p, ok := measuredPod(o, m); ok {
			if a.cgroups != nil {
				p.Cgroup = a.cgroups.Path(m)
			}
			out = append(out, p)
		}
	}
	return out
}

// measuredPod returns a pod's newest ready sandbox and what runs in it; false if it has none.
func measuredPod(o *journaletv1.PodObserved, m *corev1.Pod) (stats.Pod, bool) {
	p := stats.Pod{Manifest: m}
	for _, s := range o.GetSandboxes() { // by attempt
		if s.GetState() == journaletv1.SandboxState_SANDBOX_STATE_READY {
			p.Sandbox = stats.Object{ID: s.GetId(), Created: s.GetCreatedAt().AsTime()}
			p.HostNetwork = s.GetNetwork() == journaletv1.NetworkMode_NETWORK_MODE_NODE
		}
	}
	for _, c := range o.GetContainers() {
		if c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_RUNNING && c.GetSandboxId() == p.Sandbox.ID {
			p.Containers = append(p.Containers, stats.Container{
				Object: stats.Object{ID: c.GetId(), Created: c.GetCreatedAt().AsTime()}, Name: c.GetName(), Image: c.GetImage(),
				Started: c.GetStartedAt().AsTime(),
			})
		}
	}
	return p, p.Sandbox.ID != ""
}

// peerTimeout bounds the connection to the runtime's socket.
const peerTimeout = time.Second

// runtimePID returns the process that serves a unix socket; 0 if that is unknown.
func runtimePID(endpoint string) int {
	path, ok := strings.CutPrefix(endpoint, "unix://")
	if !ok {
		return 0
	}
	conn, err := net.DialTimeout("unix", path, peerTimeout)
	if err != nil {
		return 0
	}
	defer conn.Close()
	peer, err := local.Identify(conn)
	if err != nil {
		return 0
	}
	return int(peer.PID)
}
