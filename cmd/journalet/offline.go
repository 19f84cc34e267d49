package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/open"
)

// journalFlag adds --journal to a command that reads a journal from its files.
func (a *app) journalFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.journal, "journal", "",
		"journal to read: a root directory, a copy of one, or a bundle; empty: that in --root-dir")
	_ = cmd.MarkFlagFilename("journal") // fails only for an unknown flag
}

// openJournal opens the journal that --journal names or, without the flag, the agent's journal. The agent may run:
// openJournal reads the files as they are now, and writes nothing. A journal that no agent of --root-dir writes is as
// of its end, whenever it is read: asOf is that time.
func (a *app) openJournal(ctx context.Context) (history.Reader, error) {
	path, served := a.journal, false
	if path == "" {
		path = filepath.Join(a.rootDir, open.BusDir)
		served, _ = bus.Served(path) // an error shows when it is opened
	}
	r, err := open.Path(ctx, path)
	if err != nil || served {
		return r, err
	}
	_, end, err := history.Ends(ctx, r)
	if err != nil {
		return nil, err
	}
	if a.asOf = end.In(a.now().Location()); a.journal == "" && !end.IsZero() {
		a.notice("no agent is running with root directory " + a.rootDir + ": this is how things were at " +
			end.Format(time.RFC3339) + ", when its journal ends")
	}
	return r, nil
}

// onlyFiles reports whether --root-dir has a journal and no agent that has it open.
func (a *app) onlyFiles() bool {
	dir := filepath.Join(a.rootDir, open.BusDir)
	served, err := bus.Served(dir)
	if served || err != nil {
		return false
	}
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

// present returns the time that ages are computed from: now, or the end of a journal that no agent writes.
func (a *app) present() time.Time {
	if !a.asOf.IsZero() {
		return a.asOf
	}
	return a.now()
}
