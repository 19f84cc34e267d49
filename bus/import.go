package bus

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
)

// importFile marks a directory with an imported journal. No agent starts on it: it would take what another agent, or an
// earlier one, did for its own.
const importFile = "IMPORTED"

// importWindow is how many records of an import are in flight.
const importWindow = 1024

// Import writes a journal that was recorded elsewhere into a bus directory, to be read. Close completes it.
type Import struct {
	dir, node string
	srv       *embedded
	nc        *nats.Conn
	js        jetstream.JetStream
	manifests *Manifests
	snapshots *Snapshots
	failed    atomic.Pointer[error]

	first, next uint64
	before      []byte // hash of the record before the first one
	hash        []byte
	epoch       uint64
}

// NewImport begins an import into dir, which must not exist or be empty. node is a name or its token, first the number
// of the first record.
func NewImport(ctx context.Context, dir, node string, first uint64) (i *Import, err error) {
	o := Options{Dir: dir, Node: node, Sync: SyncPolicy{Interval: maxSyncInterval}, Log: slog.New(slog.DiscardHandler)}
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := checkEmpty(o.Dir); err != nil {
		return nil, err
	}
	if err := createDir(o.Dir); err != nil {
		return nil, err
	}
	mark := []byte("This journal was imported from a bundle, to be read. No agent starts on it.\n")
	if err := durable.Write(filepath.Join(o.Dir, importFile), mark); err != nil {
		return nil, err
	}
	i = &Import{dir: o.Dir, node: node, first: first, next: first}
	defer func() {
		if err != nil {
			i.stop()
		}
	}()
	a, err := newAccounts(o.Dir)
	if err != nil {
		return i, err
	}
	if i.srv, err = startServer(ctx, o, a); err != nil {
		return i, err
	}
	return i, i.open(ctx)
}

// checkEmpty returns an error for a directory with anything in it.
func checkEmpty(dir string) error {
	for e, err := range bounded.Entries(dir) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("%s is not empty: it holds %s", dir, e.Name())
	}
	return nil
}

// open connects and creates the streams.
func (i *Import) open(ctx context.Context) (err error) {
	if i.nc, err = i.srv.connect("import"); err != nil {
		return fmt.Errorf("bus: connect inside the process: %w", err)
	}
	i.js, err = jetstream.New(i.nc, jetstream.WithPublishAsyncMaxPending(importWindow),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) { i.failed.Store(&err) }))
	if err != nil {
		return fmt.Errorf("bus: set up JetStream: %w", err)
	}
	if _, err := i.js.CreateStream(ctx, journalConfig(i.node, i.first)); err != nil {
		return fmt.Errorf("bus: create the journal: %w", err)
	}
	r := &reader{nc: i.nc, js: i.js, blocksDir: streamDir(i.dir, journalStream)}
	if i.manifests, err = openManifests(ctx, r, i.srv, i.node); err != nil {
		return err
	}
	i.snapshots, err = openSnapshots(ctx, r, i.srv, i.node)
	if err == nil {
		i.snapshots.cutTo = func() uint64 { return i.first }
		i.snapshots.last = func() uint64 { return i.next - 1 }
	}
	return err
}

// Record stores the next record, encoded as b. It must have the number after the one before.
func (i *Import) Record(b []byte, rec *journaletv1.Record) error {
	if failed := i.failed.Load(); failed != nil {
		return fmt.Errorf("store a record before %d: %w", rec.GetSeq(), *failed)
	}
	if rec.GetSeq() != i.next {
		return fmt.Errorf("record %d follows record %d: a journal has no gaps", rec.GetSeq(), i.next-1)
	}
	if err := checkRecord(rec); err != nil {
		return fmt.Errorf("record %d: %w", rec.GetSeq(), err)
	}
	if rec.GetSeq() == i.first {
		i.before = rec.GetPreviousHash()
	}
	// The bytes are the caller's, and in flight when this returns.
	m := &nats.Msg{Subject: messages.Subject(i.node, rec), Data: append([]byte(nil), b...)}
	if _, err := i.js.PublishMsgAsync(m, jetstream.WithExpectLastSequence(rec.GetSeq()-1)); err != nil {
		return fmt.Errorf("store record %d: %w", rec.GetSeq(), err)
	}
	i.next, i.hash, i.epoch = rec.GetSeq()+1, messages.Hash(b), max(i.epoch, rec.GetEpoch())
	return nil
}

// Manifest stores a manifest.
func (i *Import) Manifest(ctx context.Context, digest string, b []byte) error {
	return i.manifests.Put(ctx, digest, b)
}

// Snapshots stores a set, after the records.
func (i *Import) Snapshots(ctx context.Context, barrier uint64, set []*journaletv1.Snapshot) error {
	return i.snapshots.Save(ctx, barrier, set)
}

// Flush waits until all records are stored.
func (i *Import) Flush(ctx context.Context) error {
	select {
	case <-i.js.PublishAsyncComplete():
	case <-ctx.Done():
		return ctx.Err()
	}
	if failed := i.failed.Load(); failed != nil {
		return fmt.Errorf("store the records: %w", *failed)
	}
	return nil
}

// Close completes the journal: where it begins and where it ends.
func (i *Import) Close(ctx context.Context) error {
	defer i.stop()
	if err := i.Flush(ctx); err != nil {
		return err
	}
	if i.first > 1 {
		c := &cut{First: i.first, PreviousHash: hex.EncodeToString(i.before)}
		if err := c.write(i.dir); err != nil {
			return err
		}
	}
	i.stop()
	h, err := newHead(i.dir, &journaletv1.Head{
		Seq: i.next - 1, Hash: i.hash, Format: messages.JournalFormat, Epoch: i.epoch, Clean: true,
	})
	if err != nil {
		return err
	}
	return h.close(true)
}

// Abort ends an import that has failed. What was written stays.
func (i *Import) Abort() { i.stop() }

func (i *Import) stop() {
	if i.nc != nil {
		i.nc.Close()
	}
	if i.srv != nil {
		i.srv.stop()
	}
	i.nc, i.srv = nil, nil
}

// refuseImported refuses a journal that was imported to be read.
func refuseImported(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, importFile)); err == nil {
		return fmt.Errorf("bus: the journal in %s was imported from a bundle, to be read: an agent needs another --root-dir",
			dir)
	}
	return nil
}
