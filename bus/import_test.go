package bus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func imported(t *testing.T, dir string, first uint64, recs ...*journaletv1.Record) error {
	t.Helper()
	i, err := NewImport(t.Context(), dir, "n_example", first)
	if err != nil {
		return err
	}
	defer i.Abort()
	for _, rec := range recs {
		b, err := messages.Encode(rec)
		must.OK(t, err)
		if err := i.Record(b, rec); err != nil {
			return err
		}
	}
	return i.Close(t.Context())
}

func TestAnImportedJournalBeginsWhereItsRecordsDo(t *testing.T) {
	first := &journaletv1.Record{Seq: 70, Epoch: 3, Actor: messages.Pod("u").Proto(),
		PreviousHash: messages.Hash([]byte("69")), Body: observed("u")}
	b, err := messages.Encode(first)
	must.OK(t, err)
	second := &journaletv1.Record{Seq: 71, Epoch: 3, Actor: messages.Pod("u").Proto(),
		PreviousHash: messages.Hash(b), Body: observed("u")}
	dir := filepath.Join(t.TempDir(), "bus")
	must.OK(t, imported(t, dir, 70, first, second))
	s, err := OpenStored(dir)
	must.OK(t, err)
	r, err := s.Verify(t.Context(), nil)
	if err != nil || !r.OK() || r.First != 70 || r.Last != 71 || !r.Cut || r.Epochs != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := imported(t, dir, 70, first); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("an import over a journal: %v", err)
	}
	if _, err := Prepare(t.Context(), Options{Dir: dir, Node: "n.example"}); err == nil ||
		!strings.Contains(err.Error(), "was imported from a bundle") {
		t.Errorf("an agent on an imported journal: %v", err)
	}
}

func TestAnImportRefusesGapsAndFiles(t *testing.T) {
	rec := &journaletv1.Record{Seq: 3, Actor: messages.Pod("u").Proto(), Body: observed("u")}
	err := imported(t, filepath.Join(t.TempDir(), "bus"), 2, rec)
	if err == nil || !strings.Contains(err.Error(), "record 3 follows record 1") {
		t.Errorf("a gap: %v", err)
	}
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600))
	if err := imported(t, dir, 3, rec); err == nil || !strings.Contains(err.Error(), "it holds notes") {
		t.Errorf("a directory with a file: %v", err)
	}
}

func observed(uid string) *journaletv1.Record_Fact {
	return &journaletv1.Record_Fact{Fact: messages.NewEvent(&journaletv1.PodObserved{Uid: uid})}
}
