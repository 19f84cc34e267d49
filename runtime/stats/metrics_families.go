package stats

import (
	"strconv"
	"time"

	"github.com/journalet/journalet/runtime/stats/usage"
)

// The families below have the names and labels of cAdvisor's metrics, as the kubelet exports them.

func cadvisorFamilies() []family[measured] {
	var all []family[measured]
	for _, group := range [][]family[measured]{
		timeFamilies(), cpuFamilies(), memoryFamilies(), limitFamilies(), fileFamilies(), costFamilies(), networkFamilies(),
		processFamilies(), pressureFamilies(),
	} {
		all = append(all, group...)
	}
	return all
}

func timeFamilies() []family[measured] {
	at := func(timeOf func(measured) time.Time) func(measured, func(float64, ...string)) {
		return one(func(m measured) (float64, bool) { return float64(timeOf(m).Unix()), !timeOf(m).IsZero() })
	}
	return []family[measured]{
		{name: "container_last_seen", help: "When the container was seen, in seconds since 1970: at this scrape.",
			each: at(func(m measured) time.Time { return m.seen })},
		{name: "container_creation_time_seconds", help: "When the container was created, in seconds since 1970.",
			each: at(func(m measured) time.Time { return m.created })},
		{name: "container_start_time_seconds", help: "When the container was started, in seconds since 1970.",
			each: at(func(m measured) time.Time {
				if m.started.IsZero() {
					return m.created
				}
				return m.started
			})},
	}
}

func ofCPU(value func(*usage.CPU) float64) func(measured, func(float64, ...string)) {
	return one(func(m measured) (float64, bool) {
		if m.used == nil || m.used.CPU == nil {
			return 0, false
		}
		return value(m.used.CPU), true
	})
}

// ofQuota is ofCPU for cgroups with a quota.
func ofQuota(value func(*usage.CPU) float64) func(measured, func(float64, ...string)) {
	each := ofCPU(value)
	return func(m measured, emit func(float64, ...string)) {
		if m.used != nil && m.used.Limits != nil && m.used.Limits.QuotaMicros > 0 {
			each(m, emit)
		}
	}
}

func cpuFamilies() []family[measured] {
	return []family[measured]{
		{name: "container_cpu_usage_seconds_total", help: "CPU time used, in core-seconds.", counter: true, label: "cpu",
			each: func(m measured, emit func(float64, ...string)) {
				if m.used != nil && m.used.CPU != nil {
					emit(seconds(m.used.CPU.Usage), "total")
				}
			}},
		{name: "container_cpu_user_seconds_total", help: "CPU time used in user mode.", counter: true,
			each: ofCPU(func(c *usage.CPU) float64 { return seconds(c.User) })},
		{name: "container_cpu_system_seconds_total", help: "CPU time used in the kernel.", counter: true,
			each: ofCPU(func(c *usage.CPU) float64 { return seconds(c.System) })},
		{name: "container_cpu_cfs_periods_total", help: "Periods in which the CPU quota counted.", counter: true,
			each: ofQuota(func(c *usage.CPU) float64 { return float64(c.Periods) })},
		{name: "container_cpu_cfs_throttled_periods_total", help: "Periods in which the CPU quota ran out.", counter: true,
			each: ofQuota(func(c *usage.CPU) float64 { return float64(c.Throttled) })},
		{name: "container_cpu_cfs_throttled_seconds_total", help: "Time for which the CPU quota had run out.", counter: true,
			each: ofQuota(func(c *usage.CPU) float64 { return seconds(c.ThrottledTime) })},
		{name: "container_cpu_cfs_burst_periods_total", help: "Periods beyond the CPU quota.", counter: true,
			each: ofQuota(func(c *usage.CPU) float64 { return float64(c.Bursts) })},
		{name: "container_cpu_cfs_burst_seconds_total", help: "CPU time beyond the quota.", counter: true,
			each: ofQuota(func(c *usage.CPU) float64 { return seconds(c.BurstTime) })},
	}
}

