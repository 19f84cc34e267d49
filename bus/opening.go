package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Opening is what Open found of an earlier run.
type Opening struct {
	// Last is the number of the last record in the journal; the next one gets Last+1.
	Last uint64
	// Clean: the run before ended with Close, and the journal is as it was left.
	Clean bool
	// Damage says what is missing or wrong; nil if nothing is.
	Damage *journaletv1.JournalDamaged
	// FreshJournal: there was none before.
	FreshJournal bool
	// Epoch numbers this run, and no earlier run had it; it is on disk once Begin has returned.
	Epoch uint64
}

// finding is an Opening with what the appender goes on from.
type finding struct {
	Opening
	first   uint64
	hash    []byte // of the last record
	known   uint64 // how many missing records an earlier opening told of
	missing uint64 // and how many are missing now
	cut     *cut   // what retention left, nil if it never cut
}

func (f *finding) head() *journaletv1.Head {
	return &journaletv1.Head{Seq: f.Last, Hash: f.hash, Format: messages.JournalFormat, Epoch: f.Epoch}
}

// inspect compares the journal with the head that was kept beside it, h (nil for none), and checks
// the chain above it. It makes the stream if there is none.
func inspect(ctx context.Context, r *reader, node string, h *journaletv1.Head, headLost bool, kept *aside, known uint64) (*finding, error) {
	state, err := openJournalStream(ctx, r, node, h)
	if err != nil {
		return nil, err
	}
	f := &finding{first: max(state.FirstSeq, 1), known: known, missing: missing(state)}
	f.Last = state.LastSeq
	defer f.told(kept)
	if state.Msgs == 0 {
		f.first = f.Last + 1
		f.hash = h.GetHash()
		f.Epoch = h.GetEpoch() + 1
		f.FreshJournal = h == nil && !headLost && f.Last == 0
		if h.GetSeq() > 0 {
			f.damage(f.Last, 0, "the journal is gone: it held records up to %d and holds none; a new one begins at %d", f.Last, f.Last+1)
		} else if headLost {
			f.damage(f.Last, 0, "the journal's head cannot be read, and there are no records")
		}
		f.Clean = h.GetClean() && f.Damage == nil
		return f, nil
	}
	b, err := lastReadable(ctx, r, state)
	if err != nil {
		return nil, fmt.Errorf("bus: read the journal's last record: %w", err)
	}
	f.hash = messages.Hash(b)
	last, err := messages.Decode(b)
	f.Epoch = max(h.GetEpoch(), last.GetEpoch()) + 1
	switch {
	case b == nil || err != nil:
		f.damage(f.Last, 0, "the journal's last records, up to %d, cannot be read; the journal goes on after them", f.Last)
	case last.GetSeq() != f.Last:
		f.damage(f.Last, last.GetSeq(), "the journal's end is cut: the last record that can be read is %d of %d; the journal goes on after it", last.GetSeq(), f.Last)
	}
	if h.GetSeq() == f.Last {
		f.hash = h.GetHash() // that of the record as it was stored, whatever became of it
	}
	if n := f.missing; n > known {
		f.damage(f.Last, f.Last-n, "%d records between %d and %d are missing; the journal goes on after the last one", n, state.FirstSeq, f.Last)
	}
	if err := f.compare(ctx, r, h); err != nil {
		return nil, err
	}
	f.Clean = h.GetClean() && f.Damage == nil && h.GetSeq() == f.Last
	return f, nil
}

// told adds what the blocks showed before they were opened, if nothing that follows from it was found.
func (f *finding) told(kept *aside) {
	switch {
	case kept.inner != "":
		f.damage(f.Last, f.Last, "%s; journal verify tells which records cannot be read", kept.inner)
	case kept.description:
		f.damage(f.Last, f.Last, "the description of the journal's stream was damaged or missing, and was made anew; the records are there")
	}
	f.Clean = f.Clean && f.Damage == nil
}

// maxUnreadable bounds how far back an opening looks for a record that can be read.
const maxUnreadable = 1024

// lastReadable gives the newest record that can be read, nil if the last maxUnreadable cannot.
func lastReadable(ctx context.Context, r *reader, s jetstream.StreamState) ([]byte, error) {
	for back := uint64(0); back < maxUnreadable && s.LastSeq-back >= max(s.FirstSeq, 1); back++ {
		b, err := r.one(ctx, s.LastSeq-back)
		if !errors.Is(err, errNotStored) {
			return b, err
		}
	}
	return nil, nil
}

// missing is how many numbers between the first and the last record hold none.
func missing(s jetstream.StreamState) uint64 {
	if s.Msgs == 0 {
		return 0
	}
	return s.LastSeq - s.FirstSeq + 1 - s.Msgs
}

// holesFile keeps how many records were missing at the opening before, so that each loss is told once.
const holesFile = "HOLES"

