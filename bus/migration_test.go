package bus

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

var updateStored = flag.Bool("update-stored", false, "write the stored folder of the present format anew")

// storedFormats are the formats of which a folder is kept as a former version left it. None goes.
var storedFormats = []int{1}

func storedFile(format int) string {
	return filepath.Join("testdata", fmt.Sprintf("bus-v%d.tar.gz", format))
}

// Folders that former versions left, whole and after a crash, are opened by this one, with all that was in them; the
// head then has this version's format. What such a journal's records mean is the corpus's matter, in runtime/host.
func TestFoldersOfFormerVersionsAreTakenOn(t *testing.T) {
	if *updateStored {
		packStored(t)
	}
	if last := storedFormats[len(storedFormats)-1]; last != messages.JournalFormat {
		t.Fatalf("format %d has no stored folder: the last one is of %d", messages.JournalFormat, last)
	}
	for _, format := range storedFormats {
		for _, how := range []string{"whole", "crashed"} {
			t.Run(fmt.Sprintf("format %d, %s", format, how), func(t *testing.T) {
				dir := filepath.Join(unpack(t, storedFile(format)), how)
				if v, _ := lookAt(t, dir); !v.OK() || v.First != 3 || v.Last != 12 || !v.Cut || v.Epochs != 2 {
					t.Fatalf("as it lies there: %+v", v)
				}
				b := openBus(t, dir)
				if o := b.Opening(); o.Damage != nil || o.Clean != (how == "whole") || o.Last != 12 || o.Epoch != 3 || o.FreshJournal {
					t.Fatalf("%+v", o)
				}
				appendFacts(t, b, 2)
				wantWhole(t, b, 3, 14, true)
				if m, err := b.Manifests().Get(testContext(t), digestOf([]byte("kind: Pod"))); err != nil || string(m) != "kind: Pod" {
					t.Fatalf("%q, %v", m, err)
				}
				if at, snaps, err := b.Snapshots().Load(testContext(t)); err != nil || at != 4 || len(snaps) != 3 {
					t.Fatalf("%d, %v, %v", at, snaps, err)
				}
				closeBus(t, b)
				if h, err := readHead(dir); err != nil || h.GetFormat() != messages.JournalFormat || h.GetSeq() != 14 {
					t.Fatalf("%v, %v", h, err)
				}
			})
		}
	}
}

// A head that says a lower format, whatever that was, is taken on and says this version's from then on.
func TestAHeadOfALowerFormatIsRaised(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendFacts(t, b, 3)
	closeBus(t, b)
	h, err := readHead(dir)
	if err != nil {
		t.Fatal(err)
	}
	h.Format = messages.JournalFormat - 1
	slot, err := encodeHead(h)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, headFile), slot)
	b = openBus(t, dir)
	if o := b.Opening(); o.Damage != nil || !o.Clean || o.Last != 3 {
		t.Fatalf("%+v", o)
	}
	if h, err = readHead(dir); err != nil || h.GetFormat() != messages.JournalFormat {
		t.Fatalf("%v, %v", h, err)
	}
}

// packStored writes the folder that the test reads: a journal that was cut, two runs, a manifest, snapshots.
func packStored(t *testing.T) {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for _, how := range []string{"whole", "crashed"} {
		dir := busDir(t)
		b := openBus(t, dir)
		appendAged(t, b, 90, 80, 10, 9)
		if err := b.Manifests().Put(testContext(t), digestOf([]byte("kind: Pod")), []byte("kind: Pod")); err != nil {
			t.Fatal(err)
		}
		if err := b.Snapshots().Save(testContext(t), 4, snapshotsOf(3, 4)); err != nil {
			t.Fatal(err)
		}
		retain(t, b, Retention{Age: 2 * day}, 4)
		closeBus(t, b)
		b = openBus(t, dir)
		b.Journal().Append(step(messages.Source("file"), 4, 0))
		for range 7 {
			b.Journal().Append(&journaletv1.Record{Time: at(1), Actor: messages.Agent.Proto(), Body: &journaletv1.Record_Fact{Fact: &journaletv1.Event{
				Kind: &journaletv1.Event_AgentStopped{AgentStopped: &journaletv1.AgentStopped{Reason: "told to stop"}},
			}}})
		}
		if err := b.Journal().Flush(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if how == "whole" {
			closeBus(t, b)
		} else {
			crash(b)
		}
		pack(t, w, dir, how)
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	writeFile(t, storedFile(messages.JournalFormat), out.Bytes())
}

// pack leaves out the keys, which are nobody's to see, and the reserve, which is large.
func pack(t *testing.T, w *tar.Writer, dir, as string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == reserveFile || strings.Contains(path, credentialsDir) {
			return err
		}
		b := readFile(t, path)
		if err := w.WriteHeader(&tar.Header{Name: as + strings.TrimPrefix(path, dir), Size: int64(len(b)), Mode: 0o600}); err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, file string) string {
	t.Helper()
	to := t.TempDir()
	zip, err := gzip.NewReader(bytes.NewReader(readFile(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return to
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, filepath.FromSlash(h.Name))
		b, err := io.ReadAll(r)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, b)
	}
}
