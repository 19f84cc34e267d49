//go:build chaos

package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// labScript starts, kills and restarts the containerd under test; LAB_NAME says which.
	labScript = "../../deploy/lab/lab.sh"
	// buildTimeout bounds the build of the agent with a cold cache.
	buildTimeout = 10 * time.Minute
	// labTimeout bounds one command of the lab that has its tools.
	labTimeout = 2 * time.Minute
	// maxMessageBytes is the kubelet's limit for CRI messages.
	maxMessageBytes = 16 << 20
	testImage       = "docker.io/library/busybox:1.36"
)

var (
	full   = flag.Bool("chaos.full", false, "full length instead of the short form")
	rounds = flag.Int("chaos.rounds", 0, "how many kills of the agent or of containerd a test makes, instead of its own number")
	seed   = flag.Uint64("chaos.seed", 0, "seed of all choices; 0 takes a new one")
)

// What all tests share: the program under test and the runtime.
var (
	binary   string
	endpoint string
	runtime  cri.RuntimeServiceClient
)

// length is how much a test does in the short and in the full form.
type length struct{ short, full int }

func (l length) now() int {
	if *full {
		return l.full
	}
	return l.short
}

// roundsOr is the number of kills: what was asked for, else the test's own.
func roundsOr(l length) int {
	if *rounds > 0 {
		return *rounds
	}
	return l.now()
}

// choices gives a test's random choices, and names the seed that gives them again.
func choices(t *testing.T) *rand.Rand {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Uint64()>>1 | 1
	}
	t.Logf("again with the same choices: -run '^%s$' -chaos.seed=%d", t.Name(), s)
	return rand.New(rand.NewPCG(s, 0))
}

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := prepare(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos tests:", err)
		code = 1
	}
	os.Exit(code)
}

func prepare(m *testing.M) (int, error) {
	if os.Getenv("LAB_NAME") == "" {
		return 0, fmt.Errorf("LAB_NAME is empty: run `make chaos-short` or `make chaos`, or name a lab whose containerd may be killed")
	}
	dir, err := os.MkdirTemp("", "jl-bin-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left is in the temporary folder
	binary = filepath.Join(dir, "journalet")
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/journalet/journalet/cmd/journalet").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("build the agent: %w\n%s", err, out)
	}
	if _, err := lab("up"); err != nil {
		return 0, err
	}
	if endpoint, err = lab("endpoint"); err != nil {
		return 0, err
	}
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.WaitForReady(true)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", endpoint, err)
	}
	defer conn.Close()
	runtime = cri.NewRuntimeServiceClient(conn)
	return m.Run(), nil
}

// lab runs a command of the lab and returns what it prints.
func lab(command string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), labTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, labScript, command)
	var errs strings.Builder
	cmd.Stderr = &errs
	// containerd inherits what the script has; a pipe that it holds must not be waited for.
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", labScript, command, err, errs.String())
	}
	return strings.TrimSpace(string(out)), nil
}
