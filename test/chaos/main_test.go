//go:build chaos

package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/test/node"
)

const (
	// labScript starts, kills and restarts the containerd of the lab LAB_NAME.
	labScript = "../../deploy/lab/lab.sh"
	// labTimeout bounds one command of a lab that has its tools.
	labTimeout = 2 * time.Minute
)

var (
	full   = flag.Bool("chaos.full", false, "full length instead of the short form")
	rounds = flag.Int("chaos.rounds", 0, "kills of the agent or of containerd in each test; 0: its own number")
	seed   = flag.Uint64("chaos.seed", 0, "seed of all choices; 0: a new one")
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

// roundsOr returns the number of kills: that of the flag, else the test's own.
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
	code, err := setup.Run(m, func() (string, error) {
		if os.Getenv("LAB_NAME") == "" {
			return "", errors.New("LAB_NAME is empty: run `make chaos-short` or `make chaos`, or name a lab whose " +
				"containerd may be killed")
		}
		if _, err := lab("up"); err != nil {
			return "", err
		}
		return lab("endpoint")
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos tests:", err)
		code = 1
	}
	os.Exit(code)
}

// lab runs a command of the lab and returns its output.
func lab(command string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), labTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, labScript, command)
	var errs strings.Builder
	cmd.Stderr = &errs
	// containerd inherits the script's pipes and keeps them open: do not wait for their end.
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", labScript, command, err, errs.String())
	}
	return strings.TrimSpace(string(out)), nil
}
