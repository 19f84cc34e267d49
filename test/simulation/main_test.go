package simulation

import (
	"os"
	"runtime/debug"
	"testing"
)

// gcPercent is how much garbage may pile up before it is collected. Most of what a run allocates lives as long as the
// run, and collecting more often takes a third of the time.
const gcPercent = 400

// memoryLimit is from where on garbage is collected as often as it takes to stay below. A day of a hostile tenant has a
// gigabyte of manifests, with garbage five.
const memoryLimit = 1800 << 20

func TestMain(m *testing.M) {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryLimit)
	os.Exit(m.Run())
}
