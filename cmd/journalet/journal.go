package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history/describe"
)

func (a *app) journalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "journal",
		Short: "Check, measure and repair the journal",
		Long: "Check and measure the journal: that of the running agent or, if none runs, that in the files. Set its\n" +
			"damaged part aside.",
		Example: "  journalet journal verify\n  journalet journal size\n  journalet journal repair --dry-run",
		Args:    usageArgs(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.verifyCommand(), a.sizeCommand(), a.repairCommand(), a.pruneCommand(),
		a.exportCommand(), a.importCommand())
	return cmd
}

// readJournal queries the agent or, if none has the journal open, reads the files: the agent is down, or the directory
// is a copy.
func (a *app) readJournal(ctx context.Context, fromAgent func(*query.Client) error,
	fromFiles func(*bus.Stored) error) error {
	if a.server != "" || a.nkey != "" || a.node != "" {
		return a.withClient(ctx, false, fromAgent)
	}
	s, err := bus.OpenStored(filepath.Join(a.rootDir, busDir))
	switch {
	case err == nil:
		suffix := ""
		if s.Node() != "" {
			suffix = " of node " + s.Node()
		}
		a.notice("no agent is running with root directory " + a.rootDir + ": reading the files of the journal" + suffix)
		return fromFiles(s)
	case errors.Is(err, bus.ErrServed), errors.Is(err, bus.ErrNoJournal), errors.Is(err, fs.ErrPermission):
		return a.withClient(ctx, false, fromAgent)
	}
	return err
}

func (a *app) verifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that the journal is complete and unchanged",
		Long: "Check the whole journal: contiguous numbers, the hash chain, epochs, causes, and the head file. A running\n" +
			"agent checks it while it works. If none runs, the command reads the files, also in a copy of the agent's\n" +
			"root directory, and changes nothing. Of a bundle (--journal FILE) it checks every byte. Exit code 4 if a\n" +
			"check fails. A loss that the agent has already recorded in the journal is shown and does not fail the\n" +
			"check.\n\n" +
			"This finds accidents, not attackers: the hash chain has no key, so a process that may write the root\n" +
			"directory can compute it again.",
		Example: "  journalet journal verify\n  journalet journal verify -o json\n" +
			"  journalet journal verify --journal /mnt/copy\n  journalet journal verify --journal node.journalet",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, progress := cmd.Context(), a.progress("checked", "records")
			if a.journal != "" {
				if done, err := a.verifyBundle(ctx, a.journal); done {
					return err
				}
				a.rootDir = rootOf(a.journal)
			}
			verified := func(r *bus.VerifyReport, err error) error {
				a.endProgress()
				if err != nil {
					return err
				}
				return a.printVerified(r)
			}
			return a.readJournal(ctx, func(c *query.Client) error { return verified(c.Verify(ctx, progress)) },
				func(s *bus.Stored) error {
					r, err := s.Verify(ctx, progress)
					return verified(&r, err)
				})
		},
	}
	a.journalFlag(cmd)
	return a.clientFlags(cmd, formatTable, formatJSON, formatYAML)
}

func (a *app) printVerified(r *bus.VerifyReport) error {
	if a.output != formatTable {
		if err := printValue(a.out, a.output, r); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.out, "Records %d to %d, epochs: %d, size: %s\n", r.First, r.Last, r.Epochs, describe.Size(r.Bytes))
		if r.Cut {
			fmt.Fprintf(a.out, "Records before %d were cut by retention.\n", r.First)
		}
		for _, l := range r.Lost {
			fmt.Fprintf(a.out, "Records %d to %d were lost, as recorded in record %d.\n", l.From, l.To, l.ReportedBy)
		}
		for _, p := range r.Problems {
			fmt.Fprintf(a.out, "  #%d  %s\n", p.Seq, p.Message)
		}
		switch {
		case r.OK() && len(r.Lost) > 0:
			fmt.Fprintln(a.out, "The rest of the journal is complete and unchanged.")
		case r.OK():
			fmt.Fprintln(a.out, "The journal is complete and unchanged.")
		case r.Found > len(r.Problems):
			fmt.Fprintf(a.out, "%d problems, %d of them listed.\n", r.Found, len(r.Problems))
		default:
			fmt.Fprintf(a.out, "Problems: %d.\n", r.Found)
		}
	}
	if !r.OK() {
		return errDamaged
	}
	return nil
}

