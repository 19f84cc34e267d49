package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/query"
)

func (a *app) journalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "journal",
		Short:   "Check and measure the journal",
		Example: "  journalet journal verify\n  journalet journal size",
		Args:    usageArgs(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.verifyCommand(), a.sizeCommand())
	return cmd
}

func (a *app) verifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that the journal is whole and unchanged",
		Long: "Have the running agent check its whole journal: contiguous numbers, the hash chain, epochs, causes, and the head\n" +
			"that is kept beside it. The agent goes on with its work meanwhile. Exit code 1 if anything is wrong.",
		Example: "  journalet journal verify\n  journalet journal verify -o json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ask(cmd.Context(), false, func(c *query.Client) error {
				r, err := c.Verify(cmd.Context(), a.progress("checked", "records"))
				a.endProgress()
				if err != nil {
					return err
				}
				return a.printVerified(r)
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
		for _, p := range r.Problems {
			fmt.Fprintf(a.out, "  #%d  %s\n", p.Seq, p.Message)
		}
		switch {
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
		Use:     "size",
		Short:   "Show where the journal's bytes are",
		Long:    "Have the running agent measure its journal: what is on disk, and how much of it which actors, events and pods make up.",
		Example: "  journalet journal size\n  journalet journal size -o json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ask(cmd.Context(), false, func(c *query.Client) error {
				r, err := c.Size(cmd.Context())
				if err != nil {
					return err
				}
				if a.output != formatTable {
					return printValue(a.out, a.output, r)
				}
				names := map[string]string{}
				if pods, err := c.Pods(cmd.Context(), ""); err == nil {
					for i := range pods.Items {
						names[string(pods.Items[i].UID)] = podName(&pods.Items[i])
					}
				}
				a.printSize(r, names)
				return nil
			})
		},
	}
	return a.asking(cmd, formatTable, formatJSON, formatYAML)
}

func (a *app) printSize(r *bus.SizeReport, names map[string]string) {
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
}
