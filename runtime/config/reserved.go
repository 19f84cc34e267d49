package config

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// Bounds and default of oomScoreAdj (kernel: /proc/PID/oom_score_adj; kubelet default: -999).
const (
	minOOMScore     = -1000
	maxOOMScore     = 1000
	defaultOOMScore = -999
)

// enforcements are the values of --enforce-node-allocatable.
var enforcements = []string{
	EnforceNone, EnforcePods, EnforceSystem, EnforceSystemOnlyCPU, EnforceKube, EnforceKubeOnlyCPU,
}

// validateReserved returns what the kubelet refuses about reserved cgroups.
func (c *Config) validateReserved() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for i, what := range c.EnforceNodeAllocatable {
		switch {
		case !slices.Contains(enforcements, what):
			bad("%s: found %q, want %s", enforceNodeAllocatable, what, strings.Join(enforcements, ", "))
		case slices.Contains(c.EnforceNodeAllocatable[:i], what):
			bad("%s: %s is there twice; remove one", enforceNodeAllocatable, what)
		case what == EnforceNone && len(c.EnforceNodeAllocatable) > 1:
			bad("%s: none excludes other values; remove it or the others", enforceNodeAllocatable)
		}
	}
	for _, r := range c.daemons() {
		switch {
		case r.enforced && r.onlyCPU:
			bad("%s: %s and its -compressible form exclude each other; remove one", enforceNodeAllocatable, r.value)
		case (r.enforced || r.onlyCPU) && r.cgroup == "":
			bad("%s: must be set with %s in %s", r.field, r.value, enforceNodeAllocatable)
		case r.cgroup != "" && path.Clean("/"+r.cgroup) == "/":
			bad("%s: found %q, want another cgroup than the topmost", r.field, r.cgroup)
		}
		if r.cgroup != "" && c.ReservedSystemCPUs != "" {
			bad("%s: cannot be set with reservedSystemCPUs (--reserved-cpus); remove one", r.field)
		}
	}
	if f := c.MemoryThrottlingFactor; !(f >= 0 && f <= 1) { // NaN is neither
		bad("memoryThrottlingFactor: found %v, want more than 0 and at most 1", f)
	}
	switch c.MemoryReservationPolicy {
	case "", ReserveNone, ReserveTiered:
	default:
		bad("memoryReservationPolicy: found %q, want %s or %s", c.MemoryReservationPolicy, ReserveNone, ReserveTiered)
	}
	if c.OOMScoreAdj < minOOMScore || c.OOMScoreAdj > maxOOMScore {
		errs = append(errs, errors.New("oomScoreAdj (--oom-score-adj): must be within -1000 and 1000"))
	}
	return errs
}

// daemons is what is reserved for one kind of daemons, and how it is enforced.
type daemons struct {
	what, value, field, cgroup string
	reserved                   map[string]string
	enforced, onlyCPU          bool
}

func (c *Config) daemons() []daemons {
	has := func(what string) bool { return slices.Contains(c.EnforceNodeAllocatable, what) }
	return []daemons{
		{"system", EnforceSystem, systemReservedCgroup, c.SystemReservedCgroup, c.SystemReserved,
			has(EnforceSystem), has(EnforceSystemOnlyCPU)},
		{"kube", EnforceKube, kubeReservedCgroup, c.KubeReservedCgroup, c.KubeReserved,
			has(EnforceKube), has(EnforceKubeOnlyCPU)},
	}
}

// ReservedCgroups returns the cgroups of daemons to bound, with their limits, as the kubelet sets them: shares of the
// CPU, and unless that alone is enforced the memory and the processes. What is not reserved has no limit.
func (c *Config) ReservedCgroups() []cgroup.Reserved {
	var out []cgroup.Reserved
	for _, d := range c.daemons() {
		if !d.enforced && !d.onlyCPU {
			continue
		}
		r := cgroup.Reserved{Name: d.cgroup, Field: d.field, What: d.what}
		for name, text := range d.reserved {
			q, err := resource.ParseQuantity(text)
			switch {
			case err != nil: // NodeFacts refuses it
			case name == "cpu":
				r.Values.Shares = cgroup.SharesOf(resources.Millis(&q))
			case name == "memory" && d.enforced:
				r.Values.MemoryBytes = resources.Bytes(&q)
			case name == "pid" && d.enforced:
				r.Values.Pids = resources.Bytes(&q)
			}
		}
		out = append(out, r)
	}
	return out
}
