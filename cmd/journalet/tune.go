package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/preflight"
	"github.com/journalet/journalet/runtime/tune"
)

// tuneOptions are the flags of `journalet check` that change the runtime's configuration (ADR 097).
type tuneOptions struct {
	fix, undo, yes, dryRun bool
	configFile             string
}

func (o *tuneOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.fix, "fix", false, "write a drop-in of containerd's configuration that ends what the agent does not need")
	f.BoolVar(&o.undo, "undo", false, "remove what --fix has written, also when containerd does not run")
	f.BoolVar(&o.yes, "yes", false, "with --fix and --undo: do not ask")
	f.BoolVar(&o.dryRun, "dry-run", false, "with --fix and --undo: show what would change, and change nothing")
	f.StringVar(&o.configFile, "runtime-config", "",
		"with --fix and --undo: containerd's configuration (default: what its process has, or "+tune.DefaultConfig+")")
	_ = cmd.MarkFlagFilename("runtime-config", "toml") // fails only for an unknown flag
}

// check refuses flags that mean nothing.
func (o *tuneOptions) check() error {
	switch {
	case o.fix && o.undo:
		return usagef("--fix and --undo are one or the other")
	case !o.fix && !o.undo && (o.yes || o.dryRun || o.configFile != ""):
		return usagef("--yes, --dry-run and --runtime-config need --fix or --undo")
	}
	return nil
}

// change returns what --fix or --undo would change.
func (o *tuneOptions) change(ctx context.Context, cfg *config.Config) (change *tune.Change, err error) {
	c, err := preflight.Containerd(cfg, o.configFile)
	switch {
	case err == nil && o.fix:
		change, err = c.Fix(ctx)
	case err == nil:
		change, err = c.Undo()
	case o.undo: // it may not start any more
		c = &tune.Containerd{Root: "/", Config: cmp.Or(o.configFile, tune.DefaultConfig)}
		change, err = c.Undo()
	}
	if err != nil {
		return nil, fmt.Errorf("nothing was changed: %w", err)
	}
	return change, nil
}

// tune shows a change of the runtime's configuration, asks, and carries it out.
func (a *app) tune(ctx context.Context, c *tune.Change, o *tuneOptions) error {
	if a.output != formatTable {
		if err := printValue(a.out, a.output, c); err != nil {
			return err
		}
	} else if err := a.printChanges(c.Changes); err != nil {
		return err
	}
	if c.Done() {
		a.notice("nothing was changed: " + c.Note)
		return nil
	}
	if c.Content != "" && a.output == formatTable {
		fmt.Fprintln(a.out)
		for line := range strings.Lines(c.Content) {
			fmt.Fprint(a.out, strings.TrimRight("  "+line, " \n")+"\n")
		}
		fmt.Fprintln(a.out)
	}
	if o.dryRun {
		return nil
	}
	if err := a.confirmTuning(ctx, c, o); err != nil {
		return err
	}
	if err := c.Apply(ctx); err != nil {
		return err
	}
	if o.undo {
		a.notice("done; to have it in effect: " + c.Restart)
		return nil
	}
	a.notice("done, and `containerd config dump` shows no other change; to have it in effect: " + c.Restart)
	a.notice("with containerd's own unit no container ends by that; if it does not start: journalet check --undo")
	return nil
}

func (a *app) confirmTuning(ctx context.Context, c *tune.Change, o *tuneOptions) error {
	if o.yes {
		return nil
	}
	if !a.onTerminal() {
		return usagef("a change of the runtime's configuration without a terminal to ask on needs --yes " +
			"(--dry-run shows what would change)")
	}
	what := "Write it?"
	if c.Content == "" {
		what = "Change it?"
	}
	return a.confirm(ctx, what, "nothing was changed")
}