// readHoles gives 0 if there is no such file or it cannot be read: then a loss is told twice.
func readHoles(dir string) uint64 {
	b, err := os.ReadFile(filepath.Join(dir, holesFile))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// keepHoles is called at the end of an opening.
func (f *finding) keepHoles(dir string) error {
	if f.missing == f.known {
		return nil
	}
	if err := writeFileDurably(filepath.Join(dir, holesFile), []byte(strconv.FormatUint(f.missing, 10)+"\n")); err != nil {
		return fmt.Errorf("bus: note what the journal misses: %w", err)
	}
	return nil
}

// damage notes the first thing found wrong: what follows from it is no news.
func (f *finding) damage(expected, found uint64, format string, args ...any) {
	if f.Damage == nil {
		f.Damage = &journaletv1.JournalDamaged{ExpectedSeq: expected, FoundSeq: found, Message: fmt.Sprintf(format, args...)}
	}
}

// compare finds a tail that was cut or changed: the record that the head names must be there with its
// hash, and those above it must follow from it.
func (f *finding) compare(ctx context.Context, r *reader, h *journaletv1.Head) error {
	switch {
	case h == nil:
		f.damage(f.Last, f.Last, "the journal's head is missing or cannot be read: whether the end of the journal was cut cannot be told; it goes on after record %d", f.Last)
		return nil
	case f.Last < h.GetSeq():
		f.damage(h.GetSeq(), f.Last, "the journal's end is cut: records %d to %d were stored and are gone; the journal goes on after %d", f.Last+1, h.GetSeq(), f.Last)
		return nil
	case h.GetSeq() == 0:
		return nil
	}
	if h.GetSeq() < f.first {
		f.damage(h.GetSeq(), f.first, "the journal's head names record %d, and the oldest one kept is %d", h.GetSeq(), f.first)
		return nil
	}
	return f.chain(ctx, r, h.GetSeq(), h.GetHash())
}

// chain checks the records from seq, which must have that hash, to the end.
func (f *finding) chain(ctx context.Context, r *reader, seq uint64, hash []byte) error {
	j := Journal{reader: r, a: &appender{}}
	j.a.stored.Store(f.Last)
	at := seq
	wrong := errors.New("wrong")
	err := j.readBytes(ctx, seq, f.Last, "", func(b []byte) (uint64, error) {
		rec, err := messages.Decode(b)
		switch {
		case err != nil:
			f.damage(at, at-1, "record %d cannot be read", at)
			return 0, wrong
		case rec.GetSeq() != at:
			f.damage(at, rec.GetSeq(), "record %d is missing: %d stands in its place", at, rec.GetSeq())
			return 0, wrong
		case at == seq && !bytes.Equal(messages.Hash(b), hash):
			f.damage(at, at, "record %d is not the one that was stored: the head beside the journal has another hash of it", at)
			return 0, wrong
		case at > seq && !bytes.Equal(rec.GetPreviousHash(), hash):
			f.damage(at, at, "record %d does not follow from the one before it: one of them was changed", at)
			return 0, wrong
		}
		hash = messages.Hash(b)
		at++
		return rec.GetSeq(), nil
	})
	if err != nil && !errors.Is(err, wrong) {
		return fmt.Errorf("bus: check the journal from record %d: %w", seq, err)
	}
	return nil
}

// openJournalStream opens the stream, or makes it. One that lost all its records begins again behind
// the numbers that were given before, so that no number ever means two records.
func openJournalStream(ctx context.Context, r *reader, node string, h *journaletv1.Head) (jetstream.StreamState, error) {
	s, err := r.js.Stream(ctx, journalStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) && h != nil {
		// Its blocks may still be there, if the description was lost: a stream that is made over them takes them up, but
		// would remove them if it were told a first number.
		if s, err = r.js.CreateStream(ctx, journalConfig(node, 0)); err != nil {
			return jetstream.StreamState{}, fmt.Errorf("bus: make the journal anew: %w", err)
		}
	}
	if err == nil {
		info := s.CachedInfo()
		if want := messages.JournalFilter(node); len(info.Config.Subjects) != 1 || info.Config.Subjects[0] != want {
			return jetstream.StreamState{}, fmt.Errorf("bus: the journal is another node's (%v, and this one is %q): give this node its own --root-dir, or its former name", info.Config.Subjects, node)
		}
		if info.State.Msgs > 0 || info.State.LastSeq >= h.GetSeq() {
			return info.State, nil
		}
		if err := r.js.DeleteStream(ctx, journalStream); err != nil {
			return jetstream.StreamState{}, fmt.Errorf("bus: remove the empty journal: %w", err)
		}
	} else if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return jetstream.StreamState{}, fmt.Errorf("bus: open the journal: %w", err)
	}
	first := uint64(0)
	if h.GetSeq() > 0 {
		first = h.GetSeq() + 1
	}
	s, err = r.js.CreateStream(ctx, journalConfig(node, first))
	if err != nil {
		return jetstream.StreamState{}, fmt.Errorf("bus: make the journal: %w", err)
	}
	return s.CachedInfo().State, nil
}
