package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/deploy/systemd"
	"github.com/journalet/journalet/runtime/install"
)

const (
	// systemdDir is there while systemd runs.
	systemdDir  = "/run/systemd/system"
	unitName    = "journalet.service"
	kubeletUnit = "kubelet.service"
	maxSaidText = 4 << 10
)

type installOptions struct {
	install.Options
	dryRun bool
}

func (o *installOptions) addFlags(cmd *cobra.Command) {
	o.Unit, o.Flags, o.Links = systemd.Unit, systemd.Flags, []string{pluginName, pluginCompleteName}
	f := cmd.Flags()
	f.StringVar(&o.Root, "root", "/", "install below this directory, such as that of an image; systemd is left alone then")
	f.StringVar(&o.Prefix, "prefix", "/usr/local", "directory whose bin has the program")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would change, and change nothing")
	_ = cmd.MarkFlagDirname("root") // fails only for an unknown flag
}

// live reports whether the machine that runs is changed, and has systemd.
func (o *installOptions) live() bool {
	_, err := os.Stat(systemdDir)
	return o.Root == "/" && err == nil
}

func (a *app) installCommand() *cobra.Command {
	var o installOptions
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install this program and its systemd unit, where there is no package of it",
		Long: "Copy this program to /usr/local/bin, with its names as a plugin of kubectl, and write the unit\n" +
			"journalet.service, the file with the agent's flags and the directory of manifests. Nothing is started or\n" +
			"enabled. Over an older installation it is an upgrade: an agent that runs is restarted, also in the\n" +
			"kubelet's place, and no pod ends.\n\n" +
			"A file with flags that is there stays as it is. A unit that differs is renamed to journalet.service.old:\n" +
			"use `systemctl edit` for changes. It may be repeated: what is as it should be is left alone.",
		Example: "  journalet install --dry-run\n" +
			"  ./journalet install && systemctl enable --now journalet\n" +
			"  ./journalet install --root /mnt/image",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Program, err = os.Executable(); err != nil {
				return err
			}
			p, err := install.Install(o.Options)
			if err != nil {
				return err
			}
			return a.install(cmd.Context(), p, o)
		},
	}
	o.addFlags(cmd)
	return a.outputFlag(cmd, formatTable, formatJSON, formatYAML)
}

func (a *app) install(ctx context.Context, p *install.Plan, o installOptions) error {
	if err := a.printChanges(p.Changes); err != nil || o.dryRun {
		return err
	}
	if err := p.Apply(); err != nil {
		return err
	}
	if !o.live() {
		return nil
	}
	if err := systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	for _, unit := range o.units() {
		if systemctl(ctx, "is-active", "--quiet", unit) == nil {
			a.notice("restarting " + unit + ": no pod ends")
			return systemctl(ctx, "try-restart", unit)
		}
	}
	a.notice("installed, and not started: `journalet check && systemctl enable --now journalet`")
	return nil
}

// units are the units that may run the program.
func (o *installOptions) units() []string {
	if o.IsKubelet() {
		return []string{unitName, kubeletUnit}
	}
	return []string{unitName}
}

func (a *app) uninstallCommand() *cobra.Command {
	var o installOptions
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Take off what `journalet install` has installed",
		Long: "Stop and disable journalet.service, and remove the unit, the program and its links. Pods run on without an\n" +
			"agent. The agent's flags, manifests and root directory stay; `journalet reset` before it removes the pods and\n" +
			"the journal.",
		Example: "  journalet uninstall --dry-run\n" +
			"  systemctl stop journalet && journalet reset && journalet uninstall",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := install.Uninstall(o.Options)
			if err != nil {
				return err
			}
			return a.uninstall(cmd.Context(), p, o)
		},
	}
	o.addFlags(cmd)
	return a.outputFlag(cmd, formatTable, formatJSON, formatYAML)
}

func (a *app) uninstall(ctx context.Context, p *install.Plan, o installOptions) error {
	if err := a.printChanges(p.Changes); err != nil || o.dryRun {
		return err
	}
	if o.live() && systemctl(ctx, "cat", unitName) == nil {
		if err := systemctl(ctx, "disable", "--now", unitName); err != nil {
			return err
		}
	}
	if err := p.Apply(); err != nil {
		return err
	}
	if o.live() {
		return systemctl(ctx, "daemon-reload")
	}
	return nil
}

// printChanges prints what becomes of each path.
func (a *app) printChanges(changes []install.Change) error {
	if a.output != formatTable {
		return printValue(a.out, a.output, changes)
	}
	for _, c := range changes {
		to := ""
		if c.To != "" {
			to = " -> " + c.To
		}
		if _, err := fmt.Fprintf(a.out, "%-9s  %s%s\n", c.Action, c.Path, to); err != nil {
			return err
		}
	}
	return nil
}

// systemctl runs it. Its error has what it says.
func systemctl(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput() //nolint:gosec // our own words
	if err != nil {
		said := strings.TrimSpace(string(out[:min(len(out), maxSaidText)]))
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, said)
	}
	return nil
}
