package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/preflight"
)

// checkTimeout bounds all checks together; the slowest one calls a runtime that may hang.
const checkTimeout = 30 * time.Second

// checkRow is the printed form of a check.
type checkRow struct {
	Name    string `json:"name"`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

func (a *app) checkCommand() *cobra.Command {
	cfg := a.defaults()
	var o tuneOptions
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether this machine can run the agent",
		Long: "Check the agent's requirements on this machine: the container runtime and its network, cgroups,\n" +
			"directories, ports; and what the runtime does that the agent does not need, with what it costs here. It\n" +
			"takes the flags of `journalet run` and changes nothing. Exit code 1 if a check fails.\n\n" +
			"containerd samples the statistics of all containers once a second. With --fix a drop-in of its configuration\n" +
			"ends that. It is shown before it is written, and removed again unless containerd's own reader finds that it\n" +
			"changes nothing else. containerd is not restarted: the command for it is printed, and containers run on.\n" +
			"Affected is who reads CPU rates from CRI (`crictl stats`, a kubelet with PodAndContainerStatsFromCRI): they\n" +
			"are averages since the request before then. --undo takes the drop-in off, also when containerd does not run.",
		Example: "  journalet check\n" +
			"  journalet check --container-runtime-endpoint unix:///run/crio/crio.sock\n" +
			"  journalet check -o json\n" +
			"  journalet check --fix --dry-run\n" +
			"  journalet check --fix && systemctl restart containerd\n" +
			"  journalet check --undo --yes && systemctl restart containerd",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			problems, err := a.load(cmd.Flags(), cfg)
			if err != nil {
				return err
			}
			if o.fix || o.undo {
				change, err := o.change(cmd.Context(), cfg)
				if err != nil {
					return err
				}
				return a.tune(cmd.Context(), change, &o)
			}
			return a.check(cmd.Context(), cfg, problems)
		},
	}
	cfg.AddFlags(cmd.Flags())
	o.addFlags(cmd)
	return a.outputFlag(cmd, formatTable, formatJSON, formatYAML)
}

// check runs all checks, after the problems of the configuration.
func (a *app) check(ctx context.Context, cfg *config.Config, problems []config.Problem) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var rows []checkRow
	for _, p := range problems {
		rows = append(rows, checkRow{"configuration", string(preflight.Warn), p.String(), ""})
	}
	for _, c := range preflight.Run(ctx, cfg) {
		rows = append(rows, checkRow{c.Name, string(c.Status), c.Message, c.Remedy})
	}
	return a.printChecks(rows)
}

func (a *app) printChecks(rows []checkRow) error {
	failed := 0
	for _, r := range rows {
		if r.Status == string(preflight.Fail) {
			failed++
		}
	}
	if a.output != formatTable {
		if err := printValue(a.out, a.output, map[string]any{"checks": rows, "failed": failed}); err != nil {
			return err
		}
	} else {
		cells := [][]string{{"CHECK", "STATUS", "MESSAGE"}}
		for _, r := range rows {
			cells = append(cells, []string{r.Name, r.Status, oneLine(r.Message)})
		}
		(&table{w: a.out}).print(cells...)
		a.printRemedies(rows)
	}
	if failed > 0 {
		return errCheckFailed
	}
	return nil
}

// printRemedies prints the remedies of failed checks and warnings.
func (a *app) printRemedies(rows []checkRow) {
	first := true
	for _, r := range rows {
		if r.Remedy == "" || r.Status == string(preflight.OK) {
			continue
		}
		if first {
			fmt.Fprintln(a.out, "\nWhat to do:")
			first = false
		}
		fmt.Fprintf(a.out, "  %s: %s\n", r.Name, oneLine(r.Remedy))
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
