package preflight

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/stats/usage"
	"github.com/journalet/journalet/runtime/tune"
)

const (
	// settingsTimeout bounds what is found out of the settings, so that what is checked later has its time. With a
	// runtime that responds it takes window and some 0.2 s.
	settingsTimeout = 5 * time.Second
	// window is how long the CPU of containerd and its shims is measured: two samples at containerd's default.
	window = 2 * time.Second
	// maxShims bounds the shims that are measured: a node has one a pod.
	maxShims = 4096
	// containerdName is containerd's name, of its program and for itself.
	containerdName = "containerd"
)

// Containerd returns the containerd of the runtime endpoint. configFile names its configuration, "" where its process
// shows it. Containerd returns an error if no containerd that this process may see listens on the endpoint.
func Containerd(cfg *config.Config, configFile string) (*tune.Containerd, error) {
	return thisMachine(cfg).containerd(configFile)
}

func (m *machine) containerd(configFile string) (*tune.Containerd, error) {
	pid, err := m.listener()
	if err != nil {
		return nil, err
	}
	dir := fmt.Sprintf("proc/%d/", pid)
	args := m.args(dir)
	// We run its program, so the program must be of this machine, and its process must be root's.
	if !m.hasOurRoot(pid) || !m.isRoots(dir) {
		return nil, fmt.Errorf("process %d, which listens on the runtime's socket, is not root's on this machine", pid)
	}
	program, err := os.Readlink(m.path(dir + "exe"))
	if err != nil {
		return nil, fmt.Errorf("the runtime's program: %w; run it as root", err)
	}
	// An upgrade has replaced it: the next start runs what is there now.
	program = strings.TrimSuffix(program, " (deleted)")
	if filepath.Base(args[0]) != containerdName && filepath.Base(program) != containerdName {
		return nil, fmt.Errorf("process %d, which listens on the runtime's socket, is no containerd", pid)
	}
	if configFile == "" {
		configFile = firstFlag(args, tune.DefaultConfig, "config", "c")
	}
	if !filepath.IsAbs(configFile) {
		return nil, fmt.Errorf("the path of containerd's configuration is %q: name it by --runtime-config", configFile)
	}
	return &tune.Containerd{
		Root: m.root, PID: pid, Program: program, Name: args[0], Config: configFile, Unit: m.unitOf(dir),
		LogLevel: firstFlag(args, "", "log-level", "l"),
	}, nil
}

// firstFlag returns the value of a flag by one of its names, or the default.
func firstFlag(args []string, fallback string, names ...string) string {
	for _, name := range names {
		if value, ok := flagOf(args, name); ok {
			return value
		}
	}
	return fallback
}

// listener returns the process that listens on the runtime's socket, as the kernel has it.
func (m *machine) listener() (int, error) {
	path := socketPath(m.cfg.ContainerRuntimeEndpoint)
	if strings.HasPrefix(m.cfg.ContainerRuntimeEndpoint, "sim://") {
		return 0, errors.New("a simulated runtime has no process")
	}
	conn, err := net.DialTimeout("unix", m.path(path), timeout)
	if err != nil {
		return 0, fmt.Errorf("no runtime at %s: %w", path, err)
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	failed := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(failed, err); err != nil {
		return 0, fmt.Errorf("find the process that listens at %s: %w", path, err)
	}
	if cred.Pid <= 0 {
		return 0, fmt.Errorf("the process that listens at %s is not visible from here", path)
	}
	return int(cred.Pid), nil
}

// unitOf returns the systemd unit of a process; "" if the process is not in a unit.
func (m *machine) unitOf(dir string) string {
	for line := range strings.Lines(m.read(dir + "cgroup")) {
		parts := strings.Split(strings.TrimSpace(line), "/")
		for _, part := range slices.Backward(parts) {
			if name, is := strings.CutSuffix(part, ".service"); is && !strings.ContainsFunc(name, notOfAUnit) {
				return name
			}
		}
	}
	return ""
}

// notOfAUnit reports whether a shell could take a character for more than a part of a name.
func notOfAUnit(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.@", r)
}

// settings checks what containerd does beyond what the agent needs.
func (m *machine) settings(ctx context.Context, rt runtimeapi.RuntimeServiceClient, name string) []Check {
	const check = "runtime-settings"
	if name != containerdName {
		return []Check{{Name: check, Status: Skip, Message: fmt.Sprintf("those of %s are not known here", name)}}
	}
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	runs, err := runningSettings(ctx, rt)
	c, errProcess := m.containerd("")
	next, errNext := tune.Settings{}, errProcess
	if errProcess == nil {
		next, errNext = c.Settings(ctx)
	}
	if err != nil && errNext != nil {
		return []Check{{Name: check, Status: Skip, Message: fmt.Sprintf("unknown: %v; %v", err, errNext)}}
	}
	if err != nil {
		runs = next
	}
	result := m.sampling(ctx, c, runs)
	if errNext == nil && runs.Sampling() && !next.Sampling() {
		result = Check{Status: Warn, Message: fmt.Sprintf("containerd samples statistics every %s, and will not after a "+
			"restart: its configuration has changed", runs.Period), Remedy: c.Restart()}
	}
	result.Name = check
	out := []Check{result}
	if errProcess == nil {
		out = append(out, logLevel(c, next)...)
	}
	return out
}

// logLevel checks whether containerd logs each call.
func logLevel(c *tune.Containerd, s tune.Settings) []Check {
	remedy := fmt.Sprintf("set level = \"info\" in section [debug] of %s; %s", c.Config, c.Restart())
	if c.LogLevel != "" {
		s.LogLevel, remedy = strings.ToLower(c.LogLevel), "start it without --log-level, or with --log-level info"
	}
	if !s.Verbose() {
		return nil
	}
	return []Check{{Name: "runtime-log", Status: Warn, Remedy: remedy,
		Message: fmt.Sprintf("containerd logs at level %s: lines for each call, whose cost is not measured", s.LogLevel)}}
}

// runningSettings returns the settings of the running containerd.
func runningSettings(ctx context.Context, rt runtimeapi.RuntimeServiceClient) (tune.Settings, error) {
	st, err := rt.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return tune.Settings{}, errors.New("its status: " + status.Convert(err).Message())
	}
	return tune.FromStatus(st.GetInfo()["config"])
}

