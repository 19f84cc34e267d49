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
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
)

const (
	// MinKept is how many of the journal's newest bytes are kept whatever their age. They span at least the two
	// newest blocks of the store, so that a cut never rewrites the block that is written to, and a wrong clock costs
	// only the history before them.
	MinKept = 16 << 20
	// cutDeeper is how far a cut for bytes goes below the bound at least, as 1/cutDeeper of it, so that a journal at its
	// bound is not cut all the time.
	cutDeeper = 8
	// cutFile holds the number of the first record after the last cut, and the hash of the one before it.
	cutFile = "CUT"
	// maxCutFile bounds what is read of it.
	maxCutFile = 4096
	// storedFrame is the bytes that the store adds to a record and its subject: 34 of its own, and the header with the
	// expected number.
	storedFrame = 80
)

// Retention is how much of the journal is kept. The zero value keeps everything.
type Retention struct {
	// Age is the age above which records are cut; 0: no bound.
	Age time.Duration
	// Bytes is the size on disk of records and manifests above which the oldest records are cut, and the manifests that
	// only these name; 0: no bound. Manifests count at most half of it.
	Bytes uint64
	// Before is the number of a record below which all are cut; 0: no bound.
	Before uint64
}

// Bounded reports whether anything is ever cut.
func (r Retention) Bounded() bool { return r.Age > 0 || r.Bytes > 0 || r.Before > 0 }

// records returns how many bytes of records are kept beside so many bytes of manifests. Bytes is set.
func (r Retention) records(manifests uint64) uint64 { return r.Bytes - min(manifests, r.Bytes/2) }

// over returns how many bytes of the oldest records are to be cut, a part of Bytes more than is needed.
func (r Retention) over(records, manifests uint64) (over uint64) {
	if r.Bytes == 0 {
		return 0
	}
	if keep := r.records(manifests); records > keep {
		over = records - (keep - r.Bytes/cutDeeper)
	}
	if half := r.Bytes / 2; manifests > half {
		// Which records name how many of them is not known without reading all: about as many each.
		share := 1 - float64(half-half/cutDeeper)/float64(manifests)
		over = max(over, uint64(float64(records)*share))
	}
	return over
}

// room returns how many bytes may be stored until a cut is due.
func (r Retention) room(records, manifests uint64) int64 {
	room := r.Bytes / cutDeeper // what could not be cut now is no reason to try again at once
	if keep, half := r.records(manifests), r.Bytes/2; records < keep && manifests < half {
		room = max(room, min(keep-records, half-manifests))
	}
	return int64(room)
}

// cut describes the last cut. It is on disk before the first record is removed, so that missing oldest records that
// retention did not cut are noticed.
type cut struct {
	// First is the oldest record that is kept.
	First uint64 `json:"first"`
	// PreviousHash is the hash of the record before it, in hex: the chain begins with it.
	PreviousHash string `json:"previousHash"`
}

// readCut returns the last cut; nil if nothing was cut or the cut's file cannot be read: then missing oldest records
// are reported as damage.
func readCut(dir string, log *slog.Logger) *cut {
	b, err := bounded.ReadFile(filepath.Join(dir, cutFile), maxCutFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	c := new(cut)
	if err == nil {
		err = bounded.JSON(b, maxCutFile, c)
	}
	if err != nil || c.First == 0 || c.hash() == nil {
		log.Warn("cannot read what retention cut from the journal; the records that it cut are reported as missing",
			"file", filepath.Join(dir, cutFile), "err", err)
		return nil
	}
	return c
}

func (c *cut) write(dir string) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return durable.Write(filepath.Join(dir, cutFile), append(b, '\n'))
}

// first returns the number of the oldest record that should be there.
func (c *cut) first() uint64 {
	if c == nil {
		return 1
	}
	return c.First
}

// hash returns the hash of the record before the first one kept; nil if it is not known.
func (c *cut) hash() []byte {
	if c == nil {
		return nil
	}
	if b, err := hex.DecodeString(c.PreviousHash); err == nil && len(b) == messages.HashBytes {
		return b
	}
	return nil
}

// CutTo returns the number of the first record after retention's last cut, 1 if the journal does not begin with one.
func (j *Journal) CutTo() uint64 {
	if c := j.cut.Load(); c != nil && c.First == j.First() {
		return c.First
	}
	return 1
}

// Full signals each time that the journal has outgrown the bytes of the last Retain. It is never closed.
func (j *Journal) Full() <-chan struct{} { return j.a.full }

