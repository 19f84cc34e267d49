package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
)

var (
	updateCorpus = flag.String("update-corpus", "", "folder of a bus to make the corpus of JournalFormat from; no agent may run there")
	corpusNode   = flag.String("corpus-node", "node-1", "node that the bus belongs to")
)

// corpusFormats are the formats of which a recorded journal is kept. A new format adds its own; none goes.
var corpusFormats = []int{1}

// corpusFile names one file of a format's corpus: records (length-delimited, as stored), manifests (a
// JSON object by digest) and state (JSON of what the records fold to).
func corpusFile(format int, what string) string {
	return filepath.Join("testdata", fmt.Sprintf("journal-v%d.%s", format, what))
}

// laterState names what states hold since, beside what they held when the corpus was recorded: a fold may know more than the
// version that wrote the journal, and nothing else than it knew.
var laterState = []string{"openings"}

// A journal outlives the version that wrote it: this one folds journals of every format that was ever
// released to the state that they had then.
func TestRecordedJournalsFoldToTheStateTheyHad(t *testing.T) {
	if *updateCorpus != "" {
		makeCorpus(t, *updateCorpus)
	}
	if last := corpusFormats[len(corpusFormats)-1]; last != messages.JournalFormat {
		t.Fatalf("format %d has no corpus: the last one is of %d", messages.JournalFormat, last)
	}
	for _, format := range corpusFormats {
		recs := readCorpus(t, format)
		m := newMemory(t)
		m.records = recs
		h := New(Options{Journal: m, Snapshots: m, Deciders: AllDeciders, Effects: nothing{}, Manifest: corpusManifests(t, format)})
		r, err := h.Recover()
		if err != nil {
			t.Fatal(err)
		}
		got := stateText(t, r)
		if *updateCorpus != "" && format == messages.JournalFormat {
			if err := os.WriteFile(corpusFile(format, "state"), got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(corpusFile(format, "state"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("format %d folds to another state; the code is wrong, not the corpus: %s", format, firstDifference(string(want), string(got)))
		}
	}
}

// readCorpus reads the records and checks their chain.
func readCorpus(t *testing.T, format int) []*journaletv1.Record {
	t.Helper()
	f, err := os.Open(corpusFile(format, "records"))
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
			t.Fatalf("record %d of format %d does not follow from the one before it", rec.GetSeq(), format)
		}
		// Encoding again gives the bytes as stored: this version writes what that one wrote.
		b, err := messages.Encode(rec)
		if err != nil {
			t.Fatal(err)
		}
		hash = messages.Hash(b)
		recs = append(recs, rec)
	}
}

func corpusManifests(t *testing.T, format int) func(context.Context, string) (*corev1.Pod, error) {
	t.Helper()
	b, err := os.ReadFile(corpusFile(format, "manifests"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return func(_ context.Context, digest string) (*corev1.Pod, error) {
		b, ok := all[digest]
		if !ok {
			return nil, bus.ErrNoManifest
		}
		return manifest.Load(b)
	}
}

// stateText renders every actor's state, and what it has heard and not handled.
func stateText(t *testing.T, r *Recovered) []byte {
	t.Helper()
	type entry struct {
		Handled     uint64
		Open        []uint64        `json:",omitempty"`
		Quarantined string          `json:",omitempty"`
		State       json.RawMessage // by way of any, so that keys are sorted and spaces are ours
	}
	all := map[string]entry{}
	r.Each(func(ref messages.Ref, d actors.Decider) {
		e := entry{Handled: r.fold.cells[ref].handled, State: sortedJSON(t, d.State()), Quarantined: r.fold.cells[ref].quarantined.GetMessage()}
		r.Open(ref, func(rec *journaletv1.Record) { e.Open = append(e.Open, rec.GetSeq()) })
		all[ref.String()] = e
	})
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

func sortedJSON(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if state, ok := v.(map[string]any); ok {
		for _, name := range laterState {
			delete(state, name)
		}
	}
	if b, err = json.Marshal(v); err != nil {
		t.Fatal(err)
	}
	return b
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d: want %s, got %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("want %d lines, got %d", len(w), len(g))
}

// makeCorpus writes the records and manifests of a bus.
func makeCorpus(t *testing.T, dir string) {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Options{Dir: dir, Node: *corpusNode})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close(t.Context()) }()
	if r, err := b.Journal().Verify(t.Context(), nil); err != nil || !r.OK() || b.Journal().First() != 1 {
		t.Fatalf("this journal is no corpus: %+v, %v", r, err)
	}
	var records bytes.Buffer
	if err := b.Journal().Read(t.Context(), 1, 0, "", func(rec *journaletv1.Record, _ int) error {
		stored, err := messages.Encode(rec)
		if err != nil {
			return err
		}
		records.Write(protowire.AppendBytes(nil, stored)) // a length and the bytes
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	digests, err := b.Manifests().Digests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	manifests := map[string]json.RawMessage{}
	for _, d := range digests {
		if manifests[d], err = b.Manifests().Get(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.MarshalIndent(manifests, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	for what, data := range map[string][]byte{"records": records.Bytes(), "manifests": append(text, '\n')} {
		if err := os.WriteFile(corpusFile(messages.JournalFormat, what), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
