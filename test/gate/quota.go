package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

// periodMicros is the kernel's default period of a CPU quota.
const periodMicros = 100_000

// A controller is how a hierarchy of cgroups bounds CPU time.
type controller struct{ parent, quota, weight, mostWeight string }

// controllers are cgroup v2 and v1, with the kernel's bounds of a weight.
var controllers = []controller{
	{"/sys/fs/cgroup", "cpu.max", "cpu.weight", "10000"},
	{"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "cpu.shares", "262144"},
}

// halve moves this process, and so all that it starts, into a cgroup that may use half of the machine's CPU time. The
// cgroup has the largest weight, so that it gets this half beside other tiers too.
func halve() error {
	quota := strconv.Itoa(runtime.NumCPU() * periodMicros / 2)
	for _, c := range controllers {
		dir := filepath.Join(c.parent, "journalet-half")
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a cgroup
			continue
		}
		if os.WriteFile(filepath.Join(dir, c.quota), []byte(quota), 0o600) != nil {
			_ = os.Remove(dir) // a hierarchy without the controller
			continue
		}
		for file, value := range map[string]string{c.weight: c.mostWeight, "cgroup.procs": strconv.Itoa(os.Getpid())} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o600); err != nil {
				return fmt.Errorf("use half of the CPU time: %w", err)
			}
		}
		return nil
	}
	return errors.New("no cgroup with the CPU controller can be created: run as root")
}
