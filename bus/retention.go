package bus

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/journalet/journalet/messages"
)

const (
	// MinKept is how many of the journal's newest bytes are kept whatever their age: they span the two
	// newest blocks of the store or more, so that a cut never rewrites the block that is written to, and
	// a clock that is wrong costs no more than history beyond them.
	MinKept = 16 << 20
	// cutDeeper is the part of the bytes' bound, one over this, that a cut goes below it, so that a
	// journal at its bound is not cut all the time.
	cutDeeper = 8
	// cutFile names the record that the last cut left first, and what stood before it.
	cutFile = "CUT"
	// maxCutFile bounds what is read of it.
	maxCutFile = 4096
	// storedFrame is what the store adds to a record and its subject: 34 bytes of its own, and the header
	// with the expected number.
	storedFrame = 80
)

// Retention says how much of the journal is kept. The zero value keeps everything.
type Retention struct {
	// Age cuts records that are older; 0: no bound.
	Age time.Duration
	// Bytes cuts the oldest records while the journal takes more on disk; 0: no bound.
	Bytes uint64
}

// Bounded tells whether anything is ever cut.
func (r Retention) Bounded() bool { return r.Age > 0 || r.Bytes > 0 }

// cut is the note of the last cut. It is on disk before the first record goes, so that a front that is
// missing without one shows.
type cut struct {
	// First is the oldest record that is kept.
	First uint64 `json:"first"`
	// PreviousHash is of the record before it, in hex: the chain begins with it.
	PreviousHash string `json:"previousHash"`
}

