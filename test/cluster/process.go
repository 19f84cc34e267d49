package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// poll is the time between two readings of what announces no change.
	poll = 20 * time.Millisecond
	// stopTimeout is from SIGTERM to SIGKILL.
	stopTimeout = 10 * time.Second
	// tailBytes bounds the end of a log that an error shows.
	tailBytes = 3000
)

// Process is a running program as a file records it: a pid alone could be another's by now.
type Process struct {
	Pid   int
	Start string // ticks since the boot of the machine, from /proc
}

// ProcessOf returns the process that has a pid now.
func ProcessOf(pid int) Process { return Process{Pid: pid, Start: startOf(pid)} }

// Runs reports whether the process still runs. One that nobody has waited for does not.
func (p Process) Runs() bool { return p.Start != "" && startOf(p.Pid) == p.Start }

func (c *Cluster) pidFile(name string) string { return c.file(name + ".process") }

// Log returns the path of the log of a program of this cluster.
func (c *Cluster) Log(p Program) string { return c.log(string(p)) }

func (c *Cluster) log(name string) string { return filepath.Join(c.Dir, "logs", name+".log") }

// spawn starts a program with its output appended to its log. It is in a session of its own. Unless the cluster is
// detached, it ends with this process.
func (c *Cluster) spawn(name, program string, args ...string) error {
	log, err := os.OpenFile(c.log(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(program, args...) //nolint:gosec // programs of this package
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.Dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if !c.Detach {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if err := start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	p := ProcessOf(cmd.Process.Pid)
	go func() { _ = cmd.Wait() }() // so that it leaves no zombie
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(c.pidFile(name), b, 0o600)
}

// starts carries commands to the one thread that starts them: a Pdeathsig comes when the thread of the start ends.
var starts = sync.OnceValue(func() chan func() {
	queue := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range queue {
			f()
		}
	}()
	return queue
})

func start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	starts() <- func() { result <- cmd.Start() }
	return <-result
}

// startOf returns the time of a process's start, empty if the process does not exist or is a zombie.
func startOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name in the second field may hold anything.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if f[0] == "Z" || f[0] == "X" {
		return ""
	}
	return f[19]
}

// running returns the pid of a program that runs, 0 if it does not.
func (c *Cluster) running(name string) (int, error) {
	b, err := os.ReadFile(c.pidFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var p Process
	if err := json.Unmarshal(b, &p); err != nil {
		return 0, fmt.Errorf("%s: %w", c.pidFile(name), err)
	}
	if !p.Runs() {
		return 0, nil
	}
	return p.Pid, nil
}

// Running returns the pid of a program of this cluster, 0 if it does not run.
func (c *Cluster) Running(p Program) (int, error) { return c.running(string(p)) }

// Signal sends a signal to a part of the control plane: with SIGSTOP it accepts connections and answers nothing.
func (c *Cluster) Signal(p Program, s syscall.Signal) error { return c.signal(string(p), s) }

func (c *Cluster) signal(name string, s syscall.Signal) error {
	pid, err := c.running(name)
	if err != nil {
		return err
	}
	if pid == 0 {
		return fmt.Errorf("%s does not run: see %s", name, c.log(name))
	}
	return syscall.Kill(pid, s)
}

// Kill ends a part of the control plane by SIGKILL and returns when it is gone. Launch starts it again.
func (c *Cluster) Kill(p Program) error {
	if err := c.Signal(p, syscall.SIGKILL); err != nil {
		return err
	}
	return c.gone(string(p))
}

// stop ends a program, if it runs: by SIGTERM, and by SIGKILL if that is not enough.
func (c *Cluster) stop(name string) error {
	pid, err := c.running(name)
	if err != nil || pid == 0 {
		return err
	}
	_ = syscall.Kill(pid, syscall.SIGCONT) // a stopped process would not handle the SIGTERM
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	if c.gone(name) == nil {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return c.gone(name)
}

func (c *Cluster) gone(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return Until(ctx, func() error {
		pid, err := c.running(name)
		if pid != 0 {
			return fmt.Errorf("%s, pid %d, does not end", name, pid)
		}
		return err
	})
}

// Until repeats try until it returns no error. It returns the last error when ctx ends.
func Until(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(poll):
		}
	}
}

// Tail returns the end of the log of a program.
func (c *Cluster) Tail(p Program) string { return c.tail(string(p)) }

func (c *Cluster) tail(name string) string {
	b, err := os.ReadFile(c.log(name))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-tailBytes):])
}