// progress returns a function that shows the progress of a long operation on a terminal, nil without a terminal.
func (a *app) progress(did, what string) func(done, total uint64) {
	if !a.err.terminal() {
		return nil
	}
	return func(done, total uint64) {
		if total > 0 {
			a.err.status(fmt.Sprintf("%s %d of %d %s (%d %%)", did, done, total, what, done*100/total))
		}
	}
}

func (a *app) endProgress() {
	if a.err.terminal() {
		a.err.status("")
	}
}

func (a *app) sizeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "size",
		Short: "Show the size of the journal by actor, event and pod",
		Long: "Show the size of the journal on disk, and the shares of kinds of actors, events and pods. If no agent\n" +
			"runs, the command reads the files and shows pods by their UIDs.",
		Example: "  journalet journal size\n  journalet journal size -o json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.readJournal(ctx, func(c *query.Client) error {
				if a.err.terminal() {
					a.err.status("the agent measures its journal") // it reads all of it
				}
				r, err := c.Size(ctx)
				a.endProgress()
				if err != nil {
					return err
				}
				names := map[string]string{}
				if a.output == formatTable {
					if pods, err := c.Pods(ctx, ""); err == nil {
						for i := range pods.Items {
							names[string(pods.Items[i].UID)] = podName(&pods.Items[i])
						}
					}
				}
				return a.printSize(r, names)
			}, func(s *bus.Stored) error {
				r, err := s.Size(ctx, a.progress("measured", "records"))
				a.endProgress()
				if err != nil {
					return err
				}
				return a.printSize(&r, nil)
			})
		},
	}
	return a.clientFlags(cmd, formatTable, formatJSON, formatYAML)
}

func (a *app) printSize(r *bus.SizeReport, names map[string]string) error {
	if a.output != formatTable {
		return printValue(a.out, a.output, r)
	}
	fmt.Fprintln(a.out, "On disk:")
	(&table{w: a.out, indent: "  "}).print(
		[]string{"WHAT", "MESSAGES", "SIZE"},
		[]string{"journal", fmt.Sprint(r.Journal.Count), describe.Size(r.JournalDisk)},
		[]string{"manifests", fmt.Sprint(r.Manifests), describe.Size(r.ManifestsDisk)},
		[]string{"snapshots", fmt.Sprint(r.Snapshots), describe.Size(r.SnapshotsDisk)},
		[]string{"total", "", describe.Size(r.Total())},
	)
	fmt.Fprintf(a.out, "\nRecords as encoded: %s\n", describe.Size(r.Journal.Bytes))
	shares := func(title, what string, list []bus.Share, name func(string) string) {
		if len(list) == 0 {
			return
		}
		fmt.Fprintf(a.out, "\n%s:\n", title)
		rows := [][]string{{what, "COUNT", "SIZE", "SHARE"}}
		for _, s := range list {
			share := "-"
			if r.Journal.Bytes > 0 {
				share = fmt.Sprintf("%.1f %%", float64(s.Bytes)*100/float64(r.Journal.Bytes))
			}
			rows = append(rows, []string{name(s.Name), fmt.Sprint(s.Count), describe.Size(s.Bytes), share})
		}
		(&table{w: a.out, indent: "  "}).print(rows...)
	}
	if len(r.Sets) > 0 {
		fmt.Fprintln(a.out, "\nSets of snapshots, by the last record that they contain:")
		rows := [][]string{{"RECORD", "STATES", "SIZE"}}
		for _, set := range r.Sets {
			rows = append(rows, []string{set.Name, fmt.Sprint(set.Count), describe.Size(set.Bytes)})
		}
		(&table{w: a.out, indent: "  "}).print(rows...)
	}
	same := func(s string) string { return s }
	shares("By kind of actor", "KIND", r.ByKind, same)
	shares("By event", "EVENT", r.ByEvent, same)
	shares("Largest pods", "POD", r.Pods, func(uid string) string {
		if n := names[uid]; n != "" {
			return n
		}
		return uid
	})
	return nil
}
