package stats

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/stats/usage"
)

// nodeReading is what the whole node uses.
type nodeReading struct {
	// root is the topmost cgroup; only its CPU time counts. agent and runtime are the cgroups of these processes,
	// allPods is the cgroup above all pods.
	root, agent, runtime, allPods cgroupReading
	// agentProcess and runtimeProcess stand in for a cgroup that is the node's own.
	agentProcess, runtimeProcess *process

	at        time.Time
	memory    meminfo
	faults    faults
	pressure  usage.Pressure
	network   []Interface
	networkAt time.Time
	rlimit    rlimit
	booted    time.Time
}

// process is what one process uses.
type process struct {
	at       time.Time
	cpuNanos uint64
	rssBytes uint64
}

type meminfo struct {
	ok                                                   bool
	total, free, anon, inactiveFile, swapTotal, swapFree uint64
	cached, buffers, swapCached, hugePages               uint64
}

type faults struct{ minor, major uint64 }

type rlimit struct{ maxPID, running int64 }

// cgroups returns the cgroups of the node, by their keys in rates.
func (n *nodeReading) cgroups() map[string]*cgroupReading {
	return map[string]*cgroupReading{
		nodeKey: &n.root, agentKey: &n.agent, runtimeKey: &n.runtime, allPodsKey: &n.allPods,
	}
}

// findSystem finds the cgroups of the node. A process in the topmost cgroup is measured by itself.
func (s *Stats) findSystem(ctx context.Context, n *nodeReading) {
	n.root.place = usage.At(rootCgroup)
	n.agent.place, n.agentProcess = s.system(os.Getpid())
	if s.opts.RuntimePID != nil {
		wait, cancel := context.WithTimeout(ctx, maxPlaceWait)
		pid, _, _ := s.server.get(wait, s.opts.Now())
		cancel()
		n.runtime.place, n.runtimeProcess = s.system(pid)
	}
	if s.opts.PodsCgroup != nil {
		if at := s.opts.PodsCgroup(); at != "" && s.opts.Reader != nil && s.opts.Reader.Exists(usage.At(at)) {
			n.allPods.place = usage.At(at)
		}
	}
}

func (s *Stats) system(pid int) (usage.Place, *process) {
	if pid <= 0 {
		return usage.Place{}, nil
	}
	if s.opts.Reader != nil {
		if p, err := s.opts.Reader.OfProcess(pid); err == nil && !p.Root() && s.opts.Reader.Exists(p) {
			return p, nil
		}
	}
	return usage.Place{}, s.process(pid)
}

// process reads what a process uses.
func (s *Stats) process(pid int) *process {
	dir, err := bounded.OpenDir(filepath.Join(s.opts.Proc, strconv.Itoa(pid)))
	if err != nil {
		return nil
	}
	defer dir.Close()
	p := &process{at: s.opts.Now()}
	data, err := dir.ReadInto("stat", make([]byte, maxStatBytes))
	if err != nil {
		return nil
	}
	cpu, pages, ok := usage.ParseProcess(data)
	if !ok {
		return nil
	}
	p.cpuNanos = uint64(cpu)
	p.rssBytes = pages * uint64(os.Getpagesize())
	return p
}

const (
	maxStatBytes = 4 << 10
	// maxMemBytes bounds /proc/meminfo and the lines of /proc/vmstat.
	maxMemBytes = 32 << 10
)

// nodeMemory reads the node's memory, and more of it in a scope with cgroups. It reports whether the node has swap.
func (s *Stats) nodeMemory(r *reading, scope Scope) bool {
	n := &r.node
	dir, err := bounded.OpenDir(s.opts.Proc)
	if err != nil {
		return false
	}
	defer dir.Close()
	n.at = s.opts.Now()
	buf := make([]byte, maxMemBytes)
	if data, err := dir.ReadInto("meminfo", buf); err == nil {
		n.memory.parse(data)
	}
	if scope.has(Cgroups) {
		if data, err := dir.ReadInto("vmstat", buf); err == nil {
			n.faults.parse(data)
		}
		n.rlimit = readRlimit(dir, buf)
		n.pressure = s.nodePressure(buf)
		n.booted = booted(dir, buf)
	}
	if scope.has(Network) {
		n.network, n.networkAt = interfaces(filepath.Join(s.opts.Proc, "self")), s.opts.Now()
	}
	return n.memory.swapTotal > 0
}

const kibi = 1 << 10

func (m *meminfo) parse(data []byte) {
	for line := range bytes.Lines(data) {
		key, rest, _ := bytes.Cut(line, []byte(":"))
		number, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
		n, err := strconv.ParseUint(string(number), 10, 64)
		if err != nil || n > ^uint64(0)/kibi {
			continue
		}
		switch string(key) {
		case "MemTotal":
			m.total, m.ok = n*kibi, true
		case "MemFree":
			m.free = n * kibi
		case "AnonPages":
			m.anon = n * kibi
		case "Inactive(file)":
			m.inactiveFile = n * kibi
		case "Cached":
			m.cached = n * kibi
		case "Buffers":
			m.buffers = n * kibi
		case "SwapCached":
			m.swapCached = n * kibi
		case "Hugetlb":
			m.hugePages = n * kibi
		case "SwapTotal":
			m.swapTotal = n * kibi
		case "SwapFree":
			m.swapFree = n * kibi
		}
	}
}

func (f *faults) parse(data []byte) {
	for line := range bytes.Lines(data) {
		key, value, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		switch key {
		case "pgfault":
			f.minor, _ = strconv.ParseUint(value, 10, 64)
		case "pgmajfault":
			f.major, _ = strconv.ParseUint(value, 10, 64)
		}
	}
}

// readRlimit reads how many tasks there may be, and how many there are.
func readRlimit(dir bounded.Dir, buf []byte) rlimit {
	var r rlimit
	for _, name := range []string{"sys/kernel/pid_max", "sys/kernel/threads-max"} {
		data, err := dir.ReadInto(name, buf)
		if n := tasks(string(data)); err == nil && n > 0 && (r.maxPID == 0 || n < r.maxPID) {
			r.maxPID = n
		}
	}
	// The fourth word is "running/all".
	if data, err := dir.ReadInto("loadavg", buf); err == nil {
		if words := strings.Fields(string(data)); len(words) > 3 {
			_, all, _ := strings.Cut(words[3], "/")
			r.running = tasks(all)
		}
	}
	return r
}

// tasks parses a number of tasks; a kernel has at most 2^22. It returns 0 if the text is not a number.
func tasks(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// booted returns when the kernel started; zero if it does not say.
func booted(dir bounded.Dir, buf []byte) time.Time {
	data, err := dir.ReadInto("uptime", buf)
	if err != nil {
		return time.Time{}
	}
	first, _, _ := strings.Cut(string(data), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(seconds * float64(time.Second))).Truncate(time.Second)
}

func (s *Stats) nodePressure(buf []byte) usage.Pressure {
	dir, err := bounded.OpenDir(filepath.Join(s.opts.Proc, "pressure"))
	if err != nil {
		return usage.Pressure{}
	}
	defer dir.Close()
	stall := func(name string) *usage.Stall {
		data, err := dir.ReadInto(name, buf)
		if err != nil {
			return nil
		}
		return usage.ParsePressure(data)
	}
	return usage.Pressure{CPU: stall("cpu"), Memory: stall("memory"), IO: stall("io")}
}