// readCut gives the note of the last cut, nil if there is none or it cannot be read: then a front that
// is missing is told as damage.
func readCut(dir string, log *slog.Logger) *cut {
	b, err := os.ReadFile(filepath.Join(dir, cutFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	c := new(cut)
	if err == nil && len(b) <= maxCutFile {
		err = json.Unmarshal(b, c)
	}
	if err != nil || c.First == 0 || c.hash() == nil {
		log.Warn("the note of what retention cut from the journal cannot be read; what it cut shows as missing", "file", filepath.Join(dir, cutFile), "err", err)
		return nil
	}
	return c
}

func (c *cut) write(dir string) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return writeFileDurably(filepath.Join(dir, cutFile), append(b, '\n'))
}

// first is the oldest record that should be there.
func (c *cut) first() uint64 {
	if c == nil {
		return 1
	}
	return c.First
}

// hash is what the first record kept names as the one before it; nil if it is not known.
func (c *cut) hash() []byte {
	if c == nil {
		return nil
	}
	if b, err := hex.DecodeString(c.PreviousHash); err == nil && len(b) == messages.HashBytes {
		return b
	}
	return nil
}

// CutTo is the first record that retention left, 1 if what is kept does not begin with a cut of its.
func (j *Journal) CutTo() uint64 {
	if c := j.cut.Load(); c != nil && c.First == j.First() {
		return c.First
	}
	return 1
}

// Full hears once each time that the journal has outgrown the bytes of the last Retain. It is never closed.
func (j *Journal) Full() <-chan struct{} { return j.a.full }

// Excess tells how far r would cut if nothing kept it from it: the first record to be kept. It equals
// First if there is nothing to cut. It reads what is to be cut, and what Retain is to be given as now.
func (j *Journal) Excess(ctx context.Context, r Retention, now time.Time) (uint64, error) {
	first, err := j.excess(ctx, r, now, j.Last())
	if err != nil {
		return 0, fmt.Errorf("look for what retention cuts: %w", err)
	}
	return first, nil
}

// excess finds the first record to be kept, at most limit+1. Only a prefix is cut: it ends before the
// first record that is neither too old nor too much. So where the clock was set back, records wait for
// those before them, and never go before their time.
func (j *Journal) excess(ctx context.Context, r Retention, now time.Time, limit uint64) (uint64, error) {
	keep := j.First()
	if limit = min(limit, max(j.Last(), 1)-1); !r.Bounded() || limit < keep {
		return keep, nil
	}
	state, err := j.reader.state(ctx, journalStream)
	if err != nil {
		return 0, err
	}
	var over uint64 // what the bytes' bound asks to go
	if r.Bytes > 0 && state.Bytes > r.Bytes {
		over = state.Bytes - (r.Bytes - r.Bytes/cutDeeper)
	}
	least, gone := j.least, uint64(0)
	enough := errors.New("enough")
	err = j.readBytes(ctx, keep, limit, "", func(b []byte) (uint64, error) {
		rec, err := messages.Decode(b)
		if err != nil {
			return 0, err
		}
		old := r.Age > 0 && now.Sub(rec.GetTime().AsTime()) > r.Age
		gone += uint64(len(b)+len(messages.Subject(j.node, rec))) + storedFrame
		if gone+least > state.Bytes || !old && gone > over {
			return 0, enough
		}
		keep = rec.GetSeq() + 1
		return rec.GetSeq(), ctx.Err()
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return keep, err
}

// Retain cuts records from the front of the journal as r asks, but none above barrier, which must be
// one that a complete set of snapshots stands for: the live state needs what follows it. The newest
// MinKept bytes stay, and the last record. It returns how many records went. now is what ages are told
// by. One Retain at a time.
func (j *Journal) Retain(ctx context.Context, r Retention, barrier uint64, now time.Time) (n uint64, err error) {
	first := j.First()
	keep, err := j.excess(ctx, r, now, barrier)
	if err == nil && keep > first {
		err = j.cutBefore(ctx, keep)
	}
	if err != nil {
		return 0, fmt.Errorf("cut the journal's front: %w", err)
	}
	state, err := j.reader.state(ctx, journalStream)
	if err != nil {
		return keep - first, fmt.Errorf("measure the journal after a cut: %w", err)
	}
	// When to hear of it next. What could not be cut now is no reason to try again at once.
	room := int64(r.Bytes / cutDeeper)
	if state.Bytes < r.Bytes {
		room = max(room, int64(r.Bytes-state.Bytes))
	}
	j.a.allowance.Store(room)
	return keep - first, nil
}

// cutBefore makes keep the first record. The note comes first: after a crash between the two, the next
// opening ends what was begun.
func (j *Journal) cutBefore(ctx context.Context, keep uint64) error {
	rec, err := j.Get(ctx, keep)
	if err != nil {
		return err
	}
	if !j.cutting.TryLock() { // what reads everything is not to lose its beginning, nor to hold us up
		return errors.New("journal verify reads all of it just now")
	}
	defer j.cutting.Unlock()
	c := &cut{First: keep, PreviousHash: hex.EncodeToString(rec.GetPreviousHash())}
	if err := c.write(j.dir); err != nil {
		return fmt.Errorf("note it: %w", err)
	}
	j.cut.Store(c)
	j.first.Store(keep) // before the purge, so that no reader misses what goes
	return j.purge(ctx, keep)
}

func (j *Journal) purge(ctx context.Context, keep uint64) error {
	s, err := j.reader.js.Stream(ctx, journalStream)
	if err != nil {
		return err
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSequence(keep)); err != nil {
		return fmt.Errorf("remove the records before %d: %w", keep, err)
	}
	return j.blocks.forceAll()
}

// settleCut ends a cut that a crash left half done, forgets the note of one that belongs to another
// journal, and notices a front that is missing without one.
func (f *finding) settleCut(ctx context.Context, r *reader, c *cut, log *slog.Logger) error {
	if c != nil && c.First > f.Last+1 {
		c = nil // of a journal that is gone
	}
	f.cut = c
	defer func() { f.Clean = f.Clean && f.Damage == nil }()
	if f.first < c.first() && f.first <= f.Last {
		j := Journal{reader: r, blocks: &blocks{dir: r.blocksDir}}
		if err := j.purge(ctx, c.First); err != nil {
			// They are passed over all the same, and the next opening tries again.
			log.Warn("what retention cut from the journal could not be removed yet", "before", c.First, "err", err)
		}
		f.first = c.First
	}
	if f.first <= c.first() {
		return f.checkFront(ctx, r)
	}
	gone := f.first - c.first()
	if f.missing += gone; f.missing > f.known {
		f.damage(c.first(), f.first, "the journal's front is missing: records %d to %d are gone, and retention did not cut them", c.first(), f.first-1)
	}
	return nil
}

// checkFront compares the first record with the note of the cut before it.
func (f *finding) checkFront(ctx context.Context, r *reader) error {
	if f.cut == nil || f.first > f.Last {
		return nil
	}
	b, err := r.one(ctx, f.first)
	if errors.Is(err, errNotStored) {
		return nil // missing, and counted as such
	}
	if err != nil {
		return fmt.Errorf("bus: read the journal's first record: %w", err)
	}
	rec, err := messages.Decode(b)
	if err != nil || !bytes.Equal(rec.GetPreviousHash(), f.cut.hash()) {
		f.damage(f.first, f.first, "record %d, the first one kept, is not the one that retention left there", f.first)
	}
	return nil
}
