package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/test/must"
)

func TestJournalPruneNeedsOneBound(t *testing.T) {
	root := stoppedRoot(t)
	for _, args := range [][]string{
		{}, {"--before", "5", "--keep-bytes", "1Mi"}, {"--keep-bytes", "much"}, {"--keep-bytes", "-1"}, {"--before", "soon"},
		{"--before", "12"}, {"--before", "0"},
	} {
		args = append([]string{"journal", "prune", "--root-dir", root}, args...)
		if code, _, errs := run(t.Context(), args...); code != exitUsage {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
}

func TestJournalPruneOfStoppedAgentReportsWhatStays(t *testing.T) {
	root := stoppedRoot(t)
	for _, more := range [][]string{{"--dry-run"}, {}} {
		args := append([]string{"journal", "prune", "--before", "6", "--root-dir", root}, more...)
		code, out, errs := run(t.Context(), args...)
		if code != exitOK || !strings.Contains(out, "nothing: the journal begins with record 1.") {
			t.Fatal(code, out, errs)
		}
	}
}

func TestJournalPruneIsDoneByTheRunningAgent(t *testing.T) {
	root := t.TempDir()
	b := openBus(t, root, "node-1")
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	for range 5 {
		must.OK(t, b.Journal().Append(agentStopped(now)))
	}
	must.OK(t, b.Journal().Flush(t.Context()))
	var requested []bus.Retention
	serveQueries(t, b, query.Options{
		Prune: func(_ context.Context, r bus.Retention, dryRun bool) (bus.Pruned, error) {
			if requested = append(requested, r); dryRun {
				return bus.Pruned{First: 1, Keep: 3, Bytes: 2048, Permitted: 4}, nil
			}
			return bus.Pruned{First: 1, Keep: 4, Bytes: 3072, Permitted: 4, Manifests: 2}, nil
		},
	})
	code, out, errs := run(t.Context(), "journal", "prune", "--before", "4", "--dry-run", "--root-dir", root)
	if code != exitOK || !strings.Contains(out, "Would remove records 1 to 2, 2.0 KiB on disk.") ||
		!strings.Contains(out, "begins with record 3 then") || !strings.Contains(out, "Records 3 to 3 stay") {
		t.Fatal(code, out, errs)
	}
	code, out, errs = run(t.Context(), "journal", "prune", "--keep-bytes", "1Mi", "--root-dir", root)
	if code != exitOK || !strings.Contains(out, "Removed records 1 to 3") || !strings.Contains(out, "2 manifests") {
		t.Fatal(code, out, errs)
	}
	if len(requested) != 2 || requested[0].Before != 4 || requested[1].Bytes != 1<<20 {
		t.Fatalf("%+v", requested)
	}
	if served, err := bus.Served(filepath.Join(root, busDir)); err != nil || !served {
		t.Fatal(served, err)
	}
}