// sampling checks how often containerd reads statistics. c is nil if its process is not known.
func (m *machine) sampling(ctx context.Context, c *tune.Containerd, s tune.Settings) Check {
	switch {
	case !s.Samples:
		return ok("this containerd samples no statistics")
	case !s.Sampling():
		return ok("containerd samples statistics every %s", s.Period)
	}
	cost := "1.5 millicores a pod at 1s, where that was measured"
	if c != nil {
		cost = s.Cost(m.load(ctx, c.PID))
	}
	return Check{
		Status: Warn,
		Message: fmt.Sprintf("containerd samples the statistics of all containers every %s, and this agent reads none of "+
			"them: %s", s.Period, cost),
		Remedy: "journalet check --fix; affected is who reads CPU rates from CRI: crictl stats, a kubelet with " +
			"PodAndContainerStatsFromCRI",
	}
}

// load measures what containerd and its shims take.
func (m *machine) load(ctx context.Context, pid int) tune.Load {
	shims := m.shims()
	pids := append([]int{pid}, shims...)
	before := make([]time.Duration, len(pids))
	for i, p := range pids {
		before[i] = m.cpuTime(p)
	}
	took := m.pause(ctx, window)
	cpu := time.Duration(0)
	for i, p := range pids {
		if now := m.cpuTime(p); before[i] >= 0 && now > before[i] {
			cpu += now - before[i]
		}
	}
	l := tune.Load{Pods: len(shims)}
	if took >= window {
		l.Millicores = int(cpu * 1000 / took)
		l.Measured = took.Round(time.Second / 10)
	}
	return l
}

// pauseFor waits, and returns how long it has. The context may end it.
func pauseFor(ctx context.Context, d time.Duration) time.Duration {
	begun := time.Now()
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return time.Since(begun)
}

// shims returns the shims of the runtime, by what a container cannot forge: its user and its root directory.
func (m *machine) shims() []int {
	socket := normalizePath(socketPath(m.cfg.ContainerRuntimeEndpoint))
	var found []int
	for e, err := range bounded.Entries(m.path("proc")) {
		if err != nil || len(found) == maxShims {
			break
		}
		pid, err := strconv.Atoi(e.Name())
		dir := fmt.Sprintf("proc/%d/", pid)
		if err != nil || !m.hasOurRoot(pid) || !m.isRoots(dir) {
			continue
		}
		args := m.args(dir)
		address, _ := flagOf(args, "address")
		if strings.HasPrefix(filepath.Base(args[0]), "containerd-shim") && normalizePath(address) == socket {
			found = append(found, pid)
		}
	}
	return found
}

// cpuTime returns the CPU time that a process has taken, -1 if it is not known.
func (m *machine) cpuTime(pid int) time.Duration {
	cpu, _, ok := usage.ParseProcess([]byte(m.read(fmt.Sprintf("proc/%d/stat", pid))))
	if !ok {
		return -1
	}
	return cpu
}
