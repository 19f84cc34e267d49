package config

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// minQuotaPeriod and maxQuotaPeriod are the kernel's bounds, and the kubelet's of cpuCFSQuotaPeriod.
const (
	minQuotaPeriod = time.Millisecond
	maxQuotaPeriod = time.Second
)

func (c *Config) validateCPU() (errs []error) {
	if p := c.CPUQuotaPeriod; p < minQuotaPeriod || p > maxQuotaPeriod {
		errs = append(errs, fmt.Errorf("cpuCFSQuotaPeriod (--cpu-cfs-quota-period): %v is not within %v and %v", p,
			minQuotaPeriod, maxQuotaPeriod))
	}
	if c.PodsPerCore < 0 {
		errs = append(errs, fmt.Errorf("podsPerCore (--pods-per-core): %d, want 0, no bound, or more", c.PodsPerCore))
	}
	return errs
}

// CgroupCPUQuota returns how cgroups enforce limits of CPU.
func (c *Config) CgroupCPUQuota() cgroup.CPUQuota {
	return cgroup.CPUQuota{Off: !c.CPUQuota, Period: c.CPUQuotaPeriod.Microseconds()}
}

// RecordedCPUQuota returns what deciders are to know of it; nil for the default.
func (c *Config) RecordedCPUQuota() *journaletv1.CpuQuota {
	if c.CPUQuota && c.CPUQuotaPeriod == DefaultCPUQuotaPeriod {
		return nil
	}
	return &journaletv1.CpuQuota{Off: !c.CPUQuota, Period: durationpb.New(c.CPUQuotaPeriod)}
}

// maxPods returns how many pods a machine may have (pkg/kubelet/nodestatus: MachineInfo).
func (c *Config) maxPods(capacity Capacity) int32 {
	if c.PodsPerCore <= 0 {
		return c.MaxPods
	}
	return int32(min(int64(c.PodsPerCore)*(capacity.MilliCPU/resources.MilliPerCPU), int64(c.MaxPods)))
}
