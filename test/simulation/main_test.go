package simulation

import (
	"os"
	"runtime/debug"
	"testing"
)

// gcPercent is how much garbage may pile up before it is collected. Most of what a run allocates lives as long as the
// run, and collecting more often takes a third of the time.
const gcPercent = 400

func TestMain(m *testing.M) {
	debug.SetGCPercent(gcPercent)
	os.Exit(m.Run())
}
