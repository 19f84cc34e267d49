package open

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/bundle"
)

// BusDir is the directory of the bus below an agent's root directory.
const BusDir = "bus"

// Path opens the journal in path: an agent's root directory, its bus directory, a copy of either, or a bundle. The
// agent may run or not, and nothing is written. The reader holds what was stored when it was opened. Errors say what to
// do: there is no journal, it may not be read, it is of another format, or the bundle is damaged.
func Path(ctx context.Context, path string) (history.Reader, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: there is no %s: name an agent's root directory, a copy of it, or a bundle",
			ErrNoJournal, path)
	case err != nil:
		return nil, explain(path, err)
	case !info.IsDir():
		return openBundle(path)
	}
	dir := path
	if below, err := os.Stat(filepath.Join(path, BusDir)); err == nil && below.IsDir() {
		dir = filepath.Join(path, BusDir)
	}
	s, err := bus.OpenShared(ctx, dir)
	if err != nil {
		return nil, explain(path, err)
	}
	return reader{s}, nil
}

// openBundle opens a file. The reader is a *bundle.Reader.
func openBundle(path string) (history.Reader, error) {
	b, err := bundle.Open(path)
	if err != nil {
		return nil, explain(path, err)
	}
	return b, nil
}

// ErrNoJournal means that a path names no journal.
var ErrNoJournal = bus.ErrNoJournal

// explain adds what to do.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("open the journal in %s: %w: run the command as the agent's user", path, err)
	case errors.Is(err, bus.ErrNoJournal):
		return fmt.Errorf("open the journal: %w: name an agent's root directory, a copy of it, or a bundle", err)
	}
	return err
}

// reader is a store of files as history reads it.
type reader struct{ *bus.Stored }

func (r reader) Read(ctx context.Context, from, to uint64, f func(history.Entry) error) error {
	return translate(r.Stored.Read(ctx, from, to, func(seq uint64, b []byte) error {
		return f(history.Entry{Seq: seq, Bytes: b})
	}))
}

// Find makes it a history.Finder.
func (r reader) Find(ctx context.Context, texts []string, kind journaletv1.ActorKind, from, to uint64,
	f func(history.Entry) error) error {
	return translate(r.Stored.Find(ctx, texts, kind, from, to, func(seq uint64, b []byte) error {
		return f(history.Entry{Seq: seq, Bytes: b})
	}))
}

func (r reader) Get(ctx context.Context, seq uint64) (*journaletv1.Record, error) {
	rec, err := r.Stored.Get(ctx, seq)
	return rec, translate(err)
}

func (r reader) Manifest(ctx context.Context, digest string) ([]byte, error) {
	b, err := r.Stored.Manifest(ctx, digest)
	return b, translate(err)
}

func (r reader) Snapshots(ctx context.Context) ([]uint64, error) {
	barriers, err := r.Stored.Snapshots(ctx)
	return barriers, translate(err)
}

func (r reader) Snapshot(ctx context.Context, barrier uint64) ([]*journaletv1.Snapshot, error) {
	set, err := r.Stored.Snapshot(ctx, barrier)
	return set, translate(err)
}

// translated is an error of the bus that is also one of history.
type translated struct{ err, as error }

func (t translated) Error() string   { return t.err.Error() }
func (t translated) Unwrap() []error { return []error{t.err, t.as} }

// translate makes an error of the bus match history's.
func translate(err error) error {
	for busErr, as := range map[error]error{
		bus.ErrGone: history.ErrGone, bus.ErrNoRecord: history.ErrNoRecord, bus.ErrNoManifest: history.ErrNoManifest,
	} {
		if errors.Is(err, busErr) {
			return translated{err, as}
		}
	}
	return err
}
