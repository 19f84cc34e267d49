package usage

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
)

// Descriptors is what the processes of one cgroup have open. What was not counted is nil: a figure is whole or missing.
type Descriptors struct {
	// Open counts all file descriptors, Sockets only the sockets among them.
	Open, Sockets *uint64
	// Limit is the soft limit of open files of the first process; Unlimited if it has none.
	Limit *uint64
}

const (
	// maxSteps bounds what one count costs, however much containers have open. A step is a process, an entry of a
	// directory or a link, some 2 µs each.
	maxSteps = 50_000
	// maxLimits bounds /proc/<pid>/limits, which has some 1,400 bytes.
	maxLimits = 4 << 10
)

// count is a count of descriptors under way.
type count struct {
	*Reader
	left int
	out  []Descriptors
}

// opened is a cgroup whose descriptors are counted.
type opened struct {
	at   int // its index in out
	dirs []string
}

// Descriptors counts what the processes of cgroups have open, in their order. What would cost too much is left out,
// beginning with the cgroup that has most, so that no container hides the figures of another one.
func (r *Reader) Descriptors(places []Place) []Descriptors {
	c := &count{Reader: r, left: maxSteps, out: make([]Descriptors, len(places))}
	c.all(places)
	return c.out
}

// all counts the cgroups with the fewest processes first: if the steps run out, the least is lost.
func (c *count) all(places []Place) {
	all := make([]opened, 0, len(places))
	for i, p := range places {
		if pids := c.pids(p); len(pids) > 0 {
			c.out[i].Limit = c.fileLimit(pids[0])
			all = append(all, opened{i, c.descriptorDirs(pids)})
		}
	}
	slices.SortStableFunc(all, func(a, b opened) int { return cmp.Compare(len(a.dirs), len(b.dirs)) })
	for i, o := range all {
		// A share of what is left: before Linux 6.2 a long directory costs as many steps as it has entries.
		rest := c.left - c.left/(len(all)-i)
		c.left -= rest
		c.out[o.at].Open = c.sum(o, c.descriptors)
		c.left += rest
	}
	all = slices.DeleteFunc(all, func(o opened) bool { return c.out[o.at].Open == nil })
	slices.SortStableFunc(all, func(a, b opened) int { return cmp.Compare(*c.out[a.at].Open, *c.out[b.at].Open) })
	for _, o := range all {
		if *c.out[o.at].Open > uint64(c.left) {
			return
		}
		c.out[o.at].Sockets = c.sum(o, c.sockets)
	}
}

// pids returns the processes of a cgroup; none if there are more than are read.
func (r *Reader) pids(p Place) []string {
	if p.path == "" {
		return nil
	}
	dir, err := bounded.OpenDir(r.dir(p, pids))
	if err != nil {
		return nil
	}
	defer dir.Close()
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	data, err := dir.ReadInto("cgroup.procs", *buf)
	if err != nil {
		return nil
	}
	var out []string
	for line := range bytes.Lines(data) {
		if n, ok := number(line); ok && n > 0 { // 0 is a process of another PID namespace
			out = append(out, strconv.FormatUint(n, 10))
		}
	}
	return out
}

func (r *Reader) descriptorDirs(pids []string) []string {
	dirs := make([]string, len(pids))
	for i, pid := range pids {
		dirs[i] = filepath.Join(r.proc, pid, "fd")
	}
	return dirs
}

// sum adds up what counts of each process; nil if one of them cannot be counted. A process that has ended has nothing.
func (c *count) sum(o opened, countIn func(dir string) (uint64, error)) *uint64 {
	var all uint64
	for _, dir := range o.dirs {
		n, err := countIn(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return nil
		}
		all += n
	}
	return &all
}

var errTooMany = errors.New("too many descriptors to count")

// step accounts for n steps, or fails without taking one.
func (c *count) step(n int) error {
	if n > c.left {
		return errTooMany
	}
	c.left -= n
	return nil
}

// descriptors counts the descriptors of a process. Since Linux 6.2 that is the size of their directory.
func (c *count) descriptors(dir string) (uint64, error) {
	if err := c.step(1); err != nil {
		return 0, err
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, err
	}
	if st.Size > 0 && c.sized {
		return uint64(st.Size), nil
	}
	n := uint64(0)
	for _, err := range bounded.Entries(dir) {
		if err != nil {
			return 0, err
		}
		if err := c.step(1); err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// sockets counts the sockets of a process.
func (c *count) sockets(dir string) (uint64, error) {
	const socket = "socket:"
	n := uint64(0)
	for e, err := range bounded.Entries(dir) {
		if err != nil {
			return 0, err
		}
		if err := c.step(1); err != nil {
			return 0, err
		}
		var target [len(socket)]byte // the rest is cut; a path begins with a slash
		got, err := unix.Readlink(filepath.Join(dir, e.Name()), target[:])
		if err == nil && string(target[:got]) == socket {
			n++
		}
	}
	return n, nil
}

// fileLimit returns the soft limit of open files of a process.
func (r *Reader) fileLimit(pid string) *uint64 {
	data, err := bounded.ReadFile(filepath.Join(r.proc, pid, "limits"), maxLimits)
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(data) {
		rest, ok := bytes.CutPrefix(line, []byte("Max open files"))
		if !ok {
			continue
		}
		n, ok := number(firstWord(rest))
		if string(firstWord(rest)) == "unlimited" {
			n, ok = Unlimited, true
		}
		if ok {
			return &n
		}
	}
	return nil
}
