package agent

import (
	"context"
	"slices"
	"time"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// Pauses between two tries to make the tree of cgroups, or to bound it: the first, doubling to the last (kubelet: every minute).
const (
	firstCgroupPause = time.Second
	lastCgroupPause  = time.Minute
)

// newCgroups makes the pods' cgroups; nil where no pod gets one. It fails where all are to have one and none can be made.
func (a *agent) newCgroups() (*cgroup.Tree, error) {
	if simulated(a.cfg) {
		return nil, nil
	}
	has, enforced := a.facts.Capacity, a.cfg.EnforceNodeAllocatable
	if slices.Contains(enforced, config.EnforcePods) {
		has = a.facts.Allocatable
	}
	for _, what := range enforced {
		if what != config.EnforcePods && what != config.EnforceNone {
			a.log.Warn("this bound is not carried out by this version, ignored", "enforceNodeAllocatable", what)
		}
	}
	return cgroup.New(cgroup.Options{
		All: a.cfg.CgroupsPerQOS, Root: a.cfg.CgroupRoot, PodPids: a.cfg.PodPidsLimit, Log: a.log,
		Node: cgroup.OfNode(has.MilliCPU, has.MemoryBytes, has.Pids),
	})
}

// seedCgroups tells of a pod that the journal knows.
func (a *agent) seedCgroups(ref messages.Ref, d *pod.Actor) {
	if a.cgroups == nil {
		return
	}
	a.cgroups.AddKnown(ref.ID)
	if p := d.Manifest(); p != nil && d.Pod().GetStage() < journaletv1.PodStage_POD_STAGE_TERMINATED {
		a.cgroups.Seed(p)
	}
}

// keepCgroups makes the tree of cgroups once the runtime answers, and bounds all pods together.
func (a *agent) keepCgroups(ctx context.Context) error {
	if a.cgroups == nil || !a.cgroups.ShouldInit() {
		return nil
	}
	for pause := firstCgroupPause; ; pause = min(2*pause, lastCgroupPause) {
		err := a.criDriver.InitCgroups(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		a.log.Debug("the pods' cgroups are not yet as they should be", "error", err)
		if a.cgroups.Ready() || pause == lastCgroupPause {
			a.log.Warn("the pods' cgroups are not as they should be", "error", err, "again in", pause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}