func ofMemory(value func(*usage.Memory) uint64) func(measured, func(float64, ...string)) {
	return one(func(m measured) (float64, bool) {
		if m.used == nil || m.used.Memory == nil {
			return 0, false
		}
		return float64(value(m.used.Memory)), true
	})
}

func memoryFamilies() []family[measured] {
	gauge := func(name, help string, value func(*usage.Memory) uint64) family[measured] {
		return family[measured]{name: "container_memory_" + name, help: help, each: ofMemory(value)}
	}
	faults := family[measured]{name: "container_memory_failures_total", counter: true, label: "failure_type",
		others: []string{"scope"}, help: "Page faults by type, pgfault and pgmajfault, and by scope: of the container " +
			"without the cgroups below it, where the kernel distinguishes it (cgroup v1), and of the hierarchy with them.",
		each: func(m measured, emit func(float64, ...string)) {
			if m.used == nil || m.used.Memory == nil {
				return
			}
			used := m.used.Memory
			emit(float64(used.OwnFaults), "pgfault", "container")
			emit(float64(used.OwnMajorFaults), "pgmajfault", "container")
			emit(float64(used.Faults), "pgfault", "hierarchy")
			emit(float64(used.MajorFaults), "pgmajfault", "hierarchy")
		}}
	event := func(name, help string, value func(*usage.MemoryEvents) uint64) family[measured] {
		return family[measured]{name: name, help: help, counter: true, each: one(func(m measured) (float64, bool) {
			if m.used == nil || m.used.Memory == nil || m.used.Memory.Events == nil {
				return 0, false
			}
			return float64(value(m.used.Memory.Events)), true
		})}
	}
	hits := gauge("failcnt", "Allocations that hit the memory limit.",
		func(m *usage.Memory) uint64 { return m.LimitHits })
	hits.counter = true
	return append(reclaimFamilies(), []family[measured]{
		gauge("usage_bytes", "Memory in use, with page cache.", func(m *usage.Memory) uint64 { return m.Usage }),
		gauge("working_set_bytes", "Memory in use without file pages that can be dropped first.",
			func(m *usage.Memory) uint64 { return m.WorkingSet }),
		gauge("rss", "Anonymous memory, in bytes.", func(m *usage.Memory) uint64 { return m.RSS }),
		gauge("cache", "Page cache, in bytes.", func(m *usage.Memory) uint64 { return m.Cache }),
		gauge("mapped_file", "Mapped files, in bytes.", func(m *usage.Memory) uint64 { return m.Mapped }),
		gauge("kernel_usage", "Memory of the kernel, in bytes.", func(m *usage.Memory) uint64 { return m.Kernel }),
		gauge("swap", "Swap in use, in bytes.", func(m *usage.Memory) uint64 { return m.Swap }),
		gauge("max_usage_bytes", "The largest memory usage yet.", func(m *usage.Memory) uint64 { return m.Max }),
		gauge("total_active_file_bytes", "File pages in recent use.",
			func(m *usage.Memory) uint64 { return m.ActiveFile }),
		gauge("total_inactive_file_bytes", "File pages that can be dropped first.",
			func(m *usage.Memory) uint64 { return m.InactiveFile }),
		hits, faults,
		event("container_memory_events_high_total",
			"Times that tasks were throttled above memory.high; cgroup v2 only.",
			func(e *usage.MemoryEvents) uint64 { return e.High }),
		event("container_memory_events_max_total",
			"Times that memory was about to go beyond memory.max; cgroup v2 only.",
			func(e *usage.MemoryEvents) uint64 { return e.Max }),
		{name: "container_oom_events_total", help: "Processes of the container killed for lack of memory.", counter: true,
			each: ofMemory(func(m *usage.Memory) uint64 { return m.OOMKills })},
	}...)
}

