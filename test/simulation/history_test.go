package simulation

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// TestKeptHistoriesFoldToTheStateTheyHad: journals of runs under faults, as an earlier version wrote them, fold to what they
// folded to then. They are never edited: if one folds to another state, the code is wrong.
func TestKeptHistoriesFoldToTheStateTheyHad(t *testing.T) {
	all, err := filepath.Glob("testdata/histories/*.records")
	if err != nil || len(all) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	for _, path := range all {
		t.Run(filepath.Base(path), func(t *testing.T) {
			base := strings.TrimSuffix(path, ".records")
			got, err := StateText(readRecords(t, path), readManifests(t, base+".manifests"))
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(base + ".state")
			if err != nil {
				t.Fatal(err)
			}
			w, g := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
			for i := range w {
				if i >= len(g) || w[i] != g[i] {
					t.Fatalf("line %d of the state was %s, and is not so any more; there are %d lines, and were %d", i+1, w[i], len(g), len(w))
				}
			}
			if len(g) != len(w) {
				t.Errorf("the state has %d lines, and had %d", len(g), len(w))
			}
		})
	}
}

// readRecords reads a journal and checks its chain.
func readRecords(t *testing.T, path string) []*journaletv1.Record {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var recs []*journaletv1.Record
	var hash []byte
	for in := bufio.NewReader(f); ; {
		rec := new(journaletv1.Record)
		err := protodelim.UnmarshalFrom(in, rec)
		if errors.Is(err, io.EOF) {
			return recs
		}
		if err != nil {
			t.Fatalf("record %d: %v", len(recs)+1, err)
		}
		if rec.GetSeq() != uint64(len(recs)+1) || !bytes.Equal(rec.GetPreviousHash(), hash) {
			t.Fatalf("record %d does not follow from the one before it", rec.GetSeq())
		}
		b, err := messages.Encode(rec)
		if err != nil {
			t.Fatal(err)
		}
		hash = messages.Hash(b)
		recs = append(recs, rec)
	}
}

func readManifests(t *testing.T, path string) func(digest string) (*corev1.Pod, error) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return func(digest string) (*corev1.Pod, error) {
		b, ok := all[digest]
		if !ok {
			return nil, failedCall("no such manifest: " + digest)
		}
		return manifest.Load(b)
	}
}
