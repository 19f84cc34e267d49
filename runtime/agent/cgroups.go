package agent

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// newCgroups returns the cgroup tree, nil if no pod gets a cgroup. It fails if all pods need one and cgroups cannot be
// created.
func (a *agent) newCgroups() (*cgroup.Tree, error) {
	if simulated(a.cfg) {
		return nil, nil
	}
	has, enforced := a.facts.Capacity, a.cfg.EnforceNodeAllocatable
	if slices.Contains(enforced, config.EnforcePods) {
		has = a.facts.Enforced
	}
	return cgroup.New(cgroup.Options{
		All: a.cfg.CgroupsPerQOS, Root: a.cfg.CgroupRoot, PodPids: a.cfg.PodPidsLimit, Log: a.log,
		CPUQuota:         a.cfg.CgroupCPUQuota(),
		MemoryThrottling: a.cfg.MemoryThrottlingFactor,
		ReserveMemory:    a.cfg.MemoryReservationPolicy == config.ReserveTiered,
		Node:             cgroup.OfNode(has.MilliCPU, has.MemoryBytes, has.Pids),
	})
}

// reportLostCgroups records the pods that run outside their cgroups.
func (a *agent) reportLostCgroups(ctx context.Context) error {
	lost, err := a.criDriver.LostCgroups(ctx)
	for _, uid := range lost {
		a.host.Outcome(messages.Pod(uid), messages.NewEvent(&journaletv1.PodCgroupLost{Uid: uid}))
	}
	return err
}

// maintainCgroups creates the cgroup tree once the runtime responds, sets the bound for all pods, and reports the pods
// that are not in it.
func (a *agent) maintainCgroups(ctx context.Context) error {
	if !a.cgroups.ShouldInit() {
		return nil
	}
	for pause := cgroup.MinPause; ; pause = min(2*pause, cgroup.MaxPause) {
		err := a.criDriver.InitCgroups(ctx)
		if err == nil {
			err = a.reportLostCgroups(ctx)
		}
		if err == nil && ctx.Err() == nil {
			a.emit(corev1.EventTypeNormal, "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
		}
		if err == nil || ctx.Err() != nil {
			return nil
		}
		a.log.Debug("cannot set up the cgroup tree yet", "error", err)
		if a.cgroups.Ready() || pause == cgroup.MaxPause {
			a.log.Warn("cannot set up the cgroup tree", "error", err, "retry in", pause)
			a.emit(corev1.EventTypeWarning, "FailedNodeAllocatableEnforcement",
				"Failed to update Node Allocatable Limits: "+err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// cgroupVersion returns the version of the machine's cgroups.
func cgroupVersion() int {
	if cgroup.V2() {
		return 2
	}
	return 1
}
