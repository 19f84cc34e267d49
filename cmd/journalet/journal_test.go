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

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// stoppedRoot is the root directory of an agent that wrote ten records and has stopped.
func stoppedRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	b, err := bus.Open(t.Context(), bus.Options{Dir: filepath.Join(root, busFolder), Node: "node-1", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		b.Journal().Append(&journaletv1.Record{
			Time: timestamppb.New(now), Actor: messages.Pod("uid-1").Proto(),
			Body: &journaletv1.Record_Fact{Fact: &journaletv1.Event{Kind: &journaletv1.Event_PodObserved{PodObserved: &journaletv1.PodObserved{Uid: "uid-1"}}}},
		})
	}
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return root
}

func theBlock(root string) string {
	return filepath.Join(root, busFolder, "jetstream", "AGENT", "streams", "JOURNAL", "msgs", "1.blk")
}

// copyTree copies folders and files, as to another machine.
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
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func TestJournalWithoutAnAgentIsReadFromItsFiles(t *testing.T) {
	root := stoppedRoot(t)
	block, err := os.ReadFile(theBlock(root))
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), block...)
	flipped[len(flipped)/2] ^= 1
	for name, c := range map[string]struct {
		harm func(root string) error
		code int
		says string // on either output
	}{
		"whole":           {func(string) error { return nil }, exitOK, "The journal is whole and unchanged."},
		"torn tail":       {func(root string) error { return os.WriteFile(theBlock(root), block[:len(block)-9], 0o600) }, exitError, "the journal's end is torn"},
		"flipped byte":    {func(root string) error { return os.WriteFile(theBlock(root), flipped, 0o600) }, exitError, "cannot be read: block 1 is damaged at byte"},
		"missing block":   {func(root string) error { return os.Remove(theBlock(root)) }, exitError, "names record 10, and the last one is 0"},
		"truncated block": {func(root string) error { return os.Truncate(theBlock(root), 300) }, exitError, "the journal's end is torn"},
		"empty folder":    {func(root string) error { return os.RemoveAll(filepath.Join(root, busFolder)) }, exitNoAgent, "no agent is running"},
		"no streams":      {func(root string) error { return os.RemoveAll(filepath.Join(root, busFolder, "jetstream")) }, exitError, "names record 10, and the last one is 0"},
		"foreign":         {func(root string) error { return os.WriteFile(theBlock(root), foreignBlock(t), 0o600) }, exitError, "record 1 stands under"},
		"keys not copied": {func(root string) error { return os.RemoveAll(filepath.Join(root, busFolder, "credentials")) }, exitOK, "whole and unchanged"},
	} {
		t.Run(name, func(t *testing.T) {
			there := copyTree(t, root)
			if err := c.harm(there); err != nil {
				t.Fatal(err)
			}
			code, out, errs := run(t.Context(), "journal", "verify", "--root-dir", there)
			if code != c.code || !strings.Contains(out+errs, c.says) {
				t.Errorf("exit code %d, want %d with %q:\n%s%s", code, c.code, c.says, out, errs)
			}
			if c.code != exitNoAgent && !strings.Contains(errs, "the journal of node node-1 is read as it lies there") && name != "no streams" {
				t.Errorf("nothing says that no agent was asked: %q", errs)
			}
		})
	}
}

func TestLostRecordsThatTheJournalReportsAreNoError(t *testing.T) {
	root := stoppedRoot(t)
	if err := os.Remove(theBlock(root)); err != nil {
		t.Fatal(err)
	}
	b, err := bus.Open(t.Context(), bus.Options{Dir: filepath.Join(root, busFolder), Node: "node-1", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	b.Journal().Append(&journaletv1.Record{
		Time: timestamppb.New(now), Actor: messages.Agent.Proto(),
		Body: &journaletv1.Record_Fact{Fact: &journaletv1.Event{Kind: &journaletv1.Event_JournalDamaged{JournalDamaged: b.Opening().Damage}}},
	})
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	code, out, _ := run(t.Context(), "journal", "verify", "--root-dir", root)
	for _, words := range []string{"Records 11 to 11, ", "Records 1 to 10 were lost; record 11 tells it", "What is left of the journal is whole and unchanged."} {
		if code != exitOK || !strings.Contains(out, words) {
			t.Errorf("exit code %d, no word of %q in:\n%s", code, words, out)
		}
	}
	code, out, _ = run(t.Context(), "journal", "verify", "-o", "json", "--root-dir", root)
	var v bus.VerifyReport
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != exitOK || len(v.Lost) != 1 || v.Lost[0] != (bus.Loss{From: 1, To: 10, Told: 11}) {
		t.Errorf("%d, %v: %s", code, err, out)
	}
}

func foreignBlock(t *testing.T) []byte {
	t.Helper()
	root := t.TempDir()
	b, err := bus.Open(t.Context(), bus.Options{Dir: filepath.Join(root, busFolder), Node: "other", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	b.Journal().Append(&journaletv1.Record{
		Time: timestamppb.New(now), Actor: messages.Agent.Proto(),
		Body: &journaletv1.Record_Fact{Fact: &journaletv1.Event{Kind: &journaletv1.Event_AgentStopped{AgentStopped: &journaletv1.AgentStopped{Reason: "test"}}}},
	})
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(theBlock(root))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Scripts read these: names and values stay what they are.
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
	if want := map[string]any{"first": 1.0, "last": 10.0, "records": 10.0, "epochs": 1.0, "found": 0.0}; !reflect.DeepEqual(v, want) {
		t.Errorf("verify gives %v, want %v", v, want)
	}
	code, out, errs = run(t.Context(), "journal", "size", "-o", "json", "--root-dir", root)
	var z bus.SizeReport
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&z); err != nil || code != exitOK || z.Journal.Count != 10 || z.Pods[0] != (bus.Share{Name: "uid-1", Count: 10, Bytes: z.Journal.Bytes}) || z.JournalDisk <= z.Journal.Bytes {
		t.Fatalf("%d, %v: %s%s", code, err, out, errs)
	}
	if err := os.Truncate(theBlock(root), 300); err != nil {
		t.Fatal(err)
	}
	code, out, _ = run(t.Context(), "journal", "verify", "-o", "json", "--root-dir", root)
	var r bus.VerifyReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitError || r.Found != len(r.Problems) || r.Found == 0 || r.Problems[0].Seq != r.Last+1 {
		t.Errorf("a damaged one: %d, %v: %s", code, err, out)
	}
}

func TestRunningAgentServesItsJournal(t *testing.T) {
	root := agentRoot(t)
	for _, what := range []string{"verify", "size"} {
		code, _, errs := run(t.Context(), "journal", what, "--root-dir", root)
		if code != exitOK || strings.Contains(errs, "as it lies there") {
			t.Errorf("%s: %d, %q", what, code, errs)
		}
	}
	// A copy of its folder, made while it runs, is nobody's. Its socket's name, if that is copied too, leads to the agent.
	there := copyTree(t, root)
	if err := os.WriteFile(filepath.Join(there, busFolder, "bus.sock.path"), []byte(filepath.Join(root, busFolder, "bus.sock")), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run(t.Context(), "journal", "verify", "--root-dir", there)
	if code != exitOK || !strings.Contains(errs, "as it lies there") {
		t.Errorf("a copy: %d, %s%s", code, out, errs)
	}
}
