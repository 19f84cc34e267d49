package usage

import (
	"bytes"
	"time"
)

// Columns of /proc/<pid>/stat behind the process's name: proc(5).
const (
	statUser   = 11
	statSystem = 12
	statRSS    = 21
	// clockTick is the kernel's unit of times in /proc: 100 a second on every architecture.
	clockTick = 10 * time.Millisecond
)

// ParseProcess returns from /proc/<pid>/stat the CPU time that the process has taken, its children excepted, and its
// resident memory in pages. The process's name may hold anything, parentheses and spaces too.
func ParseProcess(stat []byte) (cpu time.Duration, pages uint64, ok bool) {
	columns := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(columns) <= statRSS {
		return 0, 0, false
	}
	user, ok1 := number(columns[statUser])
	system, ok2 := number(columns[statSystem])
	pages, ok3 := number(columns[statRSS])
	return time.Duration(user+system) * clockTick, pages, ok1 && ok2 && ok3
}
