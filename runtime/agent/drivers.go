package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/selinux/go-selinux"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/cri/cgroup"
	"github.com/journalet/journalet/runtime/cri/health"
	"github.com/journalet/journalet/runtime/cri/pleg"
	"github.com/journalet/journalet/runtime/dra"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/kubeletstate"
	"github.com/journalet/journalet/runtime/plugins/devices"
	"github.com/journalet/journalet/runtime/pod/storage"
	"github.com/journalet/journalet/runtime/pod/volume"
	"github.com/journalet/journalet/runtime/podmetrics"
	"github.com/journalet/journalet/runtime/retention"
	"github.com/journalet/journalet/runtime/runonce"
	"github.com/journalet/journalet/runtime/sim"
	"github.com/journalet/journalet/runtime/timer"
)

// simScheme selects the simulated runtime.
const simScheme = "sim://"

// stopPerStart is the ratio of concurrent teardown calls to concurrent starts: both are work of runc and CNI.
const stopPerStart = 1

// simulated reports whether the runtime is simulated.
func simulated(cfg *config.Config) bool {
	return strings.HasPrefix(cfg.ContainerRuntimeEndpoint, simScheme)
}

// connect prepares the connection to the runtime. A missing socket is no error: calls wait until it exists.
func (a *agent) connect() error {
	if simulated(a.cfg) {
		a.log.Warn("containers are simulated: no image is pulled, no process runs")
		// The containers of earlier runs are gone: their ids must not return.
		rt := sim.New(sim.Options{
			AnyImage: true, PullTime: a.cfg.SimulatedPullTime(), Seed: a.bus.Opening().Epoch, Logger: a.log,
		})
		a.closers = append(a.closers, rt.Close)
		conn, err := rt.Dial()
		a.conn = conn
		return err
	}
	conn, err := grpc.NewClient(a.cfg.ContainerRuntimeEndpoint, append(cri.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(connectParams()))...)
	if err != nil {
		return fmt.Errorf("container runtime endpoint %s: %w", a.cfg.ContainerRuntimeEndpoint, err)
	}
	a.closers = append(a.closers, func() { _ = conn.Close() })
	a.conn = conn
	return nil
}

// connectParams bound the pause between two attempts to reconnect to a restarted runtime by a second.
func connectParams() grpc.ConnectParams {
	p := grpc.ConnectParams{MinConnectTimeout: 3 * time.Second}
	p.Backoff.BaseDelay, p.Backoff.Multiplier, p.Backoff.MaxDelay = 50*time.Millisecond, 1.6, time.Second
	return p
}

// id returns the label of the objects that this agent creates: one root directory on one node, across runs.
func (a *agent) id() string {
	sum := sha256.Sum256([]byte(a.facts.NodeName + "\n" + a.absoluteRoot()))
	return hex.EncodeToString(sum[:8])
}

// owner says which objects of the runtime are this agent's.
func (a *agent) owner() cri.Owner {
	return cri.Owner{AgentID: a.id(), Kubelet: kubeletstate.In(a.cfg.RootDir)}
}

// absoluteRoot returns the path of the root directory.
func (a *agent) absoluteRoot() string {
	root, err := filepath.Abs(a.cfg.RootDir)
	if err != nil {
		return a.cfg.RootDir
	}
	return root
}

// started returns the first event of this run.
func (a *agent) started(r *host.Recovered) *journaletv1.AgentStarted {
	return &journaletv1.AgentStarted{
		Epoch: a.bus.Opening().Epoch, Version: Version, BootId: a.facts.BootID, AgentId: a.id(),
		FoundUserNamespaces: a.foundUserNamespaces(r), KubeletState: a.kubeletState(),
		FoundResources: a.foundResources(r), Config: a.recordedConfig(),
	}
}

// recordedConfig returns what of the configuration decides.
func (a *agent) recordedConfig() *journaletv1.AgentConfig {
	concurrency := uint32(max(1, a.cfg.CRIConcurrency))
	return &journaletv1.AgentConfig{
		NodeName: a.facts.NodeName, NodeLabels: a.facts.Labels,
		Allocatable: &journaletv1.NodeCapacity{
			MilliCpu: a.facts.Allocatable.MilliCPU, MemoryBytes: a.facts.AllocatableMemory(),
			EphemeralStorageBytes: a.facts.Allocatable.EphemeralStorageBytes, HugePages: a.hugePages(),
		},
		MaxPods: uint32(max(0, a.facts.MaxPods)), CpuQuota: a.cfg.RecordedCPUQuota(),
		StartConcurrency: concurrency, StopConcurrency: stopPerStart * concurrency,
		PullConcurrency:     uint32(max(1, a.cfg.MaxParallelImagePulls)),
		MaxContainerBackOff: durationpb.New(a.cfg.MaxContainerRestartPeriod),
		ShutdownGroups:      a.cfg.Shutdown.Groups(),
		Sources:             a.sources(), AppArmor: a.facts.AppArmor, UserNamespaces: a.userNamespaces(),
		Kernel: a.facts.Kernel, AllowedUnsafeSysctls: a.cfg.AllowedUnsafeSysctls,
		ImageGarbageCollection:     a.cfg.ImageGC.Config(),
		Eviction:                   a.cfg.Eviction.Config(),
		Managers:                   a.facts.Managers,
		PullsWithoutServiceAccount: !a.serviceAccountPulls, PullsForPods: true,
		TrustsFirstInspection: true, KeepsForWaitingPods: true,
		RuntimeConfig: &journaletv1.RuntimeConfig{PodCidr: a.cfg.PodCIDR},
	}
}

