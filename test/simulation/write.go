package simulation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// Write writes a run into a directory: what Record writes, and all of its events as text (.txt).
func (r *Result) Write(dir, name string) error {
	if err := r.Record(dir, name); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, name+".txt"), []byte(r.Report()+"\n\n"+r.Text("", 0)), 0o600); err != nil {
		return fmt.Errorf("write the run: %w", err)
	}
	return nil
}

// Record writes a run into a directory: its journal as stored (.records, each behind its length), the manifests that
// it names (.manifests, JSON by digest) and the state that it folds to (.state).
func (r *Result) Record(dir, name string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("write the run: %w", err)
	}
	records, err := encodeAll(r.sim.journal.stored)
	if err != nil {
		return err
	}
	manifests := map[string]json.RawMessage{}
	for digest, b := range r.sim.manifests.canonical {
		manifests[digest] = b
	}
	text, err := json.Marshal(manifests)
	if err != nil {
		return fmt.Errorf("write the run's manifests: %w", err)
	}
	state, err := StateText(r.sim.journal.stored, r.sim.manifests.get)
	if err != nil {
		return err
	}
	for ext, data := range map[string][]byte{".records": records, ".manifests": append(text, '\n'), ".state": state} {
		if err := os.WriteFile(filepath.Join(dir, name+ext), data, 0o600); err != nil {
			return fmt.Errorf("write the run: %w", err)
		}
	}
	return nil
}

func encodeAll(recs []*journaletv1.Record) ([]byte, error) {
	var out bytes.Buffer
	for _, rec := range recs {
		b, err := messages.Encode(rec)
		if err != nil {
			return nil, err
		}
		out.Write(protowire.AppendBytes(nil, b))
	}
	return out.Bytes(), nil
}

// Difference returns the first line that differs between two texts, empty for none.
func Difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d: want %s, got %s", i+1, w[i], g[i])
		}
	}
	if len(w) != len(g) {
		return fmt.Sprintf("want %d lines, got %d", len(w), len(g))
	}
	return ""
}

// StateText returns what a journal folds to: every actor's state after its last step, as JSON with sorted keys.
func StateText(recs []*journaletv1.Record, manifest func(digest string) (*corev1.Pod, error)) ([]byte, error) {
	cells, err := fold.RecoverCells(fold.AllDeciders, manifest, 0, nil, recs)
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	for _, ref := range cells.Refs() {
		b, err := protojson.Marshal(cells.Decider(ref).State())
		if err != nil {
			return nil, fmt.Errorf("state of %s: %w", ref, err)
		}
		// Through any, so that spaces and the order of keys do not depend on protojson.
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			return nil, fmt.Errorf("state of %s: %w", ref, err)
		}
		all[ref.String()] = map[string]any{"handled": cells.Handled(ref), "waiting": cells.Waiting(ref), "state": v}
	}
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return append(b, '\n'), nil
}