// reclaimFamilies are metrics of pages that are written back or reclaimed. They are missing where the kernel has none.
func reclaimFamilies() []family[measured] {
	pages := func(name, help string, counter bool, value func(*usage.Memory) usage.Known) family[measured] {
		return family[measured]{name: name, help: help, counter: counter, each: one(func(m measured) (float64, bool) {
			if m.used == nil || m.used.Memory == nil {
				return 0, false
			}
			known := value(m.used.Memory)
			return float64(known.N), known.OK
		})}
	}
	return []family[measured]{
		pages("container_memory_file_dirty_bytes", "File pages to be written back, in bytes.", false,
			func(m *usage.Memory) usage.Known { return m.Dirty }),
		pages("container_memory_file_writeback_bytes", "File pages that are being written back, in bytes.", false,
			func(m *usage.Memory) usage.Known { return m.Writeback }),
		pages("container_memory_pgscan_total", "Pages that the kernel inspected to reclaim them; cgroup v2 only.", true,
			func(m *usage.Memory) usage.Known { return m.Scanned }),
		pages("container_memory_pgsteal_total", "Pages that were reclaimed; cgroup v2 only.", true,
			func(m *usage.Memory) usage.Known { return m.Stolen }),
		pages("container_memory_workingset_refault_file_total", "File pages that were needed soon after they were reclaimed.",
			true, func(m *usage.Memory) usage.Known { return m.RefaultedFile }),
		pages("container_memory_workingset_refault_anon_total",
			"Anonymous pages that were needed soon after they were reclaimed.",
			true, func(m *usage.Memory) usage.Known { return m.RefaultedAnon }),
	}
}

// ofLimits leaves out what is not limited where unlimited is 0 in cAdvisor's metrics, too.
func ofLimits(value func(*usage.Limits) uint64) func(measured, func(float64, ...string)) {
	return one(func(m measured) (float64, bool) {
		if m.used == nil || m.used.Limits == nil {
			return 0, false
		}
		if n := value(m.used.Limits); n != usage.Unlimited {
			return float64(n), true
		}
		return 0, true
	})
}

func limitFamilies() []family[measured] {
	return []family[measured]{
		{name: "container_spec_cpu_period", help: "Period of the CPU quota, in microseconds.",
			each: ofLimits(func(l *usage.Limits) uint64 { return l.PeriodMicros })},
		{name: "container_spec_cpu_quota", help: "CPU quota in each period, in microseconds.",
			each: func(m measured, emit func(float64, ...string)) {
				if m.used != nil && m.used.Limits != nil && m.used.Limits.QuotaMicros > 0 {
					emit(float64(m.used.Limits.QuotaMicros))
				}
			}},
		{name: "container_spec_cpu_shares", help: "CPU shares.",
			each: ofLimits(func(l *usage.Limits) uint64 { return l.Shares })},
		{name: "container_spec_memory_limit_bytes", help: "Memory limit; 0 without one.",
			each: ofLimits(func(l *usage.Limits) uint64 { return l.Memory })},
		{name: "container_spec_memory_swap_limit_bytes", help: "Swap limit; 0 without one.",
			each: ofLimits(func(l *usage.Limits) uint64 { return l.Swap })},
		{name: "container_spec_memory_reservation_limit_bytes", help: "Memory that is kept from reclaim.",
			each: ofLimits(func(l *usage.Limits) uint64 { return l.Reservation })},
	}
}