// sandboxSeccomp writes the seccomp profile of pause processes and returns its path; "" is RuntimeDefault, which a
// runtime accepts also if the kernel has no seccomp. A profile that cannot be written prevents no start.
func (a *agent) sandboxSeccomp() string {
	if a.cfg.SandboxSeccompProfile == config.SandboxSeccompRuntimeDefault {
		return ""
	}
	if _, err := os.Stat("/proc/sys/kernel/seccomp/actions_avail"); err != nil {
		return ""
	}
	path, err := cri.WriteSandboxSeccomp(a.cfg.RootDir)
	if err != nil {
		a.log.Warn("cannot write the seccomp profile of sandboxes; they get the runtime's default", "error", err)
	}
	return path
}

// newVolumes creates the driver of volumes.
func (a *agent) newVolumes() (*volume.Driver, error) {
	disks, err := a.newCSI()
	if err != nil {
		return nil, err
	}
	return volume.New(volume.Options{
		CSI:     disks,
		Objects: a.objects,
		RootDir: a.cfg.RootDir, PodLogDir: a.cfg.PodLogDir, ContainerLogDir: a.cfg.ContainerLogDir,
		AllocatableMemory: a.facts.AllocatableMemory(), Allocatable: a.allocatable,
		Prepare: func(pod *corev1.Pod, volume, dir string) { storage.Prepare(pod, volume, dir, a.log) },
		BootID:  a.facts.BootID, Log: a.log,
		Observe: func(plugin, operation string, took time.Duration, err error) {
			a.metrics.StorageOperation(plugin, operation, false, took, err)
		},
	}), nil
}

// newDrivers creates the drivers without running them.
func (a *agent) newDrivers() error {
	var err error
	if a.cluster, err = a.newCluster(); err != nil {
		return err
	}
	a.objects = a.newObjects()
	a.manifests.Secrets = a.objects.Secrets
	if a.volumes, err = a.newVolumes(); err != nil {
		return err
	}
	if a.cgroups, err = a.newCgroups(); err != nil {
		return err
	}
	if a.credentials, err = a.newCredentials(); err != nil {
		return err
	}
	a.reaper = a.newReaper()
	a.devices = a.newDevices()
	a.criDriver = cri.New(a.criOptions())
	watch := a.plegOptions(a.host.Fact)
	watch.Relisted, watch.Redact = a.metrics.Relisted, a.manifests.Redact
	a.pleg = pleg.New(watch)
	a.shutdown, a.health = a.newShutdown(), a.newHealth()
	a.probes, a.gates, a.storage = a.newProbes(), a.newGates(), a.newStorage(a.volumes)
	a.images = a.newImages()
	a.stats = a.newStats()
	a.pressure, a.oom = a.newPressure(), a.newOOM()
	if a.rotation, err = a.newRotation(); err != nil {
		return err
	}
	a.podMetrics = podmetrics.New(a.metrics, a.manifests.Newest)
	a.timers = timer.New(clock.Real{}, a.host.Outcome)
	a.calls = calls.New(calls.Options{
		Performer: a.works(), Outcome: a.callFinished, Finished: a.inspectAfter,
		Observe: a.podMetrics.CallFinished,
	})
	a.metrics.CgroupVersion(cgroupVersion())
	keep, err := a.cfg.Retention()
	if err != nil {
		return err
	}
	a.retention = retention.New(retention.Options{Bus: a.bus, Host: a.host, Keep: keep, Log: a.log})
	in := a.intake()
	if in.taken, err = a.kubeletsPods(); err != nil {
		return err
	}
	if a.files, a.url, err = a.newSources(in); err != nil {
		return err
	}
	if a.cfg.Once {
		a.once = a.newOnce()
	}
	return nil
}

// plegOptions returns the options of the PLEG, which reports to fact.
func (a *agent) plegOptions(fact func(context.Context, messages.Ref, *journaletv1.Event) error) pleg.Options {
	return pleg.Options{
		HostIPs: a.facts.HostIPs, Conn: a.conn, Owner: a.owner(), RootDir: a.cfg.RootDir, PodLogDir: a.cfg.PodLogDir,
		Log: a.log,
		Sink: func(ctx context.Context, o *journaletv1.PodObserved) error {
			return fact(ctx, messages.Pod(o.GetUid()), messages.NewEvent(o))
		},
	}
}

