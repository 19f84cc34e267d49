package config

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/runtime/cri/cgroup"
	"github.com/journalet/journalet/test/must"
)

func TestLimitsOfCPUAreConfigured(t *testing.T) {
	c, problems := mustLoad(t)
	if len(problems) > 0 || c.CgroupCPUQuota() != (cgroup.CPUQuota{Period: resources.PeriodMicros}) ||
		c.RecordedCPUQuota() != nil || c.SingleProcessOOMKill {
		t.Errorf("%v, %+v", problems, c)
	}
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"),
		head+"cpuCFSQuota: true\ncpuCFSQuotaPeriod: 5ms\nsingleProcessOOMKill: true\n")
	c, problems = mustLoad(t, "--config", file)
	if q := c.RecordedCPUQuota(); len(problems) > 0 || c.CgroupCPUQuota() != (cgroup.CPUQuota{Period: 5000}) ||
		q.GetOff() || q.GetPeriod().AsDuration() != 5*time.Millisecond || !c.SingleProcessOOMKill {
		t.Errorf("%v, %+v", problems, c)
	}
	c, problems = mustLoad(t, "--config", file, "--cpu-cfs-quota=false", "--cpu-cfs-quota-period=1s")
	if q := c.RecordedCPUQuota(); len(problems) > 0 ||
		c.CgroupCPUQuota() != (cgroup.CPUQuota{Off: true, Period: 1_000_000}) || !q.GetOff() {
		t.Errorf("%v, %+v", problems, c)
	}
	for _, flag := range []string{"--cpu-cfs-quota-period=999us", "--cpu-cfs-quota-period=1001ms",
		"--cpu-cfs-quota-period=0s", "--pods-per-core=-1"} {
		if c, _, err := load(t, flag); err != nil || c.Validate() == nil {
			t.Errorf("%s is accepted: %v", flag, err)
		}
	}
}

func TestWithoutIsolationOfStorageTheNodeHasNone(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"), head+"localStorageCapacityIsolation: false\n"+
		"systemReserved: {ephemeral-storage: 1Gi}\n")
	for _, args := range [][]string{{"--config", file},
		{"--local-storage-capacity-isolation=false", "--kube-reserved=ephemeral-storage=1Gi"}} {
		c, problems := mustLoad(t, append(args, "--root-dir", t.TempDir())...)
		f, err := c.nodeFacts(machine(t), "h", networkOf("", "", addr(t, "10.0.0.5/24")))
		must.OK(t, err)
		if len(problems) > 0 || f.Capacity.EphemeralStorageBytes != 0 || f.Allocatable.EphemeralStorageBytes != 0 ||
			f.Allocatable.MemoryBytes == 0 {
			t.Errorf("%v: %v, %+v", args, problems, f)
		}
	}
}

func TestPodsPerCoreBoundsThePodsOfTheMachine(t *testing.T) {
	for _, one := range []struct{ most, perCore, want int32 }{
		{110, 0, 110}, {110, 10, 50}, {110, 22, 110}, {110, 1 << 30, 110}, {7, 10, 7},
	} {
		c := Defaults()
		c.RootDir, c.MaxPods, c.PodsPerCore = t.TempDir(), one.most, one.perCore
		f, err := c.nodeFacts(machine(t), "h", networkOf("", "", addr(t, "10.0.0.5/24"))) // a machine with 5 CPUs
		must.OK(t, err)
		if f.MaxPods != one.want {
			t.Errorf("%+v: %d pods", one, f.MaxPods)
		}
	}
}
