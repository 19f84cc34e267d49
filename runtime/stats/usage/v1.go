package usage

import (
	"bytes"

	"github.com/journalet/journalet/runtime/bounded"
)

func firstWord(data []byte) []byte {
	w, _, _ := bytes.Cut(bytes.TrimSpace(data), []byte{' '})
	return w
}

func lastWord(data []byte) []byte {
	_, w, _ := bytes.Cut(bytes.TrimSpace(data), []byte{' '})
	return w
}

// unlimitedV1 is the smallest value that means "no limit" on cgroup v1: the kernel rounds to pages.
const unlimitedV1 = 1 << 62

// in calls f with the directory of a cgroup in one hierarchy, if it exists.
func (r *Reader) in(p Place, controller string, buf []byte, f func(file)) {
	path := r.dir(p, controller)
	if path == "" {
		return
	}
	dir, err := bounded.OpenDir(path)
	if err != nil {
		return
	}
	defer dir.Close()
	f(file{dir, buf})
}

func (r *Reader) readV1(c *Cgroup, p Place, buf []byte, want Want) {
	limits := want&WantLimits != 0
	if limits {
		c.Limits = &Limits{Memory: Unlimited, Swap: Unlimited}
	}
	r.in(p, cpuacct, buf, func(f file) { c.cpuacct(f, want) })
	if want&WantDetails != 0 {
		r.in(p, cpu, buf, func(f file) { c.cpuV1(f, limits) })
	}
	r.in(p, memory, buf, func(f file) { c.memoryV1(f, want) })
	if want&WantProcesses != 0 {
		r.in(p, pids, buf, func(f file) {
			c.Threads, c.MaxThreads = f.optional("pids.current"), f.bound("pids.max")
			c.processes(f)
		})
	}
	if want&WantDevices != 0 {
		r.in(p, blkio, buf, func(f file) {
			if data, ok := f.read("blkio.throttle.io_service_bytes_recursive"); ok {
				c.blkio(data, true)
			}
			if data, ok := f.read("blkio.throttle.io_serviced_recursive"); ok {
				c.blkio(data, false)
			}
		})
	}
	if want&WantPressure != 0 {
		r.in(p, hybrid, buf, func(f file) { c.Pressure = f.pressure() })
	}
}

func (c *Cgroup) cpuacct(f file, want Want) {
	n, ok := f.number("cpuacct.usage")
	if !ok {
		return
	}
	c.CPU = &CPU{Usage: n}
	if want&WantDetails != 0 {
		c.CPU.User, _ = f.number("cpuacct.usage_user")
		c.CPU.System, _ = f.number("cpuacct.usage_sys")
	}
}

func (c *Cgroup) cpuV1(f file, limits bool) {
	if data, ok := f.read("cpu.stat"); ok && c.CPU != nil {
		fields(data, c.CPU.statV1)
	}
	if !limits {
		return
	}
	// Without a quota the file has -1, which is no number here.
	c.Limits.QuotaMicros, _ = f.number("cpu.cfs_quota_us")
	c.Limits.PeriodMicros, _ = f.number("cpu.cfs_period_us")
	c.Limits.Shares, _ = f.number("cpu.shares")
}

func (c *Cgroup) memoryV1(f file, want Want) {
	if want&WantLimits != 0 {
		c.limitsV1(f, want)
	}
	used, ok := f.number("memory.usage_in_bytes")
	data, ok2 := f.read("memory.stat")
	if !ok || !ok2 {
		return
	}
	m := &Memory{Usage: used}
	fields(data, m.stat)
	m.WorkingSet = used - min(used, m.InactiveFile)
	if want&WantDetails != 0 {
		m.Max, _ = f.number("memory.max_usage_in_bytes")
		m.Kernel, _ = f.number("memory.kmem.usage_in_bytes")
		m.LimitHits, _ = f.number("memory.failcnt")
		if data, ok := f.read("memory.oom_control"); ok {
			fields(data, func(key string, n uint64) {
				if key == "oom_kill" {
					m.OOMKills = n
				}
			})
		}
	}
	c.Memory = m
}

func (c *Cgroup) limitsV1(f file, want Want) {
	if n, ok := f.number("memory.limit_in_bytes"); ok && n < unlimitedV1 {
		c.Limits.Memory = n
	}
	if want&WantSwap != 0 { // this one bounds memory and swap together
		if n, ok := f.number("memory.memsw.limit_in_bytes"); ok && n < unlimitedV1 {
			c.Limits.Swap = n - min(n, c.Limits.Memory)
		}
	}
	if want&WantDetails == 0 {
		return
	}
	if n, ok := f.number("memory.soft_limit_in_bytes"); ok && n < unlimitedV1 {
		c.Limits.Reservation = n
	}
}
