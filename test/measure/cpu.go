package measure

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ticks are the kernel's units of CPU time a second.
const ticks = 100

// CPU returns the user and system time of a process so far, in seconds.
func CPU(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in the second field may hold anything.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	return sum(f[11:13]) / ticks, nil
}

// sum adds numbers of the kernel.
func sum(fields [][]byte) (all float64) {
	for _, f := range fields {
		x, _ := strconv.ParseFloat(string(f), 64) // the kernel's numbers
		all += x
	}
	return all
}

// Busy returns the time that all CPUs of this machine were neither idle nor waiting for a disk, or were taken by its
// host, in seconds.
func Busy() (float64, error) {
	stat, err := os.ReadFile("/proc/stat")
	return busy(stat), err
}

func busy(stat []byte) float64 {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	f := bytes.Fields(line) // cpu user nice system idle iowait irq softirq steal ...
	if len(f) < 9 {
		return 0
	}
	return (sum(f[1:4]) + sum(f[6:9])) / ticks
}

// Shims returns the CPU time of the running shims of the containerd at an endpoint, in seconds. It reads the
// scheduler's nanoseconds rather than the ticks of stat: each of 150 shims may use some hundred microseconds.
func Shims(endpoint string) (seconds float64) {
	address := []byte(strings.TrimPrefix(endpoint, "unix://"))
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, p := range processes {
		cmd, err := os.ReadFile(p + "/cmdline")
		if err != nil || !bytes.Contains(cmd, []byte("containerd-shim")) || !bytes.Contains(cmd, address) {
			continue
		}
		threads, _ := filepath.Glob(p + "/task/*/schedstat")
		for _, t := range threads {
			stat, _ := os.ReadFile(t) // it may have ended
			if f := bytes.Fields(stat); len(f) > 0 {
				seconds += sum(f[:1]) / 1e9
			}
		}
	}
	return seconds
}
