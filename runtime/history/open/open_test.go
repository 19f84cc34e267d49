package open_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/bundle"
	"github.com/journalet/journalet/runtime/history/open"
	"github.com/journalet/journalet/test/must"
)

// running starts a bus below root with n records.
func running(t *testing.T, root string, n int) *bus.Bus {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Options{
		Dir: filepath.Join(root, open.BusDir), Node: "node-1", Log: slog.New(slog.DiscardHandler),
	})
	must.OK(t, err)
	t.Cleanup(func() { _ = b.Close(t.Context()) })
	for i := range n {
		must.OK(t, b.Journal().Append(&journaletv1.Record{
			Time: timestamppb.Now(), Actor: messages.Pod(fmt.Sprint(i)).Proto(),
			Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(&journaletv1.PodObserved{Uid: fmt.Sprint(i)})},
		}))
	}
	must.OK(t, b.Journal().Flush(t.Context()))
	return b
}

func TestPathOpensRootDirectoryAndBusDirectoryOfRunningAgent(t *testing.T) {
	root := t.TempDir()
	b := running(t, root, 10)
	manifest := []byte("kind: Pod")
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(manifest))
	must.OK(t, b.Manifests().Put(t.Context(), digest, manifest))
	must.OK(t, b.Snapshots().Save(t.Context(), 4, []*journaletv1.Snapshot{{Actor: messages.Node.Proto(), Handled: 4}}))
	for _, path := range []string{root, filepath.Join(root, open.BusDir)} {
		r, err := open.Path(t.Context(), path)
		must.OK(t, err)
		if first, last := r.Bounds(); first != 1 || last != 10 || r.Node() != "node-1" {
			t.Fatal(first, last, r.Node())
		}
		n := uint64(2)
		must.OK(t, r.Read(t.Context(), 3, 0, func(e history.Entry) error {
			rec, err := e.Record()
			if n++; rec.GetSeq() != n || e.Seq != n {
				return fmt.Errorf("record %d, entry %d, want %d", rec.GetSeq(), e.Seq, n)
			}
			return err
		}))
		if n != 10 {
			t.Fatal(n)
		}
		if b, err := r.Manifest(t.Context(), digest); err != nil || !bytes.Equal(b, manifest) {
			t.Fatal(string(b), err)
		}
		if _, err := r.Manifest(t.Context(), strings.Replace(digest, digest[7:9], "00", 1)); !errors.Is(err,
			history.ErrNoManifest) {
			t.Fatal(err)
		}
		if _, err := r.Get(t.Context(), 11); !errors.Is(err, history.ErrNoRecord) {
			t.Fatal(err)
		}
		if _, err := r.Snapshot(t.Context(), 5); !errors.Is(err, history.ErrGone) {
			t.Fatal(err)
		}
		at, err := r.Snapshots(t.Context())
		must.OK(t, err)
		set, err := r.Snapshot(t.Context(), at[0])
		if err != nil || at[0] != 4 || len(set) != 1 || set[0].GetHandled() != 4 {
			t.Fatal(at, set, err)
		}
	}
}

func TestPathReportsWhatToDo(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	formatted := t.TempDir()
	must.OK(t, running(t, formatted, 1).Close(t.Context()))
	for path, want := range map[string]string{
		filepath.Join(root, "missing"): "name an agent's root directory",
		root:                           "name an agent's root directory",
	} {
		if _, err := open.Path(t.Context(), path); !errors.Is(err, open.ErrNoJournal) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := open.Path(t.Context(), formatted); err != nil {
		t.Fatal(err)
	}
	if _, err := open.Path(t.Context(), file); !errors.Is(err, history.ErrDamaged) {
		t.Errorf("an empty file: %v", err)
	}
}

func TestPathOpensABundle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.journalet")
	f, err := os.Create(path)
	must.OK(t, err)
	w, err := bundle.NewWriter(f, &journaletv1.BundleHeader{Node: "node-1"})
	must.OK(t, err)
	rec := &journaletv1.Record{Seq: 7, Actor: messages.Agent.Proto()}
	b, err := messages.Encode(rec)
	must.OK(t, err)
	must.OK(t, w.Record(b, rec))
	_, err = w.Close(nil, "")
	must.OK(t, err)
	must.OK(t, f.Close())
	r, err := open.Path(t.Context(), path)
	must.OK(t, err)
	if first, last := r.Bounds(); first != 7 || last != 7 || r.Node() != "node-1" {
		t.Errorf("records %d to %d of %q", first, last, r.Node())
	}
}
