package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/bundle"
	"github.com/journalet/journalet/runtime/history/open"
	"github.com/journalet/journalet/test/must"
)

// simulatedBundle writes a bundle of a part of the simulated journal.
func simulatedBundle(t *testing.T, o bundle.Options) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "simulated.journalet")
	f, err := os.Create(path)
	must.OK(t, err)
	o.Version, o.Now = "v1.2.3", now
	_, err = bundle.Export(t.Context(), simulated(), f, o)
	must.OK(t, err)
	must.OK(t, f.Close())
	return path
}

// succeeds runs a command that must succeed and returns its output.
func succeeds(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := run(t.Context(), args...)
	if code != exitOK {
		t.Fatalf("%s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

// fails runs a command that must fail with a code and a text.
func fails(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	got, out, errs := run(t.Context(), args...)
	if got != code || !strings.Contains(errs, want) {
		t.Errorf("%s: exit code %d, want %d with %q\n%s%s", strings.Join(args, " "), got, code, want, out, errs)
	}
}

func records(t *testing.T, path string) map[uint64][]byte {
	t.Helper()
	r, err := open.Path(t.Context(), path)
	must.OK(t, err)
	all := map[uint64][]byte{}
	must.OK(t, r.Read(t.Context(), 0, 0, func(e history.Entry) error {
		all[e.Seq] = bytes.Clone(e.Bytes)
		return nil
	}))
	return all
}

func TestABundleIsImportedCheckedAndExportedAgain(t *testing.T) {
	for name, o := range map[string]bundle.Options{
		"whole": {}, "a part": {From: 200, To: 700}, "redacted": {Redact: true},
		"a redacted part": {From: 200, Redact: true},
	} {
		t.Run(name, func(t *testing.T) {
			path, root := simulatedBundle(t, o), filepath.Join(t.TempDir(), "new", "root")
			out := succeeds(t, "journal", "import", path, "--root-dir", root)
			if !strings.Contains(out, "Written to "+root) {
				t.Errorf("%s", out)
			}
			if out := succeeds(t, "journal", "verify", "--root-dir", root); !strings.Contains(out, "complete and unchanged") {
				t.Errorf("%s", out)
			}
			for _, journal := range []string{path, root, filepath.Join(root, busDir)} {
				out := succeeds(t, "journal", "verify", "--journal", journal)
				if !strings.Contains(out, "complete and unchanged") {
					t.Errorf("%s: %s", journal, out)
				}
			}
			succeeds(t, "journal", "size", "--root-dir", root)
			again := filepath.Join(t.TempDir(), "again")
			succeeds(t, "journal", "export", "-o", again, "--root-dir", root)
			was, is := records(t, path), records(t, again)
			if len(was) != len(is) {
				t.Fatalf("%d records, want %d", len(is), len(was))
			}
			for seq, b := range was {
				if !bytes.Equal(is[seq], b) {
					t.Fatalf("record %d differs", seq)
				}
			}
			if !o.Redact {
				succeeds(t, "replay", "--check", "--journal", root)
				succeeds(t, "replay", "--check", "--journal", again)
			} else {
				fails(t, exitError, "the bundle is redacted", "replay", "--check", "--journal", path)
			}
			fails(t, exitUsage, "is not empty", "journal", "import", path, "--root-dir", root)
			_, err := bus.Open(t.Context(), bus.Options{
				Dir: filepath.Join(root, busDir), Node: "n1", Log: slog.New(slog.DiscardHandler),
			})
			if err == nil || !strings.Contains(err.Error(), "an agent needs another --root-dir") && o.Redact == false {
				t.Errorf("an agent starts on an imported journal: %v", err)
			}
		})
	}
}

func TestExportWritesAWholeFileOrNone(t *testing.T) {
	from := simulatedBundle(t, bundle.Options{})
	dir := t.TempDir()
	path := filepath.Join(dir, "out.journalet")
	out := succeeds(t, "journal", "export", "--journal", from, "-o", path)
	for _, want := range []string{
		"Records 1 to ", "Pods: all pods", "Manifests: ", "Written to " + path, "bytes an event",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	fails(t, exitUsage, "give --force", "journal", "export", "--journal", from, "-o", path)
	succeeds(t, "journal", "export", "--journal", from, "-o", path, "--force", "--from", "100")
	if n := len(records(t, path)); n >= len(simulated().Records) {
		t.Errorf("%d records", n)
	}
	fails(t, exitUsage, "is no regular file", "journal", "export", "--journal", from, "-o", dir, "--force")
	fails(t, exitError, "no such file", "journal", "export", "--journal", from, "-o", filepath.Join(dir, "no", "file"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, _, _ := run(ctx, "journal", "export", "--journal", from, "-o", filepath.Join(dir, "cancelled"))
	if code == exitOK {
		t.Error("an export that was interrupted succeeded")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	must.OK(t, moveTo(from, filepath.Join(dir, "moved"), false))
	if err := moveTo(path, filepath.Join(dir, "moved"), false); err == nil {
		t.Error("a file that came meanwhile was replaced")
	}
}

func TestExportToStdoutIsABundle(t *testing.T) {
	from := simulatedBundle(t, bundle.Options{})
	code, out, errs := run(t.Context(), "journal", "export", "--journal", from, "-o", "-", "--pod", "p1", "--redact")
	if code != exitOK || !strings.Contains(errs, "Redacted: ") {
		t.Fatalf("%d, %s", code, errs)
	}
	r, err := bundle.New(strings.NewReader(out), int64(len(out)), "stdout")
	must.OK(t, err)
	must.OK(t, r.Check(t.Context(), nil))
}

// Scripts depend on these names.
func TestExportReportsWhatItHoldsAsJSON(t *testing.T) {
	from := simulatedBundle(t, bundle.Options{})
	path := filepath.Join(t.TempDir(), "out")
	out := succeeds(t, "journal", "export", "--journal", from, "-o", path, "--pod", "p1", "--report", "json")
	var v map[string]any
	must.OK(t, json.Unmarshal([]byte(out), &v))
	for _, name := range []string{
		"bytes", "node", "first", "last", "records", "events", "manifests", "snapshotSets", "pods", "version", "writtenAt",
		"agentVersion", "file", "recordBytes",
	} {
		if v[name] == nil {
			t.Errorf("no %s in %s", name, out)
		}
	}
	// A part of some pods is no journal, but commands read it.
	fails(t, exitError, "give it to the command itself, as --journal "+path, "journal", "import", path, "--root-dir",
		filepath.Join(t.TempDir(), "root"))
	succeeds(t, "replay", "--check", "--journal", path)
	succeeds(t, "timeline", "--journal", path)
}

func TestExportSelectsByTime(t *testing.T) {
	from := simulatedBundle(t, bundle.Options{})
	recs := simulated().Records
	path := filepath.Join(t.TempDir(), "out")
	at := func(i int) string { return recs[i].GetTime().AsTime().Format(time.RFC3339Nano) }
	succeeds(t, "journal", "export", "--journal", from, "-o", path, "--since", at(300), "--until", at(500))
	all := records(t, path)
	if all[301] == nil || all[501] != nil || all[250] != nil {
		t.Errorf("%d records", len(all))
	}
	succeeds(t, "journal", "export", "--journal", from, "-o", path, "--force", "--since", "1s")
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitNotFound, "begins after", []string{"--until", "2001-01-01T00:00:00Z"}},
		{exitNotFound, "none was requested", []string{"--since", "2101-01-01T00:00:00Z"}},
		{exitUsage, "neither the number of a record", []string{"--since", "yesterday"}},
		{exitUsage, "exclude each other", []string{"--since", "1h", "--from", "3"}},
		{exitUsage, "is after", []string{"--from", "4", "--to", "3"}},
		{exitNotFound, "no such pod", []string{"--pod", "none"}},
		{exitUsage, "no format of --report", []string{"--report", "xml"}},
	} {
		args := []string{"journal", "export", "--journal", from, "-o", path, "--force"}
		fails(t, c.code, c.want, append(args, c.args...)...)
	}
	fails(t, exitUsage, "name the file to write", "journal", "export", "--journal", from)
	fails(t, exitUsage, "name the directory to write", "journal", "import", path)
}

func TestARunningAgentsJournalIsExported(t *testing.T) {
	root := agentRoot(t)
	path := filepath.Join(t.TempDir(), "out")
	succeeds(t, "journal", "export", "-o", path, "--root-dir", root)
	if n := len(records(t, path)); n != 3 {
		t.Errorf("%d records, want 3", n)
	}
}

func TestDamagedBundlesHaveTheirExitCode(t *testing.T) {
	path := simulatedBundle(t, bundle.Options{})
	b, err := os.ReadFile(path)
	must.OK(t, err)
	flipped := bytes.Clone(b)
	flipped[len(b)/3] ^= 4
	newer := bytes.Clone(b)
	newer[24]++
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"empty": {nil, "the file is empty: copy the file again"}, "cut": {b[:len(b)/2], "does not end as a bundle does"},
		"flipped": {flipped, "SHA-256"}, "foreign": {[]byte("kind: Pod\nmetadata:\n  name: web\n"), "this is no bundle"},
		"newer": {newer, "has format 2, this version reads 1"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "b")
			must.OK(t, os.WriteFile(path, c.b, 0o600))
			root := filepath.Join(t.TempDir(), "root")
			fails(t, exitDamaged, c.want, "journal", "import", path, "--root-dir", root)
			fails(t, exitDamaged, c.want, "journal", "verify", "--journal", path)
			fails(t, exitDamaged, c.want, "replay", "--check", "--journal", path)
			fails(t, exitDamaged, c.want, "journal", "export", "--journal", path, "-o", filepath.Join(t.TempDir(), "o"))
			if _, err := os.Lstat(root); err == nil {
				t.Error("a damaged bundle was written out")
			}
		})
	}
}

func TestVerifyReportsAJournalThatWasBrokenBeforeItsExport(t *testing.T) {
	m := *simulated()
	m.Records = slices.Clone(m.Records)
	m.Records[99] = proto.CloneOf(m.Records[99])
	m.Records[99].Epoch++
	path := filepath.Join(t.TempDir(), "b")
	f, err := os.Create(path)
	must.OK(t, err)
	_, err = bundle.Export(t.Context(), &m, f, bundle.Options{})
	must.OK(t, err)
	must.OK(t, f.Close())
	code, out, _ := run(t.Context(), "journal", "verify", "--journal", path)
	if code != exitDamaged || !strings.Contains(out, "#101  the hash chain is broken here") {
		t.Errorf("%d: %s", code, out)
	}
	code, out, _ = run(t.Context(), "journal", "verify", "--journal", path, "-o", "json")
	var v struct {
		Records uint64   `json:"records"`
		Broken  []uint64 `json:"broken"`
	}
	must.OK(t, json.Unmarshal([]byte(out), &v))
	if code != exitDamaged || v.Records != uint64(len(m.Records)) || !slices.Equal(v.Broken, []uint64{101}) {
		t.Errorf("%d: %s", code, out)
	}
}
