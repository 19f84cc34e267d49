package main

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/runtime/agent"
	"github.com/journalet/journalet/runtime/config"
)

// debugFrom is the verbosity from which on the log tells of everything.
const debugFrom = 2

func (a *app) runCommand() *cobra.Command {
	cfg := a.defaults()
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the agent",
		Long: "Run the agent in the foreground until SIGTERM or SIGINT, which stop it cleanly; a second one ends it at once.\n" +
			"Neither touches a container: pods run on, and the next start goes on where this one ended.\n\n" +
			"Under systemd it tells when it is ready and keeps the unit's watchdog. A flag wins over --config, and that over the\n" +
			"defaults. `journalet check` with the same flags tells beforehand what would keep it from working.",
		Example: "  journalet run\n" +
			"  journalet run --static-pod-path /etc/kubernetes/manifests --config /var/lib/kubelet/config.yaml\n" +
			"  journalet run --container-runtime-endpoint sim:// --root-dir ./data --static-pod-path ./pods",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			problems, err := a.load(cmd, cfg)
			if err != nil {
				return err
			}
			log := newLog(a.err, cfg)
			slog.SetDefault(log)
			for _, p := range problems {
				log.Warn("configuration", "file", p.File, "field", p.Field, "problem", p.Message)
			}
			return agent.Run(cmd.Context(), cfg, log)
		},
	}
	cfg.AddFlags(cmd.Flags())
	return cmd
}

// defaults are the agent's, with what the environment says.
func (a *app) defaults() *config.Config {
	cfg := config.Defaults()
	cfg.RootDir = envOr(rootDirEnv, cfg.RootDir)
	return cfg
}

// load reads the configuration files and checks the whole.
func (a *app) load(cmd *cobra.Command, cfg *config.Config) ([]config.Problem, error) {
	problems, err := cfg.Load(cmd.Flags())
	if err != nil {
		return nil, err
	}
	if err := cfg.Validate(); err != nil {
		return nil, usageError{err}
	}
	return problems, nil
}

func newLog(w io.Writer, cfg *config.Config) *slog.Logger {
	opts := &slog.HandlerOptions{Level: slog.LevelInfo}
	if cfg.Verbosity >= debugFrom {
		opts.Level = slog.LevelDebug
	}
	if cfg.LogFormat == config.LogJSON {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
