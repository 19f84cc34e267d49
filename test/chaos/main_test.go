//go:build chaos

package chaos

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/journalet/journalet/test/node"
)

var (
	full   = flag.Bool("chaos.full", false, "full length instead of the short form")
	rounds = flag.Int("chaos.rounds", 0, "kills of the agent or of containerd in each test; 0: its own number")
	seed   = flag.Uint64("chaos.seed", 1, "seed of all choices, the same ones each time; 0: a new one")
)

// setup is what all tests share: the program under test and the runtime.
var setup node.Setup

// length is an amount of work in the short and in the full form.
type length struct{ short, full int }

func (l length) now() int {
	if *full {
		return l.full
	}
	return l.short
}

// roundsOr returns the number of kills: the flag's value if it is set, else the test's own number.
func roundsOr(l length) int {
	if *rounds > 0 {
		return *rounds
	}
	return l.now()
}

// choices returns a source of random choices, and logs the seed that repeats them.
func choices(t *testing.T) *rand.Rand {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Uint64()>>1 | 1
	}
	t.Logf("repeat the same choices: -run '^%s$' -chaos.seed=%d", t.Name(), s)
	return rand.New(rand.NewPCG(s, 0))
}

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := setup.Run(m, node.UpLab)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos tests:", err)
		code = 1
	}
	os.Exit(code)
}
