// Package oom watches the kernel's log (/dev/kmsg) for processes that were killed for lack of memory, and records
// OomKillObserved: whose memory ran out, which process ended, and whose container it was in. It decides nothing.
//
// It reads what the kernel logs from its start on, not what was logged before. A process that may write to /dev/kmsg
// can log text there; the kernel marks that as a user's, and it is ignored. Names of processes and cgroups are a
// container's choice: parse.go says how a line is read in spite of that. Facts are bounded in number (bounds.go).
//
// Begin with driver.go; score.go is how likely the kernel chooses this process.
package oom
