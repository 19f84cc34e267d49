package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
	"github.com/journalet/journalet/runtime/history/open"
)

func (a *app) pruneCommand() *cobra.Command {
	var before, keepBytes string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "prune (--before SEQ|TIME|DURATION | --keep-bytes SIZE)",
		Short: "Remove the oldest records of the journal",
		Long: "Remove the oldest records of the journal, once, as retention does: the agent's --journal-retention-age and\n" +
			"--journal-retention-bytes stay as they are. A running agent removes them itself, on a request with the\n" +
			"control key on this machine; if none runs, the command opens the journal as the agent does.\n\n" +
			"The rest begins behind a set of snapshots, so that it can be folded from its first record on, and the newest\n" +
			"16 MiB stay. So --before removes records up to the last set below it, and --keep-bytes may leave less.",
		Example: "  journalet journal prune --before 168h --dry-run\n" +
			"  journalet journal prune --before 2026-11-01T00:00:00Z\n" +
			"  journalet journal prune --keep-bytes 500Mi",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.pruneBounds(cmd.Context(), before, keepBytes)
			if err != nil {
				return err
			}
			return a.prune(cmd.Context(), r, dryRun)
		},
	}
	f := cmd.Flags()
	f.StringVar(&before, "before", "",
		"remove records before this one: its number, a time (RFC 3339), or a duration before the last record")
	f.StringVar(&keepBytes, "keep-bytes", "",
		"remove records until the journal has at most this size on disk, such as 500Mi")
	f.BoolVar(&dryRun, "dry-run", false, "report what would be removed, and remove nothing")
	return a.outputFlag(cmd, formatTable, formatJSON, formatYAML)
}

// pruneBounds returns what the flags name.
func (a *app) pruneBounds(ctx context.Context, before, keepBytes string) (r bus.Retention, err error) {
	switch {
	case (before == "") == (keepBytes == ""):
		return r, usagef("one of --before and --keep-bytes is needed")
	case keepBytes != "":
		q, err := resource.ParseQuantity(keepBytes)
		if err != nil || resources.Bytes(&q) <= 0 {
			return r, usagef("--keep-bytes: %q is not a size such as 500Mi", keepBytes)
		}
		r.Bytes = uint64(resources.Bytes(&q))
		return r, nil
	}
	j, err := open.Path(ctx, filepath.Join(a.rootDir, open.BusDir))
	if err != nil {
		return r, err
	}
	if r.Before, err = history.ParseMoment(ctx, j, before); err != nil {
		return r, usageError{fmt.Errorf("--before: %w", err)}
	}
	if _, last := j.Bounds(); r.Before == 0 || r.Before > last+1 {
		return r, usagef("--before: there is no record %d: the journal ends with %d", r.Before, last)
	}
	return r, nil
}

func (a *app) prune(ctx context.Context, r bus.Retention, dryRun bool) error {
	dir := filepath.Join(a.rootDir, open.BusDir)
	served, err := bus.Served(dir)
	if err != nil {
		return err
	}
	if served {
		return a.withControl(ctx, func(c *query.Client) error {
			p, err := c.Prune(ctx, query.PruneRequest{Before: r.Before, KeepBytes: r.Bytes, DryRun: dryRun})
			if err != nil {
				return err
			}
			return a.printPruned(p, dryRun)
		})
	}
	var p bus.Pruned
	if dryRun {
		p, err = bus.PlanPruneStored(ctx, dir, r, a.now())
	} else {
		log := slog.New(slog.DiscardHandler)
		p, err = bus.PruneStored(ctx, dir, r, a.now(), log, a.progress("checked", "records"))
		a.endProgress()
	}
	if errors.Is(err, bus.ErrServed) {
		return fmt.Errorf("an agent was started there meanwhile: run the command again: %w", err)
	}
	if err != nil {
		return err
	}
	return a.printPruned(&p, dryRun)
}

func (a *app) printPruned(p *bus.Pruned, dryRun bool) error {
	if a.output != formatTable {
		return printValue(a.out, a.output, p)
	}
	did := "Removed"
	if dryRun {
		did = "Would remove"
	}
	if p.Keep == p.First {
		fmt.Fprintf(a.out, "%s nothing: the journal begins with record %d.\n", did, p.First)
	} else {
		fmt.Fprintf(a.out, "%s records %d to %d, %s on disk. The journal begins with record %d then.\n", did, p.First,
			p.Keep-1, describe.Size(p.Bytes), p.Keep)
	}
	if p.Permitted > p.Keep {
		fmt.Fprintf(a.out, "Records %d to %d stay: the rest begins behind a set of snapshots (`journalet journal size`\n"+
			"lists them), and the newest 16 MiB stay.\n", p.Keep, p.Permitted-1)
	}
	if p.Manifests > 0 {
		fmt.Fprintf(a.out, "Removed %d manifests that nothing names any more.\n", p.Manifests)
	}
	return nil
}