// Excess returns the first record that Retain would keep after one more set of snapshots; First if there is nothing to
// cut. It reads the records to be cut. now is the time that ages are computed from.
func (j *Journal) Excess(ctx context.Context, r Retention, sets []SnapshotSet, now time.Time) (uint64, error) {
	c, err := j.findCut(ctx, r, oneMore(sets, j.Last()), now)
	if err != nil {
		return 0, fmt.Errorf("find the records that retention cuts: %w", err)
	}
	return c.keep().next, nil
}

// oneMore returns sets with one at the journal's end.
func oneMore(sets []SnapshotSet, last uint64) []SnapshotSet {
	return append(slices.Clone(sets), SnapshotSet{Barrier: last, NeededAfter: last})
}

func (j *Journal) findCut(ctx context.Context, r Retention, sets []SnapshotSet, now time.Time) (*cutting, error) {
	c := newCutting(j.First(), j.Last(), sets)
	if !r.Bounded() || c.limit < c.first {
		return c, nil
	}
	records, manifests, err := j.bytes(ctx)
	if err != nil {
		return nil, err
	}
	c.bound(r, records, manifests, j.least)
	return c, c.ignoreFound(j.readBytes(ctx, c.first, c.limit, "", func(b []byte) (uint64, error) {
		rec, err := messages.Decode(b)
		if err != nil {
			return 0, err
		}
		size := uint64(len(b)+len(messages.Subject(j.node, rec))) + storedFrame
		return rec.GetSeq(), errors.Join(c.addRecord(rec, size, r, now), ctx.Err())
	}))
}

// bytes returns the bytes on disk of records and of manifests.
func (j *Journal) bytes(ctx context.Context) (records, manifests uint64, err error) {
	r, err := j.reader.state(ctx, journalStream)
	if err != nil {
		return 0, 0, err
	}
	m, err := j.reader.state(ctx, manifestStream)
	return r.Bytes, m.Bytes, err
}

// cutting finds the place of a cut, record by record from the first one on. The journal is cut behind the barrier of a
// set of snapshots, so that the rest can be folded from its first record on: the highest barrier that the bounds
// permit. If that leaves too many bytes, it is the lowest barrier that does not; without such a set the cut for bytes
// ends where it must.
type cutting struct {
	first  uint64   // of the journal
	places []uint64 // first records behind sets of snapshots, ascending
	newest uint64   // behind the newest set: all from there on stay
	limit  uint64   // the last record that may go
	over   uint64   // bytes to be cut
	most   uint64   // bytes that may be cut: the newest ones stay
	gone   uint64   // bytes of the records so far

	required  edge // by the bound of bytes
	permitted edge // by all bounds: only a prefix is cut, to the first record that is neither too old nor too much
	ended     bool // permitted is final
	below     edge // the highest place up to permitted
	above     edge // the lowest place above required that the newest bytes leave
}

// edge is where a cut may end: the first record that is kept, and the bytes before it.
type edge struct{ next, gone uint64 }

func newCutting(first, last uint64, sets []SnapshotSet) *cutting {
	c := &cutting{first: first, required: edge{next: first}, permitted: edge{next: first}}
	for _, set := range sets {
		c.places = append(c.places, set.NeededAfter+1)
	}
	if len(sets) > 0 {
		// The newest set may need more than older ones: an actor was quarantined since.
		c.newest = c.places[len(sets)-1]
		c.limit = min(c.newest, max(last, 1)) - 1
	}
	slices.Sort(c.places)
	return c
}

// bound sets what is to be cut of so many bytes of records. The newest ones stay.
func (c *cutting) bound(r Retention, records, manifests, newest uint64) {
	c.over = r.over(records, manifests)
	c.most = records - min(newest, records)
}

// errFound ends the search for the place of a cut.
var errFound = errors.New("found")

func (c *cutting) ignoreFound(err error) error {
	if errors.Is(err, errFound) {
		return nil
	}
	return err
}

// addRecord adds a record with its bytes on disk; errFound if no more are needed.
func (c *cutting) addRecord(rec *journaletv1.Record, size uint64, r Retention, now time.Time) error {
	if c.gone += size; c.gone > c.most {
		return errFound
	}
	old := r.Age > 0 && now.Sub(rec.GetTime().AsTime()) > r.Age || rec.GetSeq() < r.Before
	if c.add(rec.GetSeq(), old) {
		return errFound
	}
	return nil
}

