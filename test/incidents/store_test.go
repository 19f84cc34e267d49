package incidents_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/bundle"
	"github.com/journalet/journalet/test/must"
)

// pack writes a journal as a bundle.
func pack(t *testing.T, m *history.Memory, path string) {
	t.Helper()
	var out bytes.Buffer
	w, err := bundle.NewWriter(&out, &journaletv1.BundleHeader{Node: m.Name, Version: "scenario"})
	must.OK(t, err)
	for _, rec := range m.Records {
		b, err := messages.Encode(rec)
		must.OK(t, err)
		must.OK(t, w.Record(b, rec))
	}
	for digest, manifest := range m.Manifests {
		must.OK(t, w.Manifest(digest, manifest))
	}
	_, err = w.Close(nil, "")
	must.OK(t, err)
	must.OK(t, os.WriteFile(path, out.Bytes(), 0o600))
}

// store imports an incident's journal into the root directory root, whose agent is stopped. With " damaged" after the
// incident's name, the journal is damaged in the middle; with " before", it ends before the agent is stopped.
func store(t *testing.T, bin, name, root string) {
	t.Helper()
	name, damaged := strings.CutSuffix(name, " damaged")
	name, before := strings.CutSuffix(name, " before")
	path := filepath.Join(t.TempDir(), name+".bundle")
	m := play(t, name)
	if before {
		m.Records = m.Records[:slices.IndexFunc(m.Records, stops)]
	}
	pack(t, m, path)
	cmd := exec.CommandContext(t.Context(),
		filepath.Join(bin, "journalet"), "journal", "import", path, "--root-dir", root)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("import %s: %v\n%s", name, err, out)
	}
	if damaged {
		must.OK(t, os.Remove(filepath.Join(root, "bus", "IMPORTED"))) // to repair it is only for an agent's own
		damage(t, root)
	}
}

// stops reports whether the agent was stopped with a record.
func stops(rec *journaletv1.Record) bool { return rec.GetFact().GetAgentStopped() != nil }

// damage overwrites some bytes in the middle of the journal's block.
func damage(t *testing.T, root string) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(root, "bus/jetstream/*/streams/JOURNAL/msgs/*.blk"))
	must.OK(t, err)
	if len(blocks) != 1 {
		t.Fatalf("the journal has the blocks %v", blocks)
	}
	b, err := os.ReadFile(blocks[0])
	must.OK(t, err)
	copy(b[len(b)/2:], make([]byte, 700))
	must.OK(t, os.WriteFile(blocks[0], b, 0o600))
}
