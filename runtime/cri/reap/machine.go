package reap

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// ticksPerSecond is what /proc/PID/stat counts in, on every architecture.
	ticksPerSecond = 100
	// maxProcsBytes bounds the list of a cgroup's processes: half a million PIDs of 8 bytes.
	maxProcsBytes = 4 << 20
	// maxLineBytes bounds what is read of other files of the kernel.
	maxLineBytes = 4 << 10
	// maxGroups and maxDepth bound a walk over the cgroups of the machine: a pod's container is the 5th level.
	maxGroups = 1 << 16
	maxDepth  = 16
)

// Machine is the Table of the machine that the agent runs on.
type Machine struct {
	// mounts are the mount points of the hierarchies in order of preference, by their name in /proc/PID/cgroup: the
	// unified hierarchy, the hierarchy of a controller that bounds only numbers (pids), and systemd's, which has no
	// controller.
	mounts func() []hierarchy
}

type hierarchy struct{ controller, dir string }

// NewMachine returns the table of this machine.
func NewMachine() *Machine { return &Machine{sync.OnceValue(hierarchies)} }

// NewMachineOf returns a table that uses one hierarchy only, by its name in /proc/PID/cgroup. It is for tests.
func NewMachineOf(controller string) *Machine {
	return &Machine{func() []hierarchy {
		return slices.DeleteFunc(hierarchies(), func(h hierarchy) bool { return h.controller != controller })
	}}
}

// hierarchies finds the hierarchies where a session can have a cgroup without a change of its container's resources.
func hierarchies() []hierarchy {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil
	}
	var out []hierarchy
	for _, want := range []string{"", "pids", "name=systemd"} {
		for _, m := range mounts {
			if m.Root == "/" && (want == "" && m.FSType == "cgroup2" ||
				want != "" && m.FSType == "cgroup" && slices.Contains(strings.Split(m.VFSOptions, ","), want)) {
				out = append(out, hierarchy{want, m.Mountpoint})
				break
			}
		}
	}
	return out
}

// Now reads the clock that processes are stamped with.
func (*Machine) Now() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return uint64(t.Nano()) / (1e9 / ticksPerSecond)
}

