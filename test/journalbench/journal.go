package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/bundle"
	"github.com/journalet/journalet/runtime/history/open"
	"github.com/journalet/journalet/test/simulation"
)

const (
	seed = 1
	// snapshotEvery is the distance of the sets of snapshots of an agent, in records.
	snapshotEvery = 20_000
	// eventsAnHour is how many events an hour of a simulated node with 500 pods has at least.
	eventsAnHour = 150_000
)

// journalOf returns the journal to measure with. It is simulated once for each size, which takes minutes.
func journalOf(ctx context.Context, dir string, events uint64, pods int) (input, error) {
	dir = filepath.Join(dir, fmt.Sprintf("format%d-%d-events-%d-pods", messages.JournalFormat, events, pods))
	in := input{root: filepath.Join(dir, "root"), bundle: filepath.Join(dir, "journal.bundle")}
	b, err := os.ReadFile(filepath.Join(dir, "events")) // written last
	if errors.Is(err, fs.ErrNotExist) {
		if in.events, err = write(ctx, in, events, pods); err != nil {
			return in, err
		}
		return in, os.WriteFile(filepath.Join(dir, "events"), fmt.Appendln(nil, in.events), 0o600)
	}
	if err != nil {
		return in, err
	}
	in.events, err = strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return in, err
}

func write(ctx context.Context, in input, events uint64, pods int) (uint64, error) {
	log.Printf("simulating %d events of %d pods", events, pods)
	lasts := time.Duration(events) * time.Hour / eventsAnHour * 500 / time.Duration(pods)
	m := simulation.Busy(seed, pods, lasts, snapshotEvery).History()
	n := uint64(0)
	for i, rec := range m.Records {
		if n += uint64(len(messages.Events(rec))); n >= events && !rec.GetStep().GetMore() {
			m.Records = m.Records[:i+1]
			break
		}
	}
	if n < events {
		return 0, fmt.Errorf("%s have only %d events", lasts, n)
	}
	for barrier := range m.Sets {
		if barrier > uint64(len(m.Records)) {
			delete(m.Sets, barrier)
		}
	}
	log.Printf("writing %d records to %s", len(m.Records), in.root)
	if err := os.RemoveAll(filepath.Dir(in.root)); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(in.root, 0o700); err != nil {
		return 0, err
	}
	if err := simulation.Store(ctx, m, filepath.Join(in.root, open.BusDir)); err != nil {
		return 0, err
	}
	return n, writeBundle(ctx, in.bundle, m)
}

// writeBundle writes a whole journal as a bundle.
func writeBundle(ctx context.Context, path string, m *history.Memory) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriterSize(f, 1<<20)
	w, err := bundle.NewWriter(out, &journaletv1.BundleHeader{Node: m.Name})
	if err != nil {
		return err
	}
	err = m.Read(ctx, 1, 0, func(e history.Entry) error {
		rec, err := e.Record()
		if err != nil {
			return err
		}
		return w.Record(e.Bytes, rec)
	})
	if err != nil {
		return err
	}
	for digest, b := range m.Manifests {
		if err := w.Manifest(digest, b); err != nil {
			return err
		}
	}
	if _, err := w.Close(nil, ""); err != nil {
		return err
	}
	return out.Flush()
}
