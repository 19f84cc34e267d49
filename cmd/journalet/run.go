package main

import (
	"cmp"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/journalet/journalet/cmd/journalet/early"
	"github.com/journalet/journalet/runtime/agent"
	"github.com/journalet/journalet/runtime/config"
)

func (a *app) runCommand() *cobra.Command {
	cfg := a.defaults()
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the agent",
		Long: "Run the agent in the foreground until SIGTERM or SIGINT stops it cleanly; a second signal kills it at\n" +
			"once. Neither touches a container: pods keep running, and the next start continues from the journal.\n\n" +
			"Under systemd it notifies when it is ready and pings the unit's watchdog. A flag wins over --config, and\n" +
			"--config over the defaults. `journalet check` with the same flags checks the machine without starting the\n" +
			"agent. With --once it ends by itself, when every pod has ended, or is ready if it restarts for ever.",
		Example: "  journalet run\n" +
			"  journalet run --static-pod-path /etc/kubernetes/manifests --config /var/lib/kubelet/config.yaml\n" +
			"  journalet run --container-runtime-endpoint sim:// --root-dir ./data --static-pod-path ./pods\n" +
			"  journalet run --once --once-timeout 10m --static-pod-path ./jobs",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			early.CollectAsUsual()
			problems, err := a.load(cmd.Flags(), cfg)
			if err != nil {
				return err
			}
			log := newLog(a.err, cfg)
			slog.SetDefault(log)
			logLibraries(log.Handler())
			for _, p := range problems {
				log.Warn("configuration", "file", p.File, "field", p.Field, "problem", p.Message)
			}
			cfg.FlagValues = config.Values(cmd.Flags())
			return agent.Run(cmd.Context(), cfg, log)
		},
	}
	cfg.AddFlags(cmd.Flags())
	return cmd
}

// defaults returns the agent's defaults with the root directory of the environment.
func (a *app) defaults() *config.Config {
	cfg := config.Defaults()
	cfg.RootDir = cmp.Or(os.Getenv(rootDirEnv), a.agentDir, cfg.RootDir)
	return cfg
}

// load reads the configuration files and validates the result.
func (a *app) load(flags *pflag.FlagSet, cfg *config.Config) ([]config.Problem, error) {
	problems, err := cfg.Load(flags)
	if err != nil {
		return nil, err
	}
	if err := cfg.Validate(); err != nil {
		return nil, usageError{err}
	}
	return problems, nil
}

func newLog(w io.Writer, cfg *config.Config) *slog.Logger {
	agent.SetVerbosity(cfg.Verbosity)
	opts := &slog.HandlerOptions{Level: agent.LogLevel}
	if cfg.LogFormat == config.LogJSON {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
