package main

import (
	"fmt"
	"log"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

type agent struct {
	cmd  *exec.Cmd
	args []string
}

func start(args []string) *agent {
	f, err := os.OpenFile(*logfile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	return &agent{cmd, args}
}
func (a *agent) stop() {
	if a.cmd.Process != nil {
		a.cmd.Process.Kill()
		a.cmd.Wait()
	}
}
func (a *agent) cpu() float64 { return cpuOf(a.cmd.Process.Pid) }

// cpuOf gives a process's seconds of user and system time so far.
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
