package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/agent"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/history/open"
	"github.com/journalet/journalet/runtime/reset"
)

// defaultResetGrace bounds a pod's grace period in a reset: the default of a pod.
const defaultResetGrace = 30 * time.Second

// maxConfirmation bounds what a user types to confirm.
const maxConfirmation = 1 << 10

type resetOptions struct {
	yes, dryRun, keepJournal bool
	grace                    time.Duration
}

func (a *app) resetCommand() *cobra.Command {
	cfg := a.defaults()
	var o resetOptions
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Take everything of the agent off this node",
		Long: "Take everything of a stopped agent off this node: its pods, those of lower priority first, with their\n" +
			"sandboxes, containers, volumes, directories, logs, links and cgroups; then its journal, its keys and its\n" +
			"socket. It takes the flags of `journalet run`; give those that the agent had. Containers get their stop signal\n" +
			"and their grace period, and no preStop hook: `journalet drain` runs them, while the agent runs.\n\n" +
			"What others have on the same runtime stays, as do manifests, configuration, images and what else is in the\n" +
			"root directory. Nothing is removed through a mount of others. What cannot be removed is reported with its\n" +
			"reason and exit code 1, and the journal stays for a further reset.\n\n" +
			"It asks first, and begins with y or the node's name. Without a terminal it needs --yes.",
		Example: "  journalet reset --dry-run\n  journalet reset\n" +
			"  journalet reset --yes --keep-journal --grace-period 5s",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.grace < 0 {
				return usagef("--grace-period: %s is less than no time", o.grace)
			}
			if _, err := a.load(cmd.Flags(), cfg); err != nil {
				return err
			}
			return a.reset(cmd.Context(), cfg, o)
		},
	}
	cfg.AddFlags(cmd.Flags())
	f := cmd.Flags()
	f.BoolVar(&o.yes, "yes", false, "do not ask")
	f.BoolVar(&o.dryRun, "dry-run", false, "report what would be removed, and remove nothing")
	f.BoolVar(&o.keepJournal, "keep-journal", false, "leave the journal and the keys of the bus")
	f.DurationVar(&o.grace, "grace-period", defaultResetGrace, "longest grace period of a pod")
	return a.outputFlag(cmd, formatTable, formatJSON, formatYAML)
}

func (a *app) reset(ctx context.Context, cfg *config.Config, o resetOptions) error {
	release, err := lockForReset(cfg.RootDir, o.dryRun)
	if err != nil {
		return err
	}
	defer release()
	opts, node, closed, err := agent.ResetOptions(cfg, slog.New(slog.DiscardHandler))
	defer closed()
	if err != nil {
		return err
	}
	opts.MaxGrace, opts.KeepJournal = o.grace, o.keepJournal
	if a.output == formatTable {
		opts.Progress = func(line string) { fmt.Fprintln(a.out, line) }
	}
	found, err := reset.Find(ctx, opts)
	if errors.Is(err, reset.ErrRuntime) {
		return fmt.Errorf("%w; start it, or name it with --container-runtime-endpoint: nothing was changed", err)
	}
	if err != nil {
		return err
	}
	if found.Empty() || o.dryRun {
		return a.printFound(found, node, cfg.RootDir, o)
	}
	if err := a.confirmReset(found, node, cfg.RootDir, o); err != nil {
		return err
	}
	return a.printReset(reset.Remove(ctx, opts, found), node, o)
}

// lockForReset keeps agents from starting, unless nothing is to be changed. It fails while one runs.
func lockForReset(root string, dryRun bool) (release func(), err error) {
	dir := filepath.Join(root, open.BusDir)
	if dryRun {
		var served bool
		if served, err = bus.Served(dir); served {
			err = bus.ErrServed
		}
		release = func() {}
	} else {
		release, err = bus.Lock(dir)
	}
	if errors.Is(err, bus.ErrServed) {
		return nil, fmt.Errorf("an agent runs with root directory %s: stop it first (`systemctl disable --now journalet`, "+
			"or SIGTERM): nothing was changed", root)
	}
	return release, err
}

// confirmReset asks on a terminal.
func (a *app) confirmReset(f *reset.Found, node, root string, o resetOptions) error {
	if o.yes {
		return nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return usagef("a reset removes %d pods of node %s: without a terminal to ask on it needs --yes "+
			"(--dry-run shows what it would remove)", len(f.Pods), node)
	}
	a.describeFound(f, node, root, o)
	fmt.Fprintf(a.out, "\nRemove all this from node %s? Type y or the node's name: ", node)
	line, err := bufio.NewReader(io.LimitReader(os.Stdin, maxConfirmation)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch answer := strings.TrimSpace(line); {
	case answer == node, strings.EqualFold(answer, "y"), strings.EqualFold(answer, "yes"):
		return nil
	}
	return errors.New("not confirmed: nothing was changed")
}

func (a *app) printFound(f *reset.Found, node, root string, o resetOptions) error {
	if a.output != formatTable {
		return printValue(a.out, a.output, f)
	}
	if f.Empty() {
		fmt.Fprintf(a.out, "Nothing of an agent with root directory %s is on node %s.\n", root, node)
		return nil
	}
	a.describeFound(f, node, root, o)
	fmt.Fprintln(a.out, "\nNothing was changed.")
	return nil
}

// describeFound prints what a reset removes, in its order.
func (a *app) describeFound(f *reset.Found, node, root string, o resetOptions) {
	if f.Unread != "" {
		a.notice("the journal cannot be read, so that pods are not removed by priority: " + f.Unread)
	}
	if len(f.Pods) > 0 {
		fmt.Fprintf(a.out, "Pods of node %s, in the order of their removal:\n", node)
		cells := [][]string{{"POD", "PRIORITY", "RUNNING", "CONTAINERS", "GRACE"}}
		for _, p := range f.Pods {
			cells = append(cells, []string{p.String(), fmt.Sprint(p.Priority), fmt.Sprint(p.Running),
				fmt.Sprint(p.Containers), (time.Duration(p.GraceSeconds) * time.Second).String()})
		}
		(&table{w: a.out}).print(cells...)
	}
	if len(f.Files) > 0 {
		fmt.Fprintln(a.out, "\nThen:")
		for _, path := range f.Files {
			fmt.Fprintf(a.out, "  %s\n", path)
		}
	}
	if len(f.Others) > 0 {
		fmt.Fprintf(a.out, "\nNot the agent's, and so left in %s:\n", root)
		for _, path := range f.Others {
			fmt.Fprintf(a.out, "  %s\n", path)
		}
	}
	if o.keepJournal {
		fmt.Fprintf(a.out, "\nThe journal stays: %s\n", filepath.Join(root, open.BusDir))
	}
}

func (a *app) printReset(r *reset.Report, node string, o resetOptions) error {
	if a.output != formatTable {
		if err := printValue(a.out, a.output, r); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.out, "Removed %d pods from node %s.\n", r.Removed, node)
		for _, line := range r.Left {
			fmt.Fprintf(a.out, "Left: %s\n", oneLine(line))
		}
		if len(r.Left) == 0 {
			fmt.Fprintln(a.out, cmp.Or(map[bool]string{true: "The journal stays."}[o.keepJournal],
				"Nothing of the agent is left."))
		}
	}
	if len(r.Left) > 0 {
		return errCheckFailed
	}
	return nil
}
