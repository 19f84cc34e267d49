package usage

import (
	"bytes"
	"math"
	"strconv"
)

// Everything here works on bytes without allocating: a node has hundreds of cgroups with ten files each.

// number parses a decimal number. The text max is Unlimited; anything else is not ok.
func number(text []byte) (uint64, bool) {
	text = bytes.TrimSpace(text)
	if string(text) == "max" {
		return Unlimited, true
	}
	if len(text) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range text {
		d := uint64(c - '0')
		if c < '0' || c > '9' || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = 10*n + d
	}
	return n, true
}

// fields calls f with the words and the numbers of lines such as "anon 123". It leaves out other lines.
func fields(data []byte, f func(key string, n uint64)) {
	for len(data) > 0 {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte{'\n'})
		key, value, ok := bytes.Cut(line, []byte{' '})
		if !ok {
			continue
		}
		if n, ok := number(value); ok {
			f(keyOf(key), n)
		}
	}
}

// keyOf returns the key as a string, without an allocation if the key is known.
func keyOf(key []byte) string { return known[string(key)] }

var known = func() map[string]string {
	m := map[string]string{}
	for _, k := range []string{
		"usage_usec", "user_usec", "system_usec", "nr_periods", "nr_throttled", "throttled_usec", "throttled_time",
		"nr_bursts", "burst_usec", "burst_time", "user", "system",
		"anon", "file", "file_mapped", "kernel", "active_file", "inactive_file", "pgfault", "pgmajfault",
		"total_rss", "total_cache", "total_mapped_file", "total_swap", "total_active_file", "total_inactive_file",
		"total_pgfault", "total_pgmajfault", "high", "max", "oom_kill",
		"file_dirty", "file_writeback", "total_dirty", "total_writeback", "pgscan", "pgsteal",
		"workingset_refault_file", "workingset_refault_anon",
		"total_workingset_refault_file", "total_workingset_refault_anon",
	} {
		m[k] = k
	}
	return m
}()

const nanosPerMicro = 1000

// statV2 adds a line of cpu.stat of cgroup v2.
func (c *CPU) statV2(key string, n uint64) {
	switch key {
	case "usage_usec":
		c.Usage = n * nanosPerMicro
	case "user_usec":
		c.User = n * nanosPerMicro
	case "system_usec":
		c.System = n * nanosPerMicro
	case "throttled_usec":
		c.ThrottledTime = n * nanosPerMicro
	case "burst_usec":
		c.BurstTime = n * nanosPerMicro
	default:
		c.quota(key, n)
	}
}

// statV1 adds a line of cpu.stat of cgroup v1, which has nanoseconds.
func (c *CPU) statV1(key string, n uint64) {
	switch key {
	case "throttled_time":
		c.ThrottledTime = n
	case "burst_time":
		c.BurstTime = n
	default:
		c.quota(key, n)
	}
}

func (c *CPU) quota(key string, n uint64) {
	switch key {
	case "nr_periods":
		c.Periods = n
	case "nr_throttled":
		c.Throttled = n
	case "nr_bursts":
		c.Bursts = n
	}
}

// stat adds a line of memory.stat. The names of v1 are the ones whose values include the cgroups below.
func (m *Memory) stat(key string, n uint64) {
	switch key {
	case "anon", "total_rss":
		m.RSS = n
	case "file", "total_cache":
		m.Cache = n
	case "file_mapped", "total_mapped_file":
		m.Mapped = n
	case "kernel":
		m.Kernel = n
	case "active_file", "total_active_file":
		m.ActiveFile = n
	case "inactive_file", "total_inactive_file":
		m.InactiveFile = n
	case "pgfault": // on v1 total_pgfault is behind it
		m.OwnFaults, m.Faults = n, n
	case "total_pgfault":
		m.Faults = n
	case "pgmajfault":
		m.OwnMajorFaults, m.MajorFaults = n, n
	case "total_pgmajfault":
		m.MajorFaults = n
	case "total_swap":
		m.Swap = n
	default:
		m.reclaim(key, n)
	}
}

// reclaim adds a line of memory.stat about pages that were written back or reclaimed. On v1 a total_ is behind the
// cgroup's own.
func (m *Memory) reclaim(key string, n uint64) {
	switch key {
	case "file_dirty", "total_dirty":
		m.Dirty = Known{n, true}
	case "file_writeback", "total_writeback":
		m.Writeback = Known{n, true}
	case "pgscan":
		m.Scanned = Known{n, true}
	case "pgsteal":
		m.Stolen = Known{n, true}
	case "workingset_refault_file", "total_workingset_refault_file":
		m.RefaultedFile = Known{n, true}
	case "workingset_refault_anon", "total_workingset_refault_anon":
		m.RefaultedAnon = Known{n, true}
	}
}