func fileFamilies() []family[measured] {
	layer := func(name, help string, value func(m measured) *uint64) family[measured] {
		return family[measured]{name: "container_fs_" + name, help: help, label: "device",
			each: func(m measured, emit func(float64, ...string)) {
				if m.layer == nil || m.layerFS == nil {
					return
				}
				if n := value(m); n != nil {
					emit(float64(*n), m.layerFS.device)
				}
			}}
	}
	total := func(value func(m measured) uint64) func(m measured) *uint64 {
		return func(m measured) *uint64 {
			if m.layerFS.fs == nil {
				return nil
			}
			n := value(m)
			return &n
		}
	}
	device := func(name, help string, value func(usage.Device) uint64) family[measured] {
		return family[measured]{name: "container_fs_" + name, help: help, counter: true, label: "device",
			each: func(m measured, emit func(float64, ...string)) {
				if m.used == nil {
					return
				}
				for _, d := range m.used.Devices {
					emit(float64(value(d)), m.device(d.Major, d.Minor))
				}
			}}
	}
	return []family[measured]{
		layer("usage_bytes", "Bytes of the writable layer; of the node, of its file system.",
			func(m measured) *uint64 { return m.layer.bytes }),
		layer("limit_bytes", "Bytes of the file system with the layer.",
			total(func(m measured) uint64 { return m.layerFS.fs.Capacity })),
		layer("inodes_total", "Inodes of the file system with the layer.",
			total(func(m measured) uint64 { return m.layerFS.fs.Inodes })),
		layer("inodes_free", "Free inodes of the file system with the layer.",
			total(func(m measured) uint64 { return m.layerFS.fs.InodesFree })),
		{name: "container_blkio_device_usage_total", counter: true, label: "device",
			others: []string{"major", "minor", "operation"},
			help:   "Bytes by block device and operation, Read or Write.",
			each: func(m measured, emit func(float64, ...string)) {
				if m.used == nil {
					return
				}
				for _, d := range m.used.Devices {
					at := []string{
						m.device(d.Major, d.Minor), strconv.FormatUint(d.Major, 10), strconv.FormatUint(d.Minor, 10), "Read",
					}
					emit(float64(d.ReadBytes), at...)
					at[len(at)-1] = "Write"
					emit(float64(d.WrittenBytes), at...)
				}
			}},
		device("reads_bytes_total", "Bytes read from the device.", func(d usage.Device) uint64 { return d.ReadBytes }),
		device("writes_bytes_total", "Bytes written to the device.", func(d usage.Device) uint64 { return d.WrittenBytes }),
		device("reads_total", "Reads from the device.", func(d usage.Device) uint64 { return d.Reads }),
		device("writes_total", "Writes to the device.", func(d usage.Device) uint64 { return d.Writes }),
	}
}

// costFamilies are metrics of the devices with io.cost enabled.
func costFamilies() []family[measured] {
	cost := func(name, help string, value func(*usage.Device) usage.Known) family[measured] {
		return family[measured]{name: name, help: help, counter: true, label: "device",
			each: func(m measured, emit func(float64, ...string)) {
				if m.used == nil {
					return
				}
				for i := range m.used.Devices {
					d := &m.used.Devices[i]
					if known := value(d); known.OK {
						emit(float64(known.N)/1e6, m.device(d.Major, d.Minor))
					}
				}
			}}
	}
	return []family[measured]{
		cost("container_fs_io_cost_usage_seconds_total", "Time of the device that was used, as io.cost estimates it.",
			func(d *usage.Device) usage.Known { return d.Cost.Usage }),
		cost("container_fs_io_cost_wait_seconds_total", "Time for which io.cost held back what was to be read or written.",
			func(d *usage.Device) usage.Known { return d.Cost.Wait }),
		cost("container_fs_io_cost_indebt_seconds_total", "Time for which the device was used beyond what io.cost allows.",
			func(d *usage.Device) usage.Known { return d.Cost.Indebt }),
		cost("container_fs_io_cost_indelay_seconds_total", "Time for which io.cost delayed tasks to have the debt paid.",
			func(d *usage.Device) usage.Known { return d.Cost.Indelay }),
	}
}

