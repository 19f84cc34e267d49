package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether this machine can run the agent",
		Long: "Check the agent's requirements on this machine: the container runtime and its network, cgroups,\n" +
			"directories, ports. It takes the flags of `journalet run` and changes nothing. Exit code 1 if a check fails.",
		Example: "  journalet check\n" +
			"  journalet check --container-runtime-endpoint unix:///run/crio/crio.sock\n" +
			"  journalet check -o json",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			problems, err := a.load(cmd.Flags(), cfg)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), checkTimeout)
			defer cancel()
			var rows []checkRow
			for _, p := range problems {
				rows = append(rows, checkRow{"configuration", string(preflight.Warn), p.String(), ""})
			}
			for _, c := range preflight.Run(ctx, cfg) {
				rows = append(rows, checkRow{c.Name, string(c.Status), c.Message, c.Remedy})
			}
			return a.printChecks(rows)
		},
	}
	cfg.AddFlags(cmd.Flags())
	return a.outputFlag(cmd, formatTable, formatJSON, formatYAML)
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
