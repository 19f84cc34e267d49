package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/open"
)

// journalFlag adds --journal to a command that reads a journal from its files.
func (a *app) journalFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.journal, "journal", "",
		"journal to read: a root directory, a copy of one, or a bundle; empty: that in --root-dir")
	_ = cmd.MarkFlagFilename("journal") // fails only for an unknown flag
}

// openJournal opens the journal that --journal names or, without it, that of the agent, which may run: its files are
// read as they are now, and nothing is written.
func (a *app) openJournal(ctx context.Context) (history.Reader, error) {
	if a.journal != "" {
		return open.Path(ctx, a.journal)
	}
	return open.Path(ctx, filepath.Join(a.rootDir, open.BusDir))
}
