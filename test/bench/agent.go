package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

type agent struct {
	cmd  *exec.Cmd
	args []string
}

func start(args []string) *agent {
	f, err := os.OpenFile(*logfile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		die(err)
	}
	cmd := exec.Command(args[0], args[1:]...) //nolint:gosec // the caller of the bench gives the command
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		die(err)
	}
	return &agent{cmd, args}
}
func (a *agent) stop() {
	if a.cmd.Process != nil {
		_ = a.cmd.Process.Kill() // it may have ended
		_ = a.cmd.Wait()         // killed
	}
}
func (a *agent) cpu() float64 { return cpuOf(a.cmd.Process.Pid) }

// cpuOf returns a process's user and system time so far, in seconds.
func cpuOf(pid int) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return math.NaN()
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+2:]))
	u, _ := strconv.ParseFloat(f[11], 64)
	s, _ := strconv.ParseFloat(f[12], 64)
	return (u + s) / 100
}

// cpuOfShims returns the CPU time of the runtime's running shims. It reads the scheduler's nanoseconds rather than the
// 10 ms ticks of stat: each of 150 shims may use some hundred microseconds.
func cpuOfShims() (seconds float64) {
	address := []byte(strings.TrimPrefix(*endpoint, "unix://"))
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		cmd, err := os.ReadFile(p + "/cmdline")
		if err != nil || !bytes.Contains(cmd, []byte("containerd-shim")) || !bytes.Contains(cmd, address) {
			continue
		}
		threads, _ := filepath.Glob(p + "/task/*/schedstat")
		for _, t := range threads {
			b, _ := os.ReadFile(t)
			if f := bytes.Fields(b); len(f) > 0 {
				ns, _ := strconv.ParseFloat(string(f[0]), 64)
				seconds += ns / 1e9
			}
		}
	}
	return seconds
}

func (a *agent) rss() float64 { // MiB
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid))
	for _, l := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(l, "VmRSS:") {
			v, _ := strconv.ParseFloat(strings.Fields(l)[1], 64)
			return v / 1024
		}
	}
	return math.NaN()
}