func procFile(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// proc is /proc, held open: a file of it takes three system calls.
var proc = sync.OnceValues(func() (bounded.Dir, error) { return bounded.OpenDir("/proc") })

func readProc(pid int, name string, buf []byte) ([]byte, error) {
	dir, err := proc()
	if err != nil {
		return nil, err
	}
	return dir.ReadInto(strconv.Itoa(pid)+"/"+name, buf)
}

// Process reads /proc/PID/stat.
func (*Machine) Process(pid int) (Process, error) {
	var buf [maxLineBytes]byte
	data, err := readProc(pid, "stat", buf[:])
	if err != nil {
		return Process{}, err
	}
	return parseStat(pid, data)
}

// parseStat parses the file stat of a process, as proc(5) has it. The name may have any byte: fields count behind it.
func parseStat(pid int, data []byte) (Process, error) {
	const state, parent, session, start, fields = 0, 1, 3, 19, 20
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(f) < fields {
		return Process{}, fmt.Errorf("the kernel reports only %d fields of process %d", len(f), pid)
	}
	p := Process{PID: pid, Dead: f[state] == "Z" || f[state] == "X"}
	var err1, err2, err3 error
	p.Parent, err1 = strconv.Atoi(f[parent])
	p.Session, err2 = strconv.Atoi(f[session])
	p.Start, err3 = strconv.ParseUint(f[start], 10, 64)
	return p, errors.Join(err1, err2, err3)
}

// Namespace reads a link of /proc.
func (*Machine) Namespace(pid int) (string, error) { return os.Readlink(procFile(pid, "ns/pid")) }

// Command reads the first page of arguments.
func (*Machine) Command(pid int) ([]string, error) {
	var buf [maxLineBytes]byte
	data, err := readProc(pid, "cmdline", buf[:])
	if err != nil && !errors.Is(err, bounded.ErrTooLarge) {
		return nil, err
	}
	return strings.Split(string(bytes.TrimSuffix(data, []byte{0})), "\x00"), nil
}

// Group reads a file of /proc. With cgroup v1 and a unified hierarchy beside it, the runtime may have put the container
// into both; the unified one can kill all in a cgroup at once.
func (m *Machine) Group(pid int) (string, error) {
	var buf [maxLineBytes]byte
	data, err := readProc(pid, "cgroup", buf[:])
	if err != nil {
		return "", err
	}
	for _, h := range m.mounts() {
		for line := range strings.Lines(string(data)) {
			parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
			if len(parts) < 3 || !slices.Contains(strings.Split(parts[1], ","), h.controller) {
				continue
			}
			// A path outside the agent's own cgroup namespace begins with /.. .
			if at := parts[2]; at != "/" && !strings.Contains(at+"/", "/../") && path.IsAbs(at) {
				return filepath.Join(h.dir, at), nil
			}
		}
	}
	return "", fmt.Errorf("process %d is in no cgroup of its own: %w", pid, fs.ErrNotExist)
}

// Members reads cgroup.procs.
func (*Machine) Members(dir string, below bool) ([]int, error) {
	data, err := readProcs(dir)
	if err != nil {
		return nil, err
	}
	var out []int
	for line := range bytes.Lines(data) {
		// 0 is a process outside the agent's own PID namespace.
		if pid, err := strconv.Atoi(string(bytes.TrimSpace(line))); err == nil && pid > 0 {
			out = append(out, pid)
		}
	}
	if below {
		eachGroup(dir, func(sub string) bool {
			more, err := (*Machine)(nil).Members(sub, false)
			if err == nil { // otherwise it was removed
				out = append(out, more...)
			}
			return true
		})
	}
	return out, nil
}

const procs = "cgroup.procs"

// readProcs reads a short list without the cost of a long one.
func readProcs(dir string) ([]byte, error) {
	d, err := bounded.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	data, err := d.ReadInto(procs, make([]byte, maxLineBytes))
	if errors.Is(err, bounded.ErrTooLarge) {
		data, err = d.ReadInto(procs, make([]byte, maxProcsBytes))
	}
	return data, err
}

// eachGroup calls f for the cgroups below dir, and descends into a cgroup if f returns true for it.
func eachGroup(dir string, f func(dir string) bool) {
	left := maxGroups
	var walk func(dir string, depth int)
	walk = func(dir string, depth int) {
		for e, err := range bounded.Entries(dir) {
			if err != nil {
				return // it was removed
			}
			if !e.IsDir() || depth >= maxDepth || left <= 0 {
				continue
			}
			left--
			if sub := filepath.Join(dir, e.Name()); f(sub) {
				walk(sub, depth+1)
			}
		}
	}
	walk(dir, 0)
}

// Groups walks over all hierarchies.
func (m *Machine) Groups(prefix string) (out []string) {
	for _, h := range m.mounts() {
		eachGroup(h.dir, func(dir string) bool {
			if strings.HasPrefix(filepath.Base(dir), prefix) {
				out = append(out, dir)
				return false
			}
			return true
		})
	}
	return out
}

// Stop sends SIGSTOP.
func (m *Machine) Stop(p Process) error { return m.signal(p, unix.SIGSTOP) }

// Kill sends SIGKILL.
func (m *Machine) Kill(p Process) error { return m.signal(p, unix.SIGKILL) }

// signal opens a descriptor of the process before it checks the process's identity, so its PID cannot be reused in
// between.
func (m *Machine) signal(p Process, s unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	now, err := m.Process(p.PID)
	switch {
	case err != nil:
		return err
	case !now.same(p):
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, s, nil, 0)
}

// Create creates a directory.
func (*Machine) Create(dir string) error { return os.Mkdir(dir, 0o755) } //nolint:gosec // as the kernel's own

// Enter writes cgroup.procs.
func (*Machine) Enter(dir string, pid int) error {
	return write(filepath.Join(dir, procs), strconv.Itoa(pid))
}

// KillGroup writes cgroup.kill (Linux 5.14, unified only), or kills each process. The second does not end what
// forks faster than it is read: callers repeat it.
func (m *Machine) KillGroup(dir string) error {
	err := write(filepath.Join(dir, "cgroup.kill"), "1")
	if err == nil {
		return nil
	}
	pids, err := m.Members(dir, true)
	for _, pid := range pids {
		p, perr := m.Process(pid)
		at, gerr := m.Group(pid)
		if perr != nil || gerr != nil || at != dir && !strings.HasPrefix(at, dir+"/") {
			continue // it has ended, and its number is another's
		}
		if kerr := m.Kill(p); kerr != nil && !errors.Is(kerr, unix.ESRCH) {
			err = errors.Join(err, kerr)
		}
	}
	return err
}

// Remove removes an empty cgroup and empty ones below it.
func (*Machine) Remove(dir string) error {
	var all []string
	eachGroup(dir, func(sub string) bool { all = append(all, sub); return true })
	for _, sub := range slices.Backward(all) {
		_ = unix.Rmdir(sub) // then its parent's fails
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove the cgroup %s: %w", dir, err)
	}
	return nil
}

// write writes a file that exists. On cgroup files O_CREAT and O_TRUNC would be errors or meaningless.
func write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
