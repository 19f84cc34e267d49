package agent

import (
	"context"
	"maps"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/api/monitoring"
	"github.com/journalet/journalet/runtime/cluster/node"
	"github.com/journalet/journalet/runtime/config"
)

// newClusterNode returns the driver of the Node. It runs after the drivers of reports are created.
func (a *agent) newClusterNode(c *cluster) *node.Driver {
	l := &a.cfg.Cluster
	s := node.Settings{
		Name: a.facts.NodeName, Version: Version, Labels: maps.Clone(a.cfg.NodeLabels), Taints: l.RegisterWithTaints,
		ProviderID: l.ProviderID, External: l.CloudProvider == config.ExternalCloud,
		Addresses: a.facts.HostIPs, MaxImages: int(l.MaxImages), Machine: node.ReadMachine("/"),
	}
	s.Machine.SwapBytes = a.facts.SwapBytes
	s.NodeIPs = a.cfg.GivenNodeIPs()
	s.ByFamily = a.cfg.NodeIP != "" && len(s.NodeIPs) == 0
	if a.cfg.EnableServer {
		s.Port = a.cfg.Server.Port
	}
	s.Capacity, s.Reserved = nodeResources(a.facts)
	return node.New(node.Options{
		Client: c.client, Settings: s, BootID: a.facts.BootID, Startup: c.started(time.Now()),
		Register: l.RegisterNode, RegisterDeleted: l.RegisterDeletedNode,
		Update: l.UpdateEvery(), Report: l.ReportEvery(), Lease: time.Duration(l.LeaseSeconds) * time.Second,
		Runtime: node.Inspect(a.conn), Log: a.log,
		Emit: func(reason, message string) { a.emit(corev1.EventTypeNormal, reason, message) },
		Sink: func(ctx context.Context, m proto.Message) error {
			return a.host.Fact(ctx, messages.Node, messages.NewEvent(m))
		},
	})
}

// started returns what exports how long the start of the node took, after a boot some time before now.
func (c *cluster) started(now time.Time) func(node.Startup) {
	var boot time.Time
	var since unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &since) == nil {
		boot = now.Add(-time.Duration(since.Nano()))
	}
	between := func(from, to time.Time) time.Duration {
		if from.IsZero() || to.IsZero() {
			return 0
		}
		return to.Sub(from)
	}
	return func(s node.Startup) {
		c.metrics.Started(monitoring.Startup{
			BeforeAgent: between(boot, s.Started), BeforeRegistration: between(s.Started, s.Attempted),
			Registration: between(s.Attempted, s.Registered), AfterRegistration: between(s.Registered, s.Ready),
			Total: between(boot, s.Ready),
		})
	}
}

// nodeResources returns the capacity of the node, and what of it pods cannot have.
func nodeResources(f *config.NodeFacts) (capacity, reserved corev1.ResourceList) {
	bytes := func(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.BinarySI) }
	capacity = corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(f.Capacity.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: bytes(f.Capacity.MemoryBytes),
		corev1.ResourcePods:   *resource.NewQuantity(int64(f.MaxPods), resource.DecimalSI),
	}
	for _, h := range f.HugePages {
		size := bytes(h.PageBytes)
		capacity[corev1.ResourceName(corev1.ResourceHugePagesPrefix+size.String())] = bytes(h.Bytes)
	}
	left := f.Allocatable
	reserved = corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(f.Capacity.MilliCPU-left.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: bytes(f.Capacity.MemoryBytes - left.MemoryBytes),
	}
	// Without isolation of storage the Node has no such resource.
	if has := f.Capacity.EphemeralStorageBytes; has > 0 {
		capacity[corev1.ResourceEphemeralStorage] = bytes(has)
		reserved[corev1.ResourceEphemeralStorage] = bytes(has - left.EphemeralStorageBytes)
	}
	return capacity, reserved
}
