package usage

import (
	"time"
)

// Cgroup is what one cgroup used up to a time. What could not be read is nil.
type Cgroup struct {
	// At is when the first file was read.
	At       time.Time
	CPU      *CPU
	Memory   *Memory
	Devices  []Device
	Pressure Pressure
	Limits   *Limits
	// Processes counts processes and Threads tasks. MaxThreads is their bound; 0 without one.
	Processes, Threads, MaxThreads *uint64
}

// CPU is CPU time, in nanoseconds since the cgroup exists.
type CPU struct {
	Usage, User, System uint64
	// Periods counts the periods with a quota, Throttled the periods that ran out of it, for ThrottledTime altogether.
	Periods, Throttled, ThrottledTime uint64
	// Bursts are the periods that went beyond the quota, for BurstTime altogether.
	Bursts, BurstTime uint64
}

// Memory is memory, in bytes. Counters of faults count since the cgroup exists.
type Memory struct {
	// Usage is all of it. WorkingSet is Usage without file pages that the kernel can drop first.
	Usage, WorkingSet uint64
	// Max is the largest Usage yet; 0 if the kernel does not keep it.
	Max uint64
	// RSS is anonymous memory.
	RSS, Cache, Mapped, Kernel, ActiveFile, InactiveFile uint64
	// Swap is 0 on a node without swap.
	Swap uint64
	// Faults and MajorFaults are page faults, of cgroups below, too. OwnFaults and OwnMajorFaults are without the cgroups
	// below on cgroup v1; v2 does not distinguish the two, and they are the same there.
	Faults, MajorFaults, OwnFaults, OwnMajorFaults uint64
	// Dirty file pages are to be written back, Writeback ones are being written, in bytes.
	Dirty, Writeback Known
	// Scanned and Stolen count the pages that the kernel inspected to reclaim them, and that it reclaimed; v2 only.
	// RefaultedFile and RefaultedAnon count the pages that were needed again soon after, since Linux 5.9.
	Scanned, Stolen, RefaultedFile, RefaultedAnon Known
	// LimitHits counts the allocations that hit the limit, and OOMKills the processes killed for lack of memory.
	LimitHits, OOMKills uint64
	// Events is nil on cgroup v1, and without WantDetails.
	Events *MemoryEvents
}

// Known is a figure that not every kernel has.
type Known struct {
	N  uint64
	OK bool
}

// MemoryEvents counts how often a cgroup of v2 was throttled above memory.high, and was about to go beyond memory.max,
// including the cgroups below it.
type MemoryEvents struct{ High, Max uint64 }

// Device is what a cgroup read and wrote on one block device.
type Device struct {
	Major, Minor                           uint64
	ReadBytes, WrittenBytes, Reads, Writes uint64
	// Cost is known where the kernel has io.cost on for the device: microseconds of the device that were used, waited
	// for, in debt and delayed, as the controller estimates them.
	Cost struct {
		Usage, Wait, Indebt, Indelay Known
	}
}

// Unlimited is a limit that is not set.
const Unlimited = ^uint64(0)

// Limits are the limits of one cgroup, not of the cgroups above it.
type Limits struct {
	// QuotaMicros is 0 without a quota. Shares are CPU shares of cgroup v1; a weight of v2 is converted.
	QuotaMicros, PeriodMicros, Shares uint64
	// In bytes; Unlimited if unset. Reservation is 0 if unset.
	Memory, Swap, Reservation uint64
}

// Pressure is the pressure stall information of a cgroup or of the node. Each is nil where the kernel has none.
type Pressure struct{ CPU, Memory, IO *Stall }

// Stall is the pressure on one resource: how long at least one task waited, and all of them.
type Stall struct{ Some, Full Share }

// Share is a part of time: averages in percent, Total in microseconds.
type Share struct {
	Avg10, Avg60, Avg300 float64
	Total                uint64
}

// Want selects what Read reads. CPU and memory usage are always read.
type Want uint

// What Read reads, by the files that it costs.
const (
	// WantPressure costs three files, on cgroup v2 only.
	WantPressure Want = 1 << iota
	// WantLimits costs one file and, with WantSwap, another one: the limits of memory and swap.
	WantLimits
	// WantProcesses costs two files.
	WantProcesses
	// WantDevices costs one file, two on cgroup v1.
	WantDevices
	// WantSwap costs one file on cgroup v2. It is of no use on a node without swap.
	WantSwap
	// WantDetails costs six to ten files: the other limits, and what only the metrics of cAdvisor show.
	WantDetails

	// Basic is CPU and memory usage alone: three files.
	Basic Want = 0
	// All is everything.
	All = WantPressure | WantLimits | WantProcesses | WantDevices | WantSwap | WantDetails
)