// ParsePressure parses a file such as cpu.pressure. It returns nil if there is no pressure in it.
func ParsePressure(data []byte) *Stall {
	var s Stall
	found := false
	for len(data) > 0 {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte{'\n'})
		kind, rest, _ := bytes.Cut(line, []byte{' '})
		into := &s.Some
		switch string(kind) {
		case "some":
		case "full":
			into = &s.Full
		default:
			continue
		}
		found = true
		for word := range bytes.FieldsSeq(rest) {
			into.set(word)
		}
	}
	if !found {
		return nil
	}
	return &s
}

func (s *Share) set(word []byte) {
	key, value, _ := bytes.Cut(word, []byte{'='})
	if string(key) == "total" {
		s.Total, _ = number(value)
		return
	}
	percent, err := strconv.ParseFloat(string(value), 64)
	if err != nil || math.IsNaN(percent) || math.IsInf(percent, 0) {
		return
	}
	switch string(key) {
	case "avg10":
		s.Avg10 = percent
	case "avg60":
		s.Avg60 = percent
	case "avg300":
		s.Avg300 = percent
	}
}

// maxDevices bounds the block devices of one cgroup.
const maxDevices = 64

// device returns the entry for a device such as "8:0" and adds it if it is new. It returns nil if the name is not a
// device number or the table is full.
func (c *Cgroup) device(id []byte) *Device {
	major, minor, ok := bytes.Cut(id, []byte{':'})
	a, ok1 := number(major)
	b, ok2 := number(minor)
	if !ok || !ok1 || !ok2 {
		return nil
	}
	for i := range c.Devices {
		if d := &c.Devices[i]; d.Major == a && d.Minor == b {
			return d
		}
	}
	if len(c.Devices) == maxDevices {
		return nil
	}
	c.Devices = append(c.Devices, Device{Major: a, Minor: b})
	return &c.Devices[len(c.Devices)-1]
}

// ioStat adds io.stat of cgroup v2: lines such as "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0", with
// cost.usage=5 and others behind them where io.cost is on.
func (c *Cgroup) ioStat(data []byte) {
	for len(data) > 0 {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte{'\n'})
		id, rest, _ := bytes.Cut(line, []byte{' '})
		d := c.device(id)
		if d == nil {
			continue
		}
		for word := range bytes.FieldsSeq(rest) {
			key, value, _ := bytes.Cut(word, []byte{'='})
			n, ok := number(value)
			switch string(key) {
			case "cost.usage":
				d.Cost.Usage = Known{n, ok}
			case "cost.wait":
				d.Cost.Wait = Known{n, ok}
			case "cost.indebt":
				d.Cost.Indebt = Known{n, ok}
			case "cost.indelay":
				d.Cost.Indelay = Known{n, ok}
			case "rbytes":
				d.ReadBytes = n
			case "wbytes":
				d.WrittenBytes = n
			case "rios":
				d.Reads = n
			case "wios":
				d.Writes = n
			}
		}
	}
}

// blkio adds a file of cgroup v1 with lines such as "8:0 Read 123": of bytes, or of operations.
func (c *Cgroup) blkio(data []byte, bytesOf bool) {
	for len(data) > 0 {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte{'\n'})
		id, rest, _ := bytes.Cut(line, []byte{' '})
		kind, value, _ := bytes.Cut(rest, []byte{' '})
		n, ok := number(value)
		d := c.device(id)
		if d == nil || !ok {
			continue
		}
		switch {
		case bytesOf && string(kind) == "Read":
			d.ReadBytes = n
		case bytesOf && string(kind) == "Write":
			d.WrittenBytes = n
		case string(kind) == "Read":
			d.Reads = n
		case string(kind) == "Write":
			d.Writes = n
		}
	}
}

// sharesOf converts a weight of cgroup v2, 1 to 10000, to shares of v1, 2 to 262144, as the kubelet does the reverse.
func sharesOf(weight uint64) uint64 {
	const minShares, maxShares, maxWeight = 2, 262144, 10000
	if weight < 1 {
		return 0
	}
	return minShares + (min(weight, maxWeight)-1)*(maxShares-minShares)/(maxWeight-1)
}

// lines counts the lines of a list of processes.
func lines(data []byte) uint64 { return uint64(bytes.Count(data, []byte{'\n'})) }
