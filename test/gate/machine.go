package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/journalet/journalet/test/measure"
)

// A load is how much of the machine's CPU time was used while something ran, by it and by all others.
type load struct {
	begun time.Time
	busy  float64
}

// A usage is a time with how busy all CPUs of the machine were in it, from 0 to 1, and its pressure at the end.
type usage struct {
	took     time.Duration
	busy     float64
	pressure string
}

func beginLoad() load {
	busy, _ := measure.Busy() // without /proc the table shows 0 %
	return load{begun: time.Now(), busy: busy}
}

func (l load) end() usage {
	busy, _ := measure.Busy()
	took := time.Since(l.begun)
	return usage{
		took: took, pressure: pressure(),
		busy: (busy - l.busy) / took.Seconds() / float64(runtime.NumCPU()),
	}
}

// pressure returns the share of the last five minutes that some task waited for a CPU, as the kernel counts it (PSI),
// or else the load average of the last five minutes.
func pressure() string {
	if b, err := os.ReadFile("/proc/pressure/cpu"); err == nil {
		for _, field := range strings.Fields(string(b)) {
			if avg, ok := strings.CutPrefix(field, "avg300="); ok {
				return avg + " % waiting"
			}
		}
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 {
			return "load " + f[1]
		}
	}
	return "-"
}

func (u usage) String() string {
	return fmt.Sprintf("%5.0f s  CPUs %3.0f %%  %s", u.took.Seconds(), 100*u.busy, u.pressure)
}
