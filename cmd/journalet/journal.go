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
)

func (a *app) journalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "journal",
		Short:   "Check and measure the journal",
		Long:    "Check and measure the journal: that of the running agent, or, where none runs, the files as they lie there.",
		Example: "  journalet journal verify\n  journalet journal size",
		Args:    usageArgs(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.verifyCommand(), a.sizeCommand())
	return cmd
}

// readOrAsk asks the agent, or, where none has the journal open, reads the files: the agent is down, or the folder is a copy.
func (a *app) readOrAsk(ctx context.Context, ask func(*query.Client) error, read func(*bus.Stored) error) error {
	if a.server != "" || a.nkey != "" || a.node != "" {
		return a.ask(ctx, false, ask)
	}
	s, err := bus.OpenStored(filepath.Join(a.rootDir, busFolder))
	switch {
	case err == nil:
		of := ""
		if s.Node() != "" {
			of = " of node " + s.Node()
		}
		a.notice("no agent is running with root directory " + a.rootDir + ": the journal" + of + " is read as it lies there, and nothing is changed")
		return read(s)
	case errors.Is(err, bus.ErrServed), errors.Is(err, bus.ErrNoJournal), errors.Is(err, fs.ErrPermission):
		return a.ask(ctx, false, ask)
	}
	return err
}

func (a *app) verifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that the journal is whole and unchanged",
		Long: "Check the whole journal: contiguous numbers, the hash chain, epochs, causes, and the head that is kept beside it. A\n" +
			"running agent does it and goes on with its work meanwhile. Where none runs, the files are read as they lie there and\n" +
			"nothing is changed: also a copy of the agent's root directory can be checked. Exit code 1 if anything is wrong; records\n" +
			"that were lost, which the agent found and told in a later record, are shown and are no longer wrong.",
		Example: "  journalet journal verify\n  journalet journal verify -o json\n  journalet journal verify --root-dir /mnt/copy",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, far := cmd.Context(), a.progress("checked", "records")
			verified := func(r *bus.VerifyReport, err error) error {
				a.endProgress()
				if err != nil {
					return err
				}
				return a.printVerified(r)
			}
			return a.readOrAsk(ctx, func(c *query.Client) error { return verified(c.Verify(ctx, far)) }, func(s *bus.Stored) error {
				r, err := s.Verify(ctx, far)
				return verified(&r, err)
			})
		},
	}
	return a.asking(cmd, formatTable, formatJSON, formatYAML)
}

func (a *app) printVerified(r *bus.VerifyReport) error {
	if a.output != formatTable {
		if err := printValue(a.out, a.output, r); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.out, "Records %d to %d, runs of the agent: %d, size: %s\n", r.First, r.Last, r.Epochs, query.Size(r.Bytes))
		if r.Cut {
			fmt.Fprintf(a.out, "Records before %d were cut by retention.\n", r.First)
		}
		for _, l := range r.Lost {
			fmt.Fprintf(a.out, "Records %d to %d were lost; record %d tells it, and the journal goes on behind them.\n", l.From, l.To, l.Told)
		}
		for _, p := range r.Problems {
			fmt.Fprintf(a.out, "  #%d  %s\n", p.Seq, p.Message)
		}
		switch {
		case r.OK() && len(r.Lost) > 0:
			fmt.Fprintln(a.out, "What is left of the journal is whole and unchanged.")
		case r.OK():
			fmt.Fprintln(a.out, "The journal is whole and unchanged.")
		case r.Found > len(r.Problems):
			fmt.Fprintf(a.out, "%d problems, of which %d are listed.\n", r.Found, len(r.Problems))
		default:
			fmt.Fprintf(a.out, "Problems: %d.\n", r.Found)
		}
	}
	if !r.OK() {
		return errFound
	}
	return nil
}

// progress shows on a terminal how far a long work is; nil elsewhere.
func (a *app) progress(did, what string) func(done, total uint64) {
	if !terminal(a.err) {
		return nil
	}
	return func(done, total uint64) {
		if total > 0 {
			fmt.Fprintf(a.err, "\r\x1b[K%s %d of %d %s (%d %%)", did, done, total, what, done*100/total)
		}
	}
}

func (a *app) endProgress() {
	if terminal(a.err) {
		fmt.Fprint(a.err, "\r\x1b[K")
	}
}

func (a *app) sizeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "size",
		Short: "Show where the journal's bytes are",
		Long: "Measure the journal: what is on disk, and how much of it which actors, events and pods make up. Where no agent runs,\n" +
			"the files are read as they lie there, and pods go by their UIDs.",
		Example: "  journalet journal size\n  journalet journal size -o json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.readOrAsk(ctx, func(c *query.Client) error {
				r, err := c.Size(ctx)
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
				r, err := s.Size(ctx)
				if err != nil {
					return err
				}
				return a.printSize(&r, nil)
			})
		},
	}
	return a.asking(cmd, formatTable, formatJSON, formatYAML)
}

func (a *app) printSize(r *bus.SizeReport, names map[string]string) error {
	if a.output != formatTable {
		return printValue(a.out, a.output, r)
	}
	fmt.Fprintln(a.out, "On disk:")
	(&table{w: a.out, indent: "  "}).print(
		[]string{"WHAT", "MESSAGES", "SIZE"},
		[]string{"journal", fmt.Sprint(r.Journal.Count), query.Size(r.JournalDisk)},
		[]string{"manifests", fmt.Sprint(r.Manifests), query.Size(r.ManifestsDisk)},
		[]string{"snapshots", fmt.Sprint(r.Snapshots), query.Size(r.SnapshotsDisk)},
		[]string{"total", "", query.Size(r.Total())},
	)
	fmt.Fprintf(a.out, "\nRecords as encoded: %s\n", query.Size(r.Journal.Bytes))
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
			rows = append(rows, []string{name(s.Name), fmt.Sprint(s.Count), query.Size(s.Bytes), share})
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
