package usage

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
)

// Controllers of cgroup v1 that are read.
const (
	cpu     = "cpu"
	cpuacct = "cpuacct"
	memory  = "memory"
	pids    = "pids"
	blkio   = "blkio"
	// hybrid is the hierarchy of cgroup v2 beside the hierarchies of v1. It has no controllers. Runtimes put containers
	// there, too, so it has their pressure.
	hybrid = "unified"
)

var controllers = []string{cpu, cpuacct, memory, pids, blkio, hybrid}

// Reader finds and reads cgroups. It keeps nothing but where they are mounted.
type Reader struct {
	unified bool
	// mounts are the mount points by controller; on v2 there is one, with the key "".
	mounts map[string]string
	proc   string
	// sized means that proc is the kernel's, where the size of a directory of descriptors is their number, or 0.
	sized bool
}

// NewReader returns a reader of the machine below root, which is "/" except in tests. unified means that it has cgroup
// v2 alone.
func NewReader(root string, unified bool) *Reader {
	base := filepath.Join(root, "sys/fs/cgroup")
	r := &Reader{unified: unified, mounts: map[string]string{"": base}, proc: filepath.Join(root, "proc")}
	var proc unix.Statfs_t
	r.sized = unix.Statfs(r.proc, &proc) == nil && proc.Type == unix.PROC_SUPER_MAGIC
	if unified {
		return r
	}
	delete(r.mounts, "")
	for _, c := range controllers {
		for _, dir := range []string{c, "cpu,cpuacct"} {
			at := filepath.Join(base, dir)
			if dir != c && c != cpu && c != cpuacct {
				continue
			}
			var st unix.Stat_t
			if unix.Stat(at, &st) == nil && r.mounts[c] == "" {
				r.mounts[c] = at
			}
		}
	}
	return r
}

// Place is where a cgroup is, below the mount points. The zero value is no cgroup.
type Place struct {
	path string
	// own are paths of controllers that differ from path; v1 only.
	own map[string]string
}

// At returns the place with one path in all hierarchies.
func At(path string) Place { return Place{path: filepath.Join("/", path)} }

// Path returns the path, in the hierarchy of memory on cgroup v1; "" of no cgroup.
func (p Place) Path() string { return p.in(memory) }

// Root reports whether it is the topmost cgroup, whose figures are the node's, of CPU or of memory.
func (p Place) Root() bool { return p.in(memory) == "/" || p.in(cpuacct) == "/" }

func (p Place) in(controller string) string {
	if own, ok := p.own[controller]; ok {
		return own
	}
	return p.path
}

// Exists reports whether the cgroup exists, where memory is accounted.
func (r *Reader) Exists(p Place) bool {
	var st unix.Stat_t
	return p.path != "" && unix.Stat(r.dir(p, memory), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

func (r *Reader) dir(p Place, controller string) string {
	if r.unified {
		return r.mounts[""] + p.path
	}
	mount := r.mounts[controller]
	if mount == "" {
		return ""
	}
	return mount + p.in(controller)
}

const (
	// maxProcFile bounds files of /proc: /proc/<pid>/cgroup has a line for each hierarchy.
	maxProcFile = 16 << 10
)

var errNoCgroup = errors.New("the process has no cgroup that this process can name")

// OfProcess returns the cgroup of a process.
func (r *Reader) OfProcess(pid int) (Place, error) {
	data, err := bounded.ReadFile(filepath.Join(r.proc, strconv.Itoa(pid), "cgroup"), maxProcFile)
	if err != nil {
		return Place{}, err
	}
	p := Place{own: map[string]string{}}
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 || !filepath.IsAbs(parts[2]) || strings.Contains(parts[2], "/..") {
			continue // a path with .. is outside of the cgroup namespace
		}
		if r.unified {
			if parts[0] == "0" && parts[1] == "" {
				return At(parts[2]), nil
			}
			continue
		}
		if parts[1] == "" {
			p.own[hybrid] = parts[2]
			continue
		}
		for name := range strings.SplitSeq(parts[1], ",") {
			if r.mounts[name] != "" {
				p.own[name], p.path = parts[2], parts[2]
			}
		}
	}
	if p.path == "" {
		return Place{}, errNoCgroup
	}
	return p, nil
}

// maxProcesses bounds what is read of a list of processes, in bytes: some thousand processes.
const maxProcesses = 64 << 10

// Process returns the first process of a cgroup that the kernel lists; 0 if the cgroup has no process.
func (r *Reader) Process(p Place) int {
	dir, err := bounded.OpenDir(r.dir(p, memory))
	if err != nil {
		return 0
	}
	defer dir.Close()
	var buf [256]byte
	data, err := dir.ReadInto("cgroup.procs", buf[:])
	if err != nil && !errors.Is(err, bounded.ErrTooLarge) {
		return 0
	}
	first, _, _ := bytes.Cut(data, []byte{'\n'})
	n, _ := number(first)
	return int(min(n, 1<<22)) // the kernel's largest PID
}

// Gone reports whether an error of Read means that the cgroup does not exist any more.
func Gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }
