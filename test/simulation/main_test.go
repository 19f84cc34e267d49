package simulation

import (
	"os"
	"runtime/debug"
	"testing"
)

// gcPercent is how much garbage may pile up before it is collected: most of what a run makes lives as long as the run, and looking through
// it more often is a third of the time.
const gcPercent = 400

func TestMain(m *testing.M) {
	debug.SetGCPercent(gcPercent)
	os.Exit(m.Run())
}
