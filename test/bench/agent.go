package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/journalet/journalet/test/measure"
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

// cpuOf returns a process's user and system time so far, in seconds; not a number if there is no such process.
func cpuOf(pid int) float64 {
	x, err := measure.CPU(pid)
	if err != nil {
		return math.NaN()
	}
	return x
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