// criOptions returns the options of the driver of the runtime.
func (a *agent) criOptions() cri.Options {
	options := cri.Options{
		Conn: a.conn, Node: a.facts.NodeName, Owner: a.owner(), Hash: pod.ContainerHash,
		PodLogDir: a.cfg.PodLogDir, ContainerLogDir: a.cfg.ContainerLogDir,
		Network: cri.Network{
			HostIPs: a.facts.HostIPs, NodeIPs: a.nodeIPs, ClusterDNS: a.cfg.ClusterDNS, ClusterDomain: a.cfg.ClusterDomain,
			ResolvConf: a.cfg.ResolvConf,
		},
		Security: cri.Security{
			SeccompDefault: a.cfg.SeccompDefault, SandboxSeccomp: a.sandboxSeccomp(),
			SeccompRoot: filepath.Join(a.cfg.RootDir, "seccomp"), SELinux: selinux.GetEnabled(),
		},
		Resources: a.criResources(),
		Pulls: cri.Pulls{
			Credentials: a.credentials, QPS: pullQPS(a.cfg.RegistryPullQPS), Burst: int(a.cfg.RegistryBurst),
			Progress: func(p *journaletv1.PullProgressed) {
				a.host.Outcome(messages.Image, messages.NewEvent(p))
			},
		},
		Volumes: a.volumes, Objects: a.objects, Reaper: a.reaper, Allocatable: a.allocatable,
		PodCgroups: a.cgroups, CgroupDriver: a.cfg.CgroupDriver,
		Timeouts: cri.Timeouts{Call: a.cfg.RuntimeRequestTimeout}, Log: a.log,
	}
	if a.cluster != nil {
		options.ServiceEnv, options.RuntimeHandler = a.cluster.serviceEnv, a.cluster.runtimeHandler
		options.Warn = a.cluster.reports.sandboxWarning
	}
	return options
}

// criResources returns how resources of containers become settings of cgroups.
func (a *agent) criResources() cri.Resources {
	return cri.Resources{
		CgroupV2: cgroup.V2(), Cgroups: cri.DetectCgroups("/", cgroup.V2()),
		CPUQuota: a.cfg.CgroupCPUQuota(), SingleProcessOOMKill: a.cfg.SingleProcessOOMKill,
		MemoryCapacity: a.facts.Capacity.MemoryBytes, SwapCapacity: a.facts.SwapBytes,
		MemoryThrottling: a.cfg.MemoryThrottlingFactor, PodsMemory: a.facts.Enforced.MemoryBytes,
		ReserveMemory: a.cfg.MemoryReservationPolicy == config.ReserveTiered,
		LimitedSwap:   a.cfg.SwapBehavior == config.SwapLimited,
	}
}

// works returns who performs the calls of the journal.
func (a *agent) works() *calls.Works {
	var plugins devices.Worker
	if a.devices != nil {
		plugins.Plugins = a.devices
	}
	var claims dra.Worker
	if a.cluster != nil {
		claims.Claims = a.cluster.claims
	}
	return calls.NewWorks(calls.WorksOptions{Manifest: a.manifests.Get, Redact: a.manifests.Redact, Log: a.log},
		a.criDriver, plugins, claims)
}

// newOnce creates the driver that ends the run when its pods are done.
func (a *agent) newOnce() *runonce.Driver {
	return runonce.New(runonce.Options{
		Actors: a.host, Sources: a.sources(), Flush: a.bus.Journal().Flush, Timeout: a.cfg.OnceTimeout, Log: a.log,
		Read: func() bool { return a.pleg.Current() && a.files.Complete() && (a.url == nil || a.url.Complete()) },
	})
}

// callFinished records the outcome of a call with its order relative to inspections.
func (a *agent) callFinished(req *journaletv1.CallRequested, about messages.Ref, e *journaletv1.Event) {
	at, ended := a.pleg.CallEnded()
	if req.GetCleanPod() != nil {
		a.pleg.CleanedUp(req.GetPodUid())
	}
	e.GetCallFinished().EndedAt = ended
	a.host.OutcomeAt(at, about, e)
}

// inspectAfter makes the PLEG inspect a pod after a call. A started container must be observed: if the first inspection
// does not find it, it is gone, although nothing differs from the inspection before its start.
func (a *agent) inspectAfter(req *journaletv1.CallRequested) {
	if req.GetStartContainer() != nil {
		a.pleg.Expect(req.GetPodUid())
	}
	a.pleg.Hint(req.GetPodUid())
}

// allocatable returns the limits of a container without limits, for resourceFieldRef.
func (a *agent) allocatable() corev1.ResourceList {
	c := a.facts.Allocatable
	return corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewMilliQuantity(c.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(a.facts.AllocatableMemory(), resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(c.EphemeralStorageBytes, resource.BinarySI),
	}
}

// pullQPS turns the kubelet's value for no bound, 0, into the driver's, -1.
func pullQPS(qps int32) float64 {
	if qps == 0 {
		return -1
	}
	return float64(qps)
}

// newHealth creates the monitor of the runtime's health.
func (a *agent) newHealth() *health.Monitor {
	return health.New(health.Options{
		Conn: a.conn, Log: a.log,
		Sink: func(ctx context.Context, c *journaletv1.RuntimeHealthChanged) error {
			return a.host.Fact(ctx, messages.Runtime, messages.NewEvent(c))
		},
	})
}
