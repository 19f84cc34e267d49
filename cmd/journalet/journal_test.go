package main

import (
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func openBus(t *testing.T, root, node string) *bus.Bus {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Options{
		Dir: filepath.Join(root, busDir), Node: node, Log: slog.New(slog.DiscardHandler),
	})
	must.OK(t, err)
	return b
}

// stoppedRoot returns the root directory of an agent that recorded ten facts and has stopped.
func stoppedRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	b := openBus(t, root, "node-1")
	observed := &journaletv1.Event_PodObserved{PodObserved: &journaletv1.PodObserved{Uid: "uid-1"}}
	for range 10 {
		must.OK(t, b.Journal().Append(fact(messages.Pod("uid-1"), now, &journaletv1.Event{Kind: observed})))
	}
	must.OK(t, b.Close(context.Background()))
	return root
}

func blockPath(root string) string {
	return filepath.Join(root, busDir, "jetstream", "AGENT", "streams", "JOURNAL", "msgs", "1.blk")
}

// copyTree copies directories and files, as to another machine.
func copyTree(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		there := filepath.Join(to, strings.TrimPrefix(path, from))
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(there, 0o700)
		case !d.Type().IsRegular():
			return nil // the socket
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(there, b, 0o600)
	})
	must.OK(t, err)
	return to
}

func TestJournalWithoutAnAgentIsReadFromItsFiles(t *testing.T) {
	root := stoppedRoot(t)
	block, err := os.ReadFile(blockPath(root))
	must.OK(t, err)
	flipped := append([]byte(nil), block...)
	flipped[len(flipped)/2] ^= 1
	write := func(data []byte) func(string) error {
		return func(root string) error { return os.WriteFile(blockPath(root), data, 0o600) }
	}
	remove := func(path ...string) func(string) error {
		return func(root string) error {
			return os.RemoveAll(filepath.Join(root, busDir, filepath.Join(path...)))
		}
	}
	for name, c := range map[string]struct {
		damage func(root string) error
		code   int
		want   string // on either output
	}{
		"whole":        {func(string) error { return nil }, exitOK, "The journal is complete and unchanged."},
		"torn tail":    {write(block[:len(block)-9]), exitDamaged, "the journal's end is torn"},
		"flipped byte": {write(flipped), exitDamaged, "cannot be read: block 1 is damaged at byte"},
		"missing block": {func(root string) error { return os.Remove(blockPath(root)) }, exitDamaged,
			"names record 10, and the last one is 0"},
		"truncated block": {write(block[:300]), exitDamaged, "the journal's end is torn"},
		"empty directory": {remove(), exitNoAgent, "no agent is running"},
		"no streams":      {remove("jetstream"), exitDamaged, "names record 10, and the last one is 0"},
		"other node":      {write(otherBlock(t)), exitDamaged, "record 1 "},
		"keys not copied": {remove("credentials"), exitOK, "complete and unchanged"},
	} {
		t.Run(name, func(t *testing.T) {
			there := copyTree(t, root)
			must.OK(t, c.damage(there))
			code, out, errs := run(t.Context(), "journal", "verify", "--root-dir", there)
			if code != c.code || !strings.Contains(out+errs, c.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s%s", code, c.code, c.want, out, errs)
			}
			const notice = "reading the files of the journal of node node-1"
			if c.code != exitNoAgent && !strings.Contains(errs, notice) && name != "no streams" {
				t.Errorf("no notice that the files are read: %q", errs)
			}
		})
	}
}

func TestLostRecordsThatTheJournalReportsAreNoError(t *testing.T) {
	root := stoppedRoot(t)
	must.OK(t, os.Remove(blockPath(root)))
	b := openBus(t, root, "node-1")
	damaged := &journaletv1.Event_JournalDamaged{JournalDamaged: b.Opening().Damage}
	must.OK(t, b.Journal().Append(fact(messages.Agent, now, &journaletv1.Event{Kind: damaged})))
	must.OK(t, b.Close(context.Background()))
	code, out, _ := run(t.Context(), "journal", "verify", "--root-dir", root)
	for _, want := range []string{
		"Records 11 to 11, ", "Records 1 to 10 were lost, as recorded in record 11.",
		"The rest of the journal is complete and unchanged.",
	} {
		if code != exitOK || !strings.Contains(out, want) {
			t.Errorf("exit code %d, want %q in:\n%s", code, want, out)
		}
	}
	code, out, _ = run(t.Context(), "journal", "verify", "-o", "json", "--root-dir", root)
	var v bus.VerifyReport
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != exitOK || len(v.Lost) != 1 ||
		v.Lost[0] != (bus.Loss{From: 1, To: 10, ReportedBy: 11}) {
		t.Errorf("%d, %v: %s", code, err, out)
	}
}

func otherBlock(t *testing.T) []byte {
	t.Helper()
	root := t.TempDir()
	b := openBus(t, root, "other")
	must.OK(t, b.Journal().Append(agentStopped(now)))
	must.OK(t, b.Close(context.Background()))
	data, err := os.ReadFile(blockPath(root))
	must.OK(t, err)
	return data
}

// Scripts depend on these names and values.
func TestAStoredJournalIsPrintedAsJSONOfTheSameForm(t *testing.T) {
	root := stoppedRoot(t)
	code, out, errs := run(t.Context(), "journal", "verify", "-o", "json", "--root-dir", root)
	var v map[string]any
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != exitOK {
		t.Fatalf("%d, %v: %s%s", code, err, out, errs)
	}
	if v["bytes"].(float64) < 100 {
		t.Errorf("%v", v)
	}
	delete(v, "bytes")
	if want := map[string]any{"first": 1.0, "last": 10.0, "records": 10.0, "epochs": 1.0,
		"found": 0.0}; !reflect.DeepEqual(v, want) {
		t.Errorf("verify gives %v, want %v", v, want)
	}
	code, out, errs = run(t.Context(), "journal", "size", "-o", "json", "--root-dir", root)
	var z bus.SizeReport
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&z); err != nil || code != exitOK || z.Journal.Count != 10 ||
		z.Pods[0] != (bus.Share{Name: "uid-1", Count: 10, Bytes: z.Journal.Bytes}) || z.JournalDisk <= z.Journal.Bytes {
		t.Fatalf("%d, %v: %s%s", code, err, out, errs)
	}
	must.OK(t, os.Truncate(blockPath(root), 300))
	code, out, _ = run(t.Context(), "journal", "verify", "-o", "json", "--root-dir", root)
	var r bus.VerifyReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitDamaged || r.Found != len(r.Problems) ||
		r.Found == 0 || r.Problems[0].Seq != r.Last+1 {
		t.Errorf("a damaged one: %d, %v: %s", code, err, out)
	}
}

func TestRunningAgentServesItsJournal(t *testing.T) {
	root := agentRoot(t)
	for _, what := range []string{"verify", "size"} {
		code, _, errs := run(t.Context(), "journal", what, "--root-dir", root)
		if code != exitOK || strings.Contains(errs, "reading the files") {
			t.Errorf("%s: %d, %q", what, code, errs)
		}
	}
	// No agent runs in a copy, even if the copied file with the socket's path leads to a running one.
	there := copyTree(t, root)
	path := []byte(filepath.Join(root, busDir, "bus.sock"))
	must.OK(t, os.WriteFile(filepath.Join(there, busDir, "bus.sock.path"), path, 0o600))
	code, out, errs := run(t.Context(), "journal", "verify", "--root-dir", there)
	if code != exitOK || !strings.Contains(errs, "reading the files") {
		t.Errorf("a copy: %d, %s%s", code, out, errs)
	}
}