func networkFamilies() []family[measured] {
	counter := func(name, help string, value func(*Interface) uint64) family[measured] {
		return family[measured]{name: "container_network_" + name, help: help, counter: true, label: "interface",
			each: func(m measured, emit func(float64, ...string)) {
				for i := range m.network {
					emit(float64(value(&m.network[i])), m.network[i].Name)
				}
			}}
	}
	return []family[measured]{
		counter("receive_bytes_total", "Bytes received.", func(i *Interface) uint64 { return i.RxBytes }),
		counter("receive_packets_total", "Packets received.", func(i *Interface) uint64 { return i.RxPackets }),
		counter("receive_errors_total", "Errors at receiving.", func(i *Interface) uint64 { return i.RxErrors }),
		counter("receive_packets_dropped_total", "Received packets that were dropped.",
			func(i *Interface) uint64 { return i.RxDropped }),
		counter("transmit_bytes_total", "Bytes sent.", func(i *Interface) uint64 { return i.TxBytes }),
		counter("transmit_packets_total", "Packets sent.", func(i *Interface) uint64 { return i.TxPackets }),
		counter("transmit_errors_total", "Errors at sending.", func(i *Interface) uint64 { return i.TxErrors }),
		counter("transmit_packets_dropped_total", "Packets to send that were dropped.",
			func(i *Interface) uint64 { return i.TxDropped }),
	}
}

func processFamilies() []family[measured] {
	known := func(value func(measured) *uint64) func(measured, func(float64, ...string)) {
		return one(func(m measured) (float64, bool) {
			n := value(m)
			if n == nil {
				return 0, false
			}
			return float64(*n), true
		})
	}
	count := func(value func(*usage.Cgroup) *uint64) func(measured, func(float64, ...string)) {
		return known(func(m measured) *uint64 {
			if m.used == nil {
				return nil
			}
			return value(m.used)
		})
	}
	limit := family[measured]{name: "container_ulimits_soft", label: "ulimit",
		help: "Soft limit of the container's first process, of open files (max_open_files); -1 without one."}
	limit.each = func(m measured, emit func(float64, ...string)) {
		switch n := m.files.Limit; {
		case n == nil:
		case *n == usage.Unlimited:
			emit(-1, "max_open_files")
		default:
			emit(float64(*n), "max_open_files")
		}
	}
	return []family[measured]{
		{name: "container_processes", help: "Processes.",
			each: count(func(c *usage.Cgroup) *uint64 { return c.Processes })},
		{name: "container_file_descriptors", help: "Open file descriptors of the container's processes.",
			each: known(func(m measured) *uint64 { return m.files.Open })},
		{name: "container_sockets", help: "Open sockets of the container's processes.",
			each: known(func(m measured) *uint64 { return m.files.Sockets })},
		{name: "container_threads", help: "Threads.", each: count(func(c *usage.Cgroup) *uint64 { return c.Threads })},
		{name: "container_threads_max", help: "Limit of threads; 0 without one.",
			each: count(func(c *usage.Cgroup) *uint64 { return c.MaxThreads })},
		limit,
	}
}

func pressureFamilies() []family[measured] {
	var all []family[measured]
	for _, r := range []struct {
		name  string
		stall func(*usage.Pressure) *usage.Stall
	}{
		{"cpu", func(p *usage.Pressure) *usage.Stall { return p.CPU }},
		{"memory", func(p *usage.Pressure) *usage.Stall { return p.Memory }},
		{"io", func(p *usage.Pressure) *usage.Stall { return p.IO }},
	} {
		name, stall := r.name, r.stall
		total := func(share func(*usage.Stall) usage.Share) func(measured, func(float64, ...string)) {
			return one(func(m measured) (float64, bool) {
				if m.used == nil || stall(&m.used.Pressure) == nil {
					return 0, false
				}
				return seconds(share(stall(&m.used.Pressure)).Total * uint64(time.Microsecond)), true
			})
		}
		all = append(all,
			family[measured]{name: "container_pressure_" + name + "_waiting_seconds_total", counter: true,
				help: "Time for which at least one task waited for " + name + ".",
				each: total(func(s *usage.Stall) usage.Share { return s.Some })},
			family[measured]{name: "container_pressure_" + name + "_stalled_seconds_total", counter: true,
				help: "Time for which all tasks waited for " + name + ".",
				each: total(func(s *usage.Stall) usage.Share { return s.Full })})
	}
	return all
}
