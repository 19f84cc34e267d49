package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
)

// Opening is what Prepare found of an earlier run.
type Opening struct {
	// Last is the number of the last record in the journal; the next one gets Last+1.
	Last uint64
	// Clean: the run before ended with Close, and the journal is as it was left.
	Clean bool
	// Damage describes what is missing or wrong; nil if nothing is.
	Damage *journaletv1.JournalDamaged
	// FreshJournal: there was no journal before.
	FreshJournal bool
	// Epoch is the number of this run; no earlier run had it. It is on disk once Begin has returned.
	Epoch uint64
}

// finding is an Opening with what the appender continues from.
type finding struct {
	Opening
	first   uint64
	hash    []byte // of the last record
	known   holes  // what an earlier start reported
	missing uint64 // how many records are missing now
	// unreadable is how many records the server counts, because it trusted its index, that no block holds whole. It
	// counts them as missing as soon as it reads their block.
	unreadable uint64
	cut        *cut // retention's last cut, nil if there was none
}

func (f *finding) head() *journaletv1.Head {
	return &journaletv1.Head{Seq: f.Last, Hash: f.hash, Format: messages.JournalFormat, Epoch: f.Epoch}
}

// inspect compares the journal with its head h (nil without a head), and checks the chain above the head. It
// creates the stream if needed.
func inspect(ctx context.Context, r *reader, node string, h *journaletv1.Head, headLost bool, kept *damagedFiles,
	known holes) (*finding, error) {
	state, err := openJournalStream(ctx, r, node, h)
	if err != nil {
		return nil, err
	}
	f := &finding{first: max(state.FirstSeq, 1), known: known, missing: missing(state)}
	if f.unreadable = known.left(f.missing); kept.damagedBlock != "" {
		if f.unreadable, err = unreadable(ctx, r, state); err != nil {
			return nil, fmt.Errorf("bus: count the journal's records: %w", err)
		}
	}
	f.Last = state.LastSeq
	defer f.addDamagedFiles(kept)
	if state.Msgs == 0 {
		f.first = f.Last + 1
		f.hash = h.GetHash()
		f.Epoch = h.GetEpoch() + 1
		f.FreshJournal = h == nil && !headLost && f.Last == 0
		if h.GetSeq() > 0 {
			f.damage(f.Last, 0, "the journal is gone: it had records up to %d; a new one begins at %d",
				f.Last, f.Last+1)
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
		f.damage(f.Last, 0, "the journal's last records, up to %d, cannot be read; the journal continues after them", f.Last)
	case last.GetSeq() != f.Last:
		f.damage(f.Last, last.GetSeq(),
			"the journal's end is cut: the last readable record is %d of %d; the journal continues after %[2]d",
			last.GetSeq(), f.Last)
	}
	if h.GetSeq() == f.Last {
		f.hash = h.GetHash() // of the record as it was stored, even if it is damaged now
	}
	if n := f.missing; n > known.sum() {
		f.damage(f.Last, f.Last-n, "%d records between %d and %d are missing; the journal continues after %[3]d",
			n, state.FirstSeq, f.Last)
	}
	if err := f.compare(ctx, r, h); err != nil {
		return nil, err
	}
	f.Clean = h.GetClean() && f.Damage == nil && h.GetSeq() == f.Last
	return f, nil
}

// addDamagedFiles reports damage that the blocks had before the server opened them, if nothing else was found.
func (f *finding) addDamagedFiles(kept *damagedFiles) {
	switch {
	case kept.damagedBlock != "":
		f.damage(f.Last, f.Last, "%s; journal verify lists the records that cannot be read", kept.damagedBlock)
	case kept.description:
		f.damage(f.Last, f.Last, "the description of the journal's stream was damaged or missing, and was created again; "+
			"the records are there")
	}
	f.Clean = f.Clean && f.Damage == nil
}

// maxUnreadable bounds how many of the last records a start tries to read.
const maxUnreadable = 1024

// lastReadable returns the newest record that can be read, nil if the last maxUnreadable cannot.
func lastReadable(ctx context.Context, r *reader, s jetstream.StreamState) ([]byte, error) {
	for back := uint64(0); back < maxUnreadable && s.LastSeq-back >= max(s.FirstSeq, 1); back++ {
		b, err := r.record(ctx, s.LastSeq-back)
		if !errors.Is(err, errNotStored) {
			return b, err
		}
	}
	return nil, nil
}

// missing returns how many numbers between the first and the last record have no record.
func missing(s jetstream.StreamState) uint64 {
	if s.Msgs == 0 {
		return 0
	}
	return s.LastSeq - s.FirstSeq + 1 - s.Msgs
}

// unreadable returns how many of the records that the server counts are whole in no block.
func unreadable(ctx context.Context, r *reader, s jetstream.StreamState) (uint64, error) {
	bl := blocks{dir: r.blocksDir}
	numbers, err := bl.numbers()
	if err != nil {
		return 0, err
	}
	whole := uint64(0)
	count := func(fr frame) error {
		if !fr.removes && !fr.gone && fr.seq >= s.FirstSeq && fr.seq <= s.LastSeq {
			whole++
		}
		return nil
	}
	err = bl.eachFrame(ctx, journalStream, journalSubjects, numbers, count, func(uint64, int, error) {})
	if err != nil {
		return 0, err
	}
	return s.Msgs - min(s.Msgs, whole), nil
}

// holesFile holds the holes of the start before, so that each loss is reported once.
const holesFile = "HOLES"

// maxHolesFile bounds what is read of it: two numbers.
const maxHolesFile = 64

// holes counts the lost records that a start has reported: the records that the server counted as missing, and the
// unreadable records that it did not count yet.
type holes struct{ missing, unreadable uint64 }

func (h holes) sum() uint64 { return h.missing + h.unreadable }

// left returns how many unreadable records the server still does not count, now that it counts this many as missing.
func (h holes) left(missing uint64) uint64 {
	return h.unreadable - min(h.unreadable, missing-min(missing, h.missing))
}

// readHoles returns none if there is no such file or it cannot be read: then a loss is reported twice.
func readHoles(dir string) (h holes) {
	b, err := bounded.ReadFile(filepath.Join(dir, holesFile), maxHolesFile)
	if err != nil {
		return holes{}
	}
	n := [2]uint64{}
	for i, field := range strings.Fields(string(b[:min(len(b), 64)])) {
		if i == len(n) {
			return holes{}
		}
		if n[i], err = strconv.ParseUint(field, 10, 64); err != nil {
			return holes{}
		}
	}
	return holes{n[0], n[1]}
}

// keepHoles stores the counts of lost records; Begin calls it.
func (f *finding) keepHoles(dir string) error {
	now := holes{f.missing, f.unreadable}
	if now == f.known {
		return nil
	}
	text := fmt.Sprintf("%d %d\n", now.missing, now.unreadable)
	if err := durable.Write(filepath.Join(dir, holesFile), []byte(text)); err != nil {
		return fmt.Errorf("bus: store the count of missing records: %w", err)
	}
	return nil
}

// damage keeps the first finding only: later ones follow from it.
func (f *finding) damage(expected, found uint64, format string, args ...any) {
	if f.Damage == nil {
		f.Damage = &journaletv1.JournalDamaged{ExpectedSeq: expected, FoundSeq: found, Message: fmt.Sprintf(format, args...)}
	}
}

// compare finds a tail that was cut or changed: the record that the head names must be there with its hash, and the
// records above it must chain to it.
func (f *finding) compare(ctx context.Context, r *reader, h *journaletv1.Head) error {
	switch {
	case h == nil:
		f.damage(f.Last, f.Last,
			"the journal's head is missing or cannot be read: the end of the journal may have been cut; "+
				"it continues after record %d", f.Last)
		return nil
	case f.Last < h.GetSeq():
		f.damage(h.GetSeq(), f.Last,
			"the journal's end is cut: records %d to %d were stored and are gone; the journal continues after %d",
			f.Last+1, h.GetSeq(), f.Last)
		return nil
	case h.GetSeq() == 0:
		return nil
	}
	if h.GetSeq() < f.first {
		f.damage(h.GetSeq(), f.first, "the journal's head names record %d, and the oldest one kept is %d", h.GetSeq(),
			f.first)
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
			f.damage(at, rec.GetSeq(), "record %d is missing: %d is in its place", at, rec.GetSeq())
			return 0, wrong
		case at == seq && !bytes.Equal(messages.Hash(b), hash):
			f.damage(at, at, "record %d is not the one that was stored: the journal's head has another hash for it", at)
			return 0, wrong
		case at > seq && !bytes.Equal(rec.GetPreviousHash(), hash):
			f.damage(at, at, "record %d does not chain to the one before it: one of them was changed", at)
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

// openJournalStream opens or creates the stream. A stream that lost all its records begins again above the numbers that
// were given before, so that no number ever means two records.
func openJournalStream(ctx context.Context, r *reader, node string, h *journaletv1.Head) (jetstream.StreamState,
	error) {
	s, err := r.js.Stream(ctx, journalStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) && h != nil && anyFile(r.blocksDir) {
		// If only the description was lost, its blocks are still there. A stream created over them recovers them, but
		// with a first number it would remove them. Without blocks it is not created here: nats-server removes the
		// directories of a deleted stream in the background, so that creating the next stream fails now and then.
		if s, err = r.js.CreateStream(ctx, journalConfig(node, 0)); err != nil {
			return jetstream.StreamState{}, fmt.Errorf("bus: create the journal again: %w", err)
		}
	}
	if err == nil {
		info := s.CachedInfo()
		if want := messages.JournalFilter(node); len(info.Config.Subjects) != 1 || info.Config.Subjects[0] != want {
			return jetstream.StreamState{}, fmt.Errorf("bus: the journal is another node's (%v, and this one is %q): "+
				"give this node its own --root-dir, or its former name", info.Config.Subjects, node)
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
		return jetstream.StreamState{}, fmt.Errorf("bus: create the journal: %w", err)
	}
	return s.CachedInfo().State, nil
}

// anyFile reports whether a directory has anything in it.
func anyFile(dir string) bool {
	for _, err := range bounded.Entries(dir) {
		return err == nil
	}
	return false
}
