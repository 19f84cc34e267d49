package usage

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
)

// buffers hold one file of a cgroup each. The longest is a list of processes, or io.stat with many devices.
var buffers = sync.Pool{New: func() any { b := make([]byte, maxProcesses); return &b }}

// file is an open cgroup directory with a buffer, and the first error that matters.
type file struct {
	dir bounded.Dir
	buf []byte
}

// read returns the content of one file; false if the kernel or this cgroup does not have it, or it does not fit.
func (f file) read(name string) ([]byte, bool) {
	data, err := f.dir.ReadInto(name, f.buf)
	return data, err == nil
}

func (f file) number(name string) (uint64, bool) {
	data, ok := f.read(name)
	if !ok {
		return 0, false
	}
	return number(data)
}

// optional returns a pointer to a number that is there and limited.
func (f file) optional(name string) *uint64 {
	if n, ok := f.number(name); ok && n != Unlimited {
		return &n
	}
	return nil
}

// bound is optional for a limit: it returns 0 where the cgroup has no limit.
func (f file) bound(name string) *uint64 {
	n, ok := f.number(name)
	if !ok {
		return nil
	}
	if n == Unlimited {
		n = 0
	}
	return &n
}

// Read reads a cgroup. An error means that nothing could be read; Gone reports whether the cgroup has ended.
func (r *Reader) Read(p Place, want Want) (*Cgroup, error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	c := &Cgroup{At: time.Now()}
	if p.path == "" {
		return nil, errNoCgroup
	}
	if r.unified {
		dir, err := bounded.OpenDir(r.dir(p, ""))
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		c.readV2(file{dir, *buf}, want)
	} else {
		r.readV1(c, p, *buf, want)
	}
	if c.CPU == nil && c.Memory == nil {
		return nil, unix.ENODEV
	}
	return c, nil
}

// CPU reads only the CPU time of a cgroup, in nanoseconds, and when it was.
func (r *Reader) CPU(p Place) (uint64, time.Time, error) {
	controller, name := cpuacct, "cpuacct.usage"
	if r.unified {
		controller, name = "", "cpu.stat"
	}
	dir, err := bounded.OpenDir(r.dir(p, controller))
	if err != nil {
		return 0, time.Time{}, err
	}
	defer dir.Close()
	var buf [4 << 10]byte
	at := time.Now()
	data, err := dir.ReadInto(name, buf[:])
	if err != nil {
		return 0, at, err
	}
	if !r.unified {
		n, ok := number(data)
		if !ok {
			return 0, at, errors.New("cpuacct.usage is not a number")
		}
		return n, at, nil
	}
	var c CPU
	fields(data, c.statV2)
	return c.Usage, at, nil
}

func (c *Cgroup) readV2(f file, want Want) {
	if data, ok := f.read("cpu.stat"); ok {
		c.CPU = new(CPU)
		fields(data, c.CPU.statV2)
	}
	c.memoryV2(f, want)
	if want&WantPressure != 0 {
		c.Pressure = f.pressure()
	}
	if want&WantDevices != 0 {
		if data, ok := f.read("io.stat"); ok {
			c.ioStat(data)
		}
	}
	if want&WantProcesses != 0 {
		c.Threads, c.MaxThreads = f.optional("pids.current"), f.bound("pids.max")
		c.processes(f)
	}
	if want&WantLimits != 0 {
		c.limitsV2(f, want)
	}
}

func (f file) pressure() Pressure {
	return Pressure{CPU: f.stall("cpu.pressure"), Memory: f.stall("memory.pressure"), IO: f.stall("io.pressure")}
}

func (f file) stall(name string) *Stall {
	data, ok := f.read(name)
	if !ok {
		return nil
	}
	return ParsePressure(data)
}

// processes counts the processes of this cgroup alone. A container has all its processes in one cgroup, unless that
// has cgroups below.
func (c *Cgroup) processes(f file) {
	data, err := f.dir.ReadInto("cgroup.procs", f.buf)
	if err != nil && !errors.Is(err, bounded.ErrTooLarge) {
		return
	}
	n := lines(data)
	c.Processes = &n
}

func (c *Cgroup) memoryV2(f file, want Want) {
	used, ok := f.number("memory.current")
	data, ok2 := f.read("memory.stat")
	if !ok || !ok2 {
		return
	}
	m := &Memory{Usage: used}
	fields(data, m.stat)
	m.WorkingSet = used - min(used, m.InactiveFile)
	if want&WantSwap != 0 {
		m.Swap, _ = f.number("memory.swap.current")
	}
	if want&WantDetails != 0 {
		m.Max, _ = f.number("memory.peak")
		if data, ok := f.read("memory.events"); ok {
			m.Events = new(MemoryEvents)
			fields(data, func(key string, n uint64) {
				switch key {
				case "high":
					m.Events.High = n
				case "max":
					m.LimitHits, m.Events.Max = n, n
				case "oom_kill":
					m.OOMKills = n
				}
			})
		}
	}
	c.Memory = m
}

func (c *Cgroup) limitsV2(f file, want Want) {
	l := &Limits{Memory: Unlimited, Swap: Unlimited}
	c.Limits = l
	if n, ok := f.number("memory.max"); ok {
		l.Memory = n
	}
	if want&WantSwap != 0 {
		if n, ok := f.number("memory.swap.max"); ok {
			l.Swap = n
		}
	}
	if want&WantDetails == 0 {
		return
	}
	if n, ok := f.number("memory.low"); ok {
		l.Reservation = n
	}
	if data, ok := f.read("cpu.max"); ok {
		for i, word := range [2][]byte{firstWord(data), lastWord(data)} {
			switch n, ok := number(word); {
			case !ok || n == Unlimited:
			case i == 0:
				l.QuotaMicros = n
			default:
				l.PeriodMicros = n
			}
		}
	}
	if n, ok := f.number("cpu.weight"); ok {
		l.Shares = sharesOf(n)
	}
}

// Memory reads only what a cgroup uses, file pages included, and its limit, in bytes; Unlimited without one.
func (r *Reader) Memory(p Place) (used, limit uint64, err error) {
	controller, current, most := memory, "memory.usage_in_bytes", "memory.limit_in_bytes"
	if r.unified {
		controller, current, most = "", "memory.current", "memory.max"
	}
	dir, err := bounded.OpenDir(r.dir(p, controller))
	if err != nil {
		return 0, 0, err
	}
	defer dir.Close()
	var buf [64]byte
	f := file{dir, buf[:]}
	used, ok := f.number(current)
	limit, limited := f.number(most)
	if !ok || !limited {
		return 0, 0, errNoCgroup
	}
	return used, limit, nil
}
