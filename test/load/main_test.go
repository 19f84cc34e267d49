package load

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"github.com/journalet/journalet/runtime/agent"
	"github.com/journalet/journalet/runtime/config"
)

// agentEnv, if set, runs the agent in this binary instead of the tests.
const agentEnv = "JOURNALET_LOAD_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(agentEnv) == "" {
		os.Exit(m.Run())
	}
	if err := runAgent(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runAgent does what `journalet run` does.
func runAgent(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg := config.Defaults()
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	cfg.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	if _, err := cfg.Load(fs); err != nil {
		return err
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	return agent.Run(ctx, cfg, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}
