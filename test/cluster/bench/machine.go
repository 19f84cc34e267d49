package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/journalet/journalet/test/cluster"
	"github.com/journalet/journalet/test/measure"
)

// memoryOf returns what a process has in memory, and what of it is its alone, in MiB.
func memoryOf(pid int) (rss, private float64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	return fieldKiB(b, "Rss:") / 1024, (fieldKiB(b, "Private_Clean:") + fieldKiB(b, "Private_Dirty:")) / 1024, err
}

// fieldKiB returns a number of a file of lines "Name:   123 kB".
func fieldKiB(file []byte, name string) float64 {
	for line := range strings.Lines(string(file)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			x, _ := strconv.ParseFloat(f[1], 64) // the kernel's number
			return x
		}
	}
	return 0
}

// usage is CPU time so far, in seconds.
type usage struct {
	agent, runtime, shims float64
	// others is the machine's usage without the agent, the runtime, the shims, the control plane and this program.
	others float64
}

// usage reads the CPU time of the machine and of what takes part. pid is the agent's, 0 for none.
func (b *bench) usage(pid int) (usage, error) {
	var u usage
	var err error
	read := func(pid int) (seconds float64) {
		if pid == 0 || err != nil {
			return 0
		}
		seconds, err = measure.CPU(pid)
		return seconds
	}
	u.agent, u.runtime, u.shims = read(pid), read(b.runtimePID), measure.Shims(b.endpoint)
	known := u.agent + u.runtime + u.shims + read(os.Getpid())
	for _, p := range cluster.Parts() {
		partPID, bad := b.Running(p)
		if bad != nil {
			return u, bad
		}
		known += read(partPID)
	}
	all, bad := measure.Busy()
	u.others = all - known
	return u, errors.Join(err, bad)
}
