package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func TestJournalRepairSetsDamageAside(t *testing.T) {
	root := stoppedRoot(t)
	if code, out, errs := run(t.Context(), "journal", "repair", "--root-dir", root); code != exitOK ||
		!strings.Contains(out, "sound: nothing to repair") {
		t.Fatal(code, out, errs)
	}
	b := openBus(t, root, "node-1")
	added := &journaletv1.PodUpdated{
		Operation: journaletv1.PodOperation_POD_OPERATION_ADD,
		Pod:       &journaletv1.PodRef{Uid: "uid-1", Namespace: "default", Name: "web"},
	}
	must.OK(t, b.Journal().Append(fact(messages.Source("file"), now, messages.NewEvent(added))))
	must.OK(t, b.Journal().Flush(t.Context()))
	must.OK(t, b.Snapshots().Save(t.Context(), b.Journal().Last(), nil))
	must.OK(t, b.Close(context.Background()))
	block, err := os.ReadFile(blockPath(root))
	must.OK(t, err)
	at := strings.Index(string(block), "uid-1.pod_observed")
	block[at+30] ^= 1 // record 1
	must.OK(t, os.WriteFile(blockPath(root), block, 0o600))

	code, out, errs := run(t.Context(), "journal", "repair", "--dry-run", "--root-dir", root)
	if code != exitDamaged || !strings.Contains(out, "records 1 to 1, some of them of default/web (uid-1)") ||
		!strings.Contains(out, "Nothing was changed") {
		t.Fatal(code, out, errs)
	}
	if code, out, errs = run(t.Context(), "journal", "verify", "--root-dir", root); code != exitDamaged {
		t.Fatal(code, out, errs)
	}
	code, out, errs = run(t.Context(), "journal", "repair", "-o", "json", "--root-dir", root)
	var r bus.RepairReport
	if err := json.Unmarshal([]byte(out), &r); code != exitOK || err != nil || len(r.Lost) != 1 || r.SetAside == "" {
		t.Fatal(code, out, errs, err)
	}
	if code, out, errs = run(t.Context(), "journal", "verify", "--root-dir", root); code != exitOK ||
		!strings.Contains(out, "Records 1 to 1 were lost, as recorded in record 12.") {
		t.Fatal(code, out, errs)
	}
	if code, _, errs = run(t.Context(), "observe", "--no-follow", "--journal", r.SetAside); code != exitOK {
		t.Fatal(code, errs)
	}
}

func TestJournalRepairRefusesRunningAgent(t *testing.T) {
	root := agentRoot(t)
	code, _, errs := run(t.Context(), "journal", "repair", "--root-dir", root)
	if code != exitError || !strings.Contains(errs, "stop it first") {
		t.Fatal(code, errs)
	}
	if _, err := os.Stat(filepath.Join(root, busDir, "damaged")); err == nil {
		t.Fatal("something was set aside")
	}
	if code, _, errs = run(t.Context(), "journal", "repair", "--root-dir", t.TempDir()); code != exitNotFound ||
		!strings.Contains(errs, "there is no journal") {
		t.Fatal(code, errs)
	}
}
