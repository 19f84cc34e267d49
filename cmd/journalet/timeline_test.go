package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history/timeline"
	"github.com/journalet/journalet/test/must"
)

// failingRoot returns the root directory of an agent that recorded a pod whose container failed and left a message.
func failingRoot(t *testing.T, message string) string {
	t.Helper()
	root := t.TempDir()
	b := openBus(t, root, "node-1")
	at := now
	observe := func(state journaletv1.ContainerState, code int32) {
		at = at.Add(time.Minute)
		must.OK(t, b.Journal().Append(fact(messages.Pod("uid-1"), at, messages.NewEvent(&journaletv1.PodObserved{
			Uid: "uid-1", PodNamespace: "shop", PodName: "web-node-1", Containers: []*journaletv1.ContainerObservation{
				{Id: "c1", Name: "main", State: state, ExitCode: code, Reason: message, Message: message},
			},
		}))))
	}
	observe(journaletv1.ContainerState_CONTAINER_STATE_RUNNING, 0)
	observe(journaletv1.ContainerState_CONTAINER_STATE_EXITED, 3)
	must.OK(t, b.Close(context.Background()))
	return root
}

func TestTimelineDrawsAStoppedAgentsJournalAndItsCopy(t *testing.T) {
	root := failingRoot(t, "Error")
	for _, args := range [][]string{
		{"timeline", "--root-dir", root}, {"timeline", "web", "--journal", root},
		{"timeline", "shop/web", "--journal", filepath.Join(copyTree(t, root), busDir)},
		{"timeline", "--ascii", "--width", "60", "uid-1", "--root-dir", root},
	} {
		code, out, errs := run(t.Context(), args...)
		for _, want := range []string{"main", "#2", "container main exited 3"} {
			if code != exitOK || !strings.Contains(out, want) {
				t.Fatalf("%v: exit code %d, want %q in:\n%s%s", args, code, want, out, errs)
			}
		}
	}
	code, out, _ := run(t.Context(), "timeline", "web", "--root-dir", root, "-o", "json")
	var got timeline.Timeline
	must.OK(t, json.Unmarshal([]byte(out), &got))
	if code != exitOK || len(got.Groups) != 2 || len(got.Events) != 2 {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestTimelineSelectsRecordsByTimeDurationAndNumber(t *testing.T) {
	root := failingRoot(t, "Error")
	for _, c := range []struct {
		args        string
		first, last uint64
	}{
		{"--since 30s", 2, 2}, {"--since 10m", 1, 2}, {"--since 2", 2, 2}, {"--until 1", 1, 1}, {"--until 30s", 1, 1},
		{"--until " + now.Add(90*time.Second).Format(time.RFC3339), 1, 1},
	} {
		args := append([]string{"timeline", "--root-dir", root, "-o", "json"}, strings.Fields(c.args)...)
		code, out, errs := run(t.Context(), args...)
		var got timeline.Timeline
		must.OK(t, json.Unmarshal([]byte(out), &got))
		if code != exitOK || got.FirstSeq != c.first || got.LastSeq != c.last {
			t.Errorf("%s: records %d to %d, exit code %d %s", c.args, got.FirstSeq, got.LastSeq, code, errs)
		}
	}
}

func TestTimelineExplainsWhatItCannotDraw(t *testing.T) {
	root := failingRoot(t, "Error")
	for _, c := range []struct {
		args string
		code int
		text string
	}{
		{"nope --root-dir " + root, exitNotFound, "no record from #1 to #2 names pod nope"},
		{"--since 5 --root-dir " + root, exitNotFound, "the journal holds #1 to #2"},
		{"--since soon --root-dir " + root, exitUsage, "neither the number of a record"},
		{"--width 3 --root-dir " + root, exitUsage, "want at least"},
		{"--limit 0 --root-dir " + root, exitUsage, "want at least 1"},
		{"--root-dir " + t.TempDir(), exitNotFound, "name an agent's root directory"},
	} {
		code, _, errs := run(t.Context(), append([]string{"timeline"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(errs, c.text) {
			t.Errorf("%s: exit code %d, %q", c.args, code, errs)
		}
	}
}

func TestPageIsWrittenForItsOwnerAndReplacesNothing(t *testing.T) {
	root := failingRoot(t, "</script><script>alert(1)</script>")
	file := filepath.Join(t.TempDir(), "web.html")
	args := []string{"timeline", "web", "--root-dir", root, "--file", file}
	code, out, errs := run(t.Context(), args...)
	info, err := os.Stat(file)
	must.OK(t, err)
	if code != exitOK || !strings.Contains(out, "2 events") || info.Mode() != 0o600 {
		t.Fatalf("exit code %d, mode %v: %s%s", code, info.Mode(), out, errs)
	}
	first, err := os.ReadFile(file)
	must.OK(t, err)
	// The page's own end its data, its script and the fields of events.
	if strings.Count(string(first), "</script>") != 3 || strings.Contains(string(first), "alert(1)</") {
		t.Error("a container's text ends the page's data")
	}
	must.OK(t, os.WriteFile(file, []byte("mine"), 0o600))
	if code, _, errs = run(t.Context(), args...); code != exitError || !strings.Contains(errs, "--force") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	kept, err := os.ReadFile(file)
	must.OK(t, err)
	code, _, errs = run(t.Context(), append(args, "--force")...)
	second, err := os.ReadFile(file)
	must.OK(t, err)
	if string(kept) != "mine" || code != exitOK || string(second) != string(first) {
		t.Errorf("exit code %d, it replaces %q by %d bytes: %s", code, kept, len(second), errs)
	}
	if code, out, _ := run(t.Context(), "timeline", "--root-dir", root, "-o", "html"); code != exitOK ||
		!strings.HasPrefix(out, "<!DOCTYPE html>") {
		t.Errorf("exit code %d: %.80s", code, out)
	}
	for _, wrong := range [][]string{{"--file", file, "-o", "json"}, {"--force"}} {
		code, _, errs := run(t.Context(), append([]string{"timeline", "--root-dir", root}, wrong...)...)
		if code != exitUsage {
			t.Errorf("%v: exit code %d: %s", wrong, code, errs)
		}
	}
}

func TestTimelineQuotesWhatAContainerWrote(t *testing.T) {
	root := failingRoot(t, "\x1b[2J\u202eevil")
	code, out, _ := run(t.Context(), "timeline", "--root-dir", root)
	if code != exitOK || strings.ContainsAny(out, "\x1b\u202e") || !strings.Contains(out, `\u001b[2J\u202eevil`) {
		t.Errorf("exit code %d: %q", code, out)
	}
}
