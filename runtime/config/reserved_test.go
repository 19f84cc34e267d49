package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/runtime/cri/cgroup"
	"github.com/journalet/journalet/test/must"
)

func TestReservedCgroupsHaveWhatIsReserved(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"), head+`
enforceNodeAllocatable: [pods, system-reserved, kube-reserved-compressible]
systemReserved: {cpu: 500m, memory: 1Gi, pid: "1000", ephemeral-storage: 1Gi}
kubeReserved: {cpu: "2", memory: 2Gi}
systemReservedCgroup: /system.slice
kubeReservedCgroup: /kube
oomScoreAdj: -500
`)
	c, problems := mustLoad(t, "--config", file)
	if len(problems) > 0 {
		t.Errorf("problems %v", problems)
	}
	want := []cgroup.Reserved{
		{Name: "/system.slice", What: "system", Field: systemReservedCgroup,
			Values: cgroup.Values{Shares: 512, MemoryBytes: 1 << 30, Pids: 1000}},
		{Name: "/kube", What: "kube", Field: kubeReservedCgroup, Values: cgroup.Values{Shares: 2048}},
	}
	if got := c.ReservedCgroups(); !slices.Equal(got, want) {
		t.Errorf("reserved cgroups %+v, want %+v", got, want)
	}
	if c.OOMScoreAdj != -500 {
		t.Errorf("oomScoreAdj %d", c.OOMScoreAdj)
	}
	effective, err := c.KubeletConfiguration()
	must.OK(t, err)
	k, ok := effective.(*kubeletConfig)
	if !ok {
		t.Fatalf("in effect is a %T", effective)
	}
	if k.SystemReservedCgroup != "/system.slice" || k.KubeReservedCgroup != "/kube" {
		t.Errorf("in effect: %q and %q", k.SystemReservedCgroup, k.KubeReservedCgroup)
	}
	if got := Defaults().ReservedCgroups(); len(got) > 0 {
		t.Errorf("by default %+v is bounded", got)
	}
}

func TestContradictoryReservationsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no cgroup": {func(c *Config) { c.EnforceNodeAllocatable = []string{EnforcePods, EnforceSystem} },
			"systemReservedCgroup (--system-reserved-cgroup): must be set"},
		"no cgroup, CPU alone": {func(c *Config) { c.EnforceNodeAllocatable = []string{EnforceKubeOnlyCPU} },
			"kubeReservedCgroup (--kube-reserved-cgroup): must be set"},
		"both forms": {func(c *Config) {
			c.EnforceNodeAllocatable, c.KubeReservedCgroup = []string{EnforceKube, EnforceKubeOnlyCPU}, "/kube"
		}, "exclude each other"},
		"twice": {func(c *Config) { c.EnforceNodeAllocatable = []string{EnforcePods, EnforcePods} }, "twice"},
		"reserved CPUs": {func(c *Config) { c.SystemReservedCgroup, c.ReservedSystemCPUs = "/system", "0" },
			"reservedSystemCPUs"},
		"topmost":     {func(c *Config) { c.SystemReservedCgroup = "/x/.." }, "topmost"},
		"throttling":  {func(c *Config) { c.MemoryThrottlingFactor = 1.1 }, "memoryThrottlingFactor"},
		"reservation": {func(c *Config) { c.MemoryReservationPolicy = "All" }, `found "All", want None or TieredReservation`},
		"score":       {func(c *Config) { c.OOMScoreAdj = -1001 }, "oomScoreAdj"},
	} {
		config := Defaults()
		c.change(config)
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
