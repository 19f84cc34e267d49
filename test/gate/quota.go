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

// halve moves this process, and so all that it starts, into a cgroup that may use half of the machine's CPU time.
func halve() error {
	quota := strconv.Itoa(runtime.NumCPU() * periodMicros / 2)
	for parent, file := range map[string]string{"/sys/fs/cgroup": "cpu.max", "/sys/fs/cgroup/cpu": "cpu.cfs_quota_us"} {
		dir := filepath.Join(parent, "journalet-half")
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a cgroup
			continue
		}
		if os.WriteFile(filepath.Join(dir, file), []byte(quota), 0o600) != nil {
			_ = os.Remove(dir) // a hierarchy without the controller
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
			return fmt.Errorf("join %s: %w", dir, err)
		}
		return nil
	}
	return errors.New("no cgroup with the CPU controller can be created: run as root")
}