// add adds a record, whose bytes are counted, and reports whether the place is found.
func (c *cutting) add(seq uint64, old bool) bool {
	here := edge{seq + 1, c.gone}
	if c.gone <= c.over {
		c.required = here
	}
	if c.ended = c.ended || !old && c.gone > c.over; !c.ended {
		c.permitted = here
	}
	_, found := slices.BinarySearch(c.places, here.next)
	switch {
	case found && here.next <= c.permitted.next:
		c.below = here
	case found && here.next > c.required.next && c.above.next == 0:
		c.above = here
	}
	return c.ended && (c.required.next == c.first || c.below.next >= c.required.next || c.above.next > 0)
}

// keep returns where the cut ends.
func (c *cutting) keep() edge {
	switch {
	case c.required.next == c.first && c.below.next == 0:
		return edge{next: c.first} // nothing has to go
	case c.required.next == c.first || c.below.next >= c.required.next:
		return c.below
	case c.above.next > 0:
		return c.above
	case c.newest >= c.required.next:
		return c.required
	case c.below.next > 0:
		return c.below
	}
	return edge{next: c.first}
}

// Retain cuts the journal's oldest records according to r, behind one of the complete sets of snapshots: the state
// needs the records after it. The newest MinKept bytes and the last record stay. It returns how many records it cut.
// now is the time that ages are computed from. One Retain at a time.
func (j *Journal) Retain(ctx context.Context, r Retention, sets []SnapshotSet, now time.Time) (n uint64, err error) {
	p, err := j.prune(ctx, r, sets, now)
	if err != nil {
		return 0, fmt.Errorf("cut the journal's front: %w", err)
	}
	n = p.Keep - p.First
	records, manifests, err := j.bytes(ctx)
	if err != nil {
		return n, fmt.Errorf("measure the journal after a cut: %w", err)
	}
	j.a.allowance.Store(r.room(records, manifests))
	return n, nil
}

// cutBefore makes keep the first record. It writes cutFile first: after a crash between the two, the next start
// finishes the cut.
func (j *Journal) cutBefore(ctx context.Context, keep uint64) error {
	rec, err := j.Get(ctx, keep)
	if err != nil {
		return err
	}
	if !j.cutting.TryLock() { // Verify must not lose its first records, nor block retention
		return errors.New("journal verify is reading all of it now")
	}
	defer j.cutting.Unlock()
	c := &cut{First: keep, PreviousHash: hex.EncodeToString(rec.GetPreviousHash())}
	if err := c.write(j.dir); err != nil {
		return fmt.Errorf("write %s: %w", cutFile, err)
	}
	j.cut.Store(c)
	j.first.Store(keep) // before the purge, so that no reader requests purged records
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

// finishCut finishes a cut that a crash interrupted, ignores a cut of another journal, and notices oldest records
// that are missing without a cut.
func (f *finding) finishCut(ctx context.Context, r *reader, c *cut, log *slog.Logger) error {
	if c != nil && c.First > f.Last+1 {
		c = nil // of an earlier journal
	}
	f.cut = c
	defer func() { f.Clean = f.Clean && f.Damage == nil }()
	if f.first < c.first() && f.first <= f.Last {
		j := Journal{reader: r, blocks: &blocks{dir: r.blocksDir}}
		if err := j.purge(ctx, c.First); err != nil {
			// Reads skip them anyway, and the next start tries again.
			log.Warn("records that retention cut could not be removed; the next start tries again", "before", c.First, "err",
				err)
		}
		f.first = c.First
	}
	if f.first <= c.first() {
		return f.checkFront(ctx, r)
	}
	gone := f.first - c.first()
	if f.missing += gone; f.missing > f.known.sum() {
		f.damage(c.first(), f.first,
			"the journal's oldest records, %d to %d, are gone, and retention did not cut them",
			c.first(), f.first-1)
	}
	return nil
}

// checkFront compares the first record with the last cut.
func (f *finding) checkFront(ctx context.Context, r *reader) error {
	if f.cut == nil || f.first > f.Last {
		return nil
	}
	b, err := r.record(ctx, f.first)
	if errors.Is(err, errNotStored) {
		return nil // counted as missing
	}
	if err != nil {
		return fmt.Errorf("bus: read the journal's first record: %w", err)
	}
	rec, err := messages.Decode(b)
	if err != nil || !bytes.Equal(rec.GetPreviousHash(), f.cut.hash()) {
		f.damage(f.first, f.first, "record %d, the first one kept, does not chain to the last one that retention cut",
			f.first)
	}
	return nil
}
