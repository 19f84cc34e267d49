package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/open"
)

func (a *app) repairCommand() *cobra.Command {
	dryRun := false
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Set the damaged part of a journal aside",
		Long: "Repair the journal of a stopped agent. What is damaged is copied into damaged/ of the bus directory and\n" +
			"then removed from the journal; nothing is deleted, and no repair removes what an earlier one set aside.\n" +
			"The loss is recorded in the journal, which `journalet journal verify` then accepts. A sound journal is not\n" +
			"changed.\n\n" +
			"Records behind a loss stay if snapshots were taken after it. Otherwise the state at their end cannot be\n" +
			"computed: they are set aside too, and the next start continues from the state before the loss and from what\n" +
			"the runtime shows, as after a loss of the journal's end. The directory that holds what was set aside is a\n" +
			"journal that the other commands read (--journal).",
		Example: "  journalet journal repair --dry-run\n  journalet journal repair\n" +
			"  journalet journal repair --root-dir /mnt/copy",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.repair(cmd.Context(), dryRun)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "report what is damaged and what would be set aside, with exit code 4")
	return a.outputFlag(cmd, formatTable, formatJSON, formatYAML)
}

func (a *app) repair(ctx context.Context, dryRun bool) error {
	dir := filepath.Join(a.rootDir, open.BusDir)
	r, err := bus.CheckForRepair(ctx, dir, a.progress("checked", "records"))
	a.endProgress()
	if errors.Is(err, bus.ErrServed) {
		return fmt.Errorf("an agent runs with root directory %s: stop it first; it survives damage by itself, and a repair "+
			"needs the journal's files", a.rootDir)
	}
	if err != nil {
		return err
	}
	names := a.namesOfLost(ctx, &r.Report)
	if !dryRun {
		if err := r.Apply(ctx, slog.New(slog.DiscardHandler)); err != nil {
			return err
		}
	}
	if err := a.printRepair(&r.Report, names, dryRun); err != nil {
		return err
	}
	if dryRun && !r.Report.Sound {
		return errDamaged
	}
	return nil
}

func (a *app) printRepair(r *bus.RepairReport, names map[string]string, dryRun bool) error {
	if a.output != formatTable {
		return printValue(a.out, a.output, r)
	}
	if r.Sound {
		fmt.Fprintln(a.out, "The journal is sound: nothing to repair.")
		return nil
	}
	fmt.Fprintln(a.out, "Found:")
	for _, text := range r.Found {
		fmt.Fprintf(a.out, "  %s\n", text)
	}
	if len(r.Lost) > 0 {
		fmt.Fprintln(a.out, "\nLost:")
		for _, l := range r.Lost {
			fmt.Fprintf(a.out, "  records %d to %d%s\n", l.From, l.To, ofPods(l.Pods, names))
		}
	}
	did := "were set aside"
	if dryRun {
		did = "would be set aside"
	}
	if t := r.Tail; t != nil {
		fmt.Fprintf(a.out, "\nThe whole records from %d to %d %s with it: no snapshot was taken after the loss, so the\n"+
			"state at their end cannot be computed. The next start continues from the state before.\n", t.From, t.To, did)
	}
	if dryRun {
		fmt.Fprintln(a.out, "\nNothing was changed.")
		return nil
	}
	fmt.Fprintf(a.out, "\nThe journal is repaired. What it was is in %s;\nread it with --journal.\n", r.SetAside)
	return nil
}

// ofPods names pods, as far as they are known.
func ofPods(uids []string, names map[string]string) string {
	if len(uids) == 0 {
		return ""
	}
	out := make([]string, len(uids))
	for i, uid := range uids {
		if out[i] = uid; names[uid] != "" {
			out[i] = names[uid] + " (" + uid + ")"
		}
	}
	return ", some of them of " + strings.Join(out, ", ")
}

// namesOfLost returns the names of the pods in a report, by UID, as far as records that can be read have them.
func (a *app) namesOfLost(ctx context.Context, r *bus.RepairReport) map[string]string {
	names := map[string]string{}
	for _, l := range r.Lost {
		for _, uid := range l.Pods {
			names[uid] = ""
		}
	}
	if len(names) == 0 {
		return names
	}
	j, err := open.Path(ctx, filepath.Join(a.rootDir, open.BusDir))
	if err != nil {
		return names // the UIDs have to do
	}
	_ = j.Read(ctx, 0, 0, func(e history.Entry) error {
		rec, err := e.Record()
		if err != nil {
			return nil
		}
		for _, event := range messages.Events(rec) {
			pod := event.GetPodUpdated().GetPod()
			if _, ok := names[pod.GetUid()]; ok && pod.GetName() != "" {
				names[pod.GetUid()] = pod.GetNamespace() + "/" + pod.GetName()
			}
		}
		return nil
	})
	return names
}
