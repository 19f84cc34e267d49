package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/bundle"
)

func (a *app) importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE --root-dir DIR",
		Short: "Write a bundle out as a root directory with a journal in it",
		Long: "Write the journal in a bundle into the root directory DIR, which must be new or empty, so that commands\n" +
			"that take --root-dir read it: verify, size, replay, why, observe. Most need no import, as they read the bundle\n" +
			"itself by --journal FILE. A bundle of some pods is not a whole journal and cannot be imported.\n\n" +
			"The journal is there to be read. No agent starts on it: another node's refuses it in any case, and the node's\n" +
			"own would take old observations for the present.",
		Example: "  journalet journal import node.journalet --root-dir /tmp/node\n" +
			"  journalet journal verify --root-dir /tmp/node",
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("root-dir") && os.Getenv(rootDirEnv) == "" {
				return usagef("name the directory to write: --root-dir DIR")
			}
			return a.importBundle(cmd.Context(), args[0])
		},
	}
	return cmd
}

func (a *app) importBundle(ctx context.Context, path string) error {
	b, err := bundle.Open(path)
	if err != nil {
		return err
	}
	defer b.Close()
	if pods := b.Header().GetPods(); len(pods) > 0 {
		return fmt.Errorf("%s holds the records of %d pods only, and a journal has no gaps: "+
			"give it to the command itself, as --journal %[1]s", path, len(pods))
	}
	if err := mayImport(a.rootDir); err != nil {
		return err
	}
	// Nothing is written before the bundle is known to be whole.
	err = b.Check(ctx, a.progress("checked", "bytes"))
	a.endProgress()
	if err != nil {
		return err
	}
	err = a.writeJournal(ctx, b)
	a.endProgress()
	if err != nil {
		return fmt.Errorf("import %s: %w; remove %s before you try again", path, err, a.rootDir)
	}
	info := infoOf(b.Header(), b.Index(), uint64(b.Size()))
	info.print(a.out)
	fmt.Fprintf(a.out, "Written to %s\n", a.rootDir)
	return nil
}

// mayImport returns an error unless a root directory is new or empty.
func mayImport(dir string) error {
	for _, err := range bounded.Entries(dir) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		return usagef("%s is not empty: name a new directory", dir)
	}
	return nil
}

// writeJournal writes records, manifests and sets of snapshots.
func (a *app) writeJournal(ctx context.Context, b *bundle.Reader) (err error) {
	first, last := b.Bounds()
	i, err := bus.NewImport(ctx, filepath.Join(a.rootDir, busDir), b.Node(), first)
	if err != nil {
		return err
	}
	defer i.Abort()
	progress := a.progress("imported", "records")
	err = b.Read(ctx, 0, 0, func(e history.Entry) error {
		if progress != nil && e.Seq%4096 == 0 {
			progress(e.Seq-first, last+1-first)
		}
		rec, err := messages.Decode(e.Bytes)
		if err != nil {
			return err
		}
		return i.Record(e.Bytes, rec)
	})
	if err != nil {
		return err
	}
	if err := i.Flush(ctx); err != nil {
		return err
	}
	err = b.Manifests(ctx, func(digest string, manifest []byte) error { return i.Manifest(ctx, digest, manifest) })
	if err != nil {
		return err
	}
	barriers, err := b.Snapshots(ctx)
	if err != nil {
		return err
	}
	for _, barrier := range barriers {
		set, err := b.Snapshot(ctx, barrier)
		if err != nil {
			return err
		}
		if err := i.Snapshots(ctx, barrier, set); err != nil {
			return err
		}
	}
	return i.Close(ctx)
}
