package bus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// OpenShared opens the journal in the bus's directory dir to read its records, manifests and snapshots, also while an
// agent has it open. It holds what was stored when it was opened: a torn end is the journal's end. Errors are
// ErrNoJournal, missing permissions, records of another node than the journal's, and a format other than this
// version's.
func OpenShared(ctx context.Context, dir string) (*Stored, error) {
	s, err := newStored(dir)
	if err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	if s.meta != nil && !errors.Is(s.meta, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the journal in %s: %w; run journal verify", s.dir, s.meta)
	}
	if s.span, err = s.findSpan(ctx); err != nil {
		return nil, fmt.Errorf("read the journal in %s: %w", s.dir, err)
	}
	return s, nil
}

// span is what a journal held when it was opened: its records, and the first record of each block.
type span struct {
	first, last uint64
	blocks      []uint64 // numbers of the blocks with records, ascending
	starts      []uint64 // their first records, ascending
}

// spanTries is how often findSpan tries again when retention removes a block meanwhile.
const spanTries = 8

func (s *Stored) findSpan(ctx context.Context) (*span, error) {
	for try := 1; ; try++ {
		sp, err := s.trySpan(ctx)
		if !errors.Is(err, fs.ErrNotExist) || try == spanTries {
			return sp, err
		}
		s.cut = readCut(s.dir, slog.New(slog.DiscardHandler))
	}
}

func (s *Stored) trySpan(ctx context.Context) (*span, error) {
	bl := s.blocks(journalStream)
	numbers, err := bl.numbers()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	sp := &span{}
	for _, n := range numbers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		fr, err := s.firstRecord(bl, n, 0)
		if err != nil {
			return nil, err
		}
		if k := len(sp.starts); fr.seq == 0 || k > 0 && fr.seq <= sp.starts[k-1] {
			continue // no records, or records of another journal
		}
		sp.blocks, sp.starts = append(sp.blocks, n), append(sp.starts, fr.seq)
	}
	if err := s.findEnds(bl, sp); err != nil {
		return nil, err
	}
	if sp.last == 0 {
		sp.last = s.head.GetSeq()
		sp.first = sp.last + 1
	}
	return sp, nil
}

// firstBytes is how much of a block is read to find its first record, and mostly enough.
const firstBytes = 4096

// firstRecord returns the first record of a block from a number on, one of number 0 if it has none.
func (s *Stored) firstRecord(bl *blocks, n, from uint64) (frame, error) {
	b, err := bl.readAt(n, 0, firstBytes)
	if err != nil {
		return frame{}, err
	}
	if fr, err := parseFrame(b, blockSum(journalStream, n)); err == nil && !fr.removes && !fr.gone && fr.seq >= from {
		return fr, nil
	}
	var c block
	if err := c.read(bl, journalStream, s.prefix(), n); err != nil {
		return frame{}, err
	}
	for i := range c.places {
		if p := &c.places[i]; p.isRecord() && p.seq >= from {
			return p.frame, nil
		}
	}
	return frame{}, nil
}

// isRecord reports whether a record that is kept is there.
func (p *place) isRecord() bool { return p.bad == nil && !p.removes && !p.gone && p.seq > 0 }

// findEnds finds the first and the last record, which are in the first blocks above the last cut and in the last ones.
func (s *Stored) findEnds(bl *blocks, sp *span) error {
	for at := sp.at(s.cut.first()); at < len(sp.blocks) && sp.first == 0; at++ {
		fr, err := s.firstRecord(bl, sp.blocks[at], s.cut.first())
		if err != nil {
			return err
		}
		if fr.seq > 0 && s.stream.node != "" && !hasPrefix(fr.subject, s.prefix()) {
			return fmt.Errorf("record %d has the subject %q, and the journal is node %s's: "+
				"its directory holds files of another agent", fr.seq, fr.subject, s.stream.node)
		}
		sp.first = fr.seq
	}
	for n := len(sp.blocks) - 1; n >= 0 && sp.first > 0 && sp.last == 0; n-- {
		c := &block{}
		if err := c.read(bl, journalStream, s.prefix(), sp.blocks[n]); err != nil {
			return err
		}
		for i := range c.places {
			if p := &c.places[i]; p.isRecord() {
				sp.last = max(sp.last, p.seq)
			}
		}
		s.recent.keep(c) // most of what is read is near the end
	}
	return nil
}

func hasPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix
}

// at returns the index of the last block that begins at or below seq; 0 if all blocks begin above it.
func (sp *span) at(seq uint64) int {
	i := 0
	for i+1 < len(sp.starts) && sp.starts[i+1] <= seq {
		i++
	}
	return i
}

// Bounds returns the numbers of the first and the last record; first is last+1 in an empty journal.
func (s *Stored) Bounds() (first, last uint64) { return s.span.first, s.span.last }

// Read passes the encoded records with the numbers from..to to f, in order; b is valid until f returns. A from of 0
// means the first record, a to of 0 the last one. It ends at the first error of f and returns it. Records that cannot
// be read are skipped: their numbers are missing in the sequence. ErrGone if retention has removed records from from
// on.
func (s *Stored) Read(ctx context.Context, from, to uint64, f func(seq uint64, b []byte) error) error {
	sp := s.span
	from, to, err := s.within(from, to)
	if err != nil || from > to || len(sp.blocks) == 0 {
		return err
	}
	first, end := sp.at(from), sp.at(to)
	if first == end && to-from < alone {
		return s.readAlone(first, from, to, f)
	}
	next := from
	err = s.blocks(journalStream).eachBlock(ctx, journalStream, s.prefix(), sp.blocks[first:end+1], func(c *block) error {
		if c.err != nil && !errors.Is(c.err, fs.ErrNotExist) {
			return c.err
		}
		var err error
		next, err = s.passRecords(c, next, to, f)
		return err
	})
	if err == nil && next <= to {
		err = s.checkGone(next) // in the last block
	}
	return err
}

// within returns the records from..to that the journal has, 0 for its ends: none if from is above to then. ErrGone if
// from is before the first record.
func (s *Stored) within(from, to uint64) (uint64, uint64, error) {
	if from == 0 {
		from = s.span.first
	}
	if to == 0 || to > s.span.last {
		to = s.span.last
	}
	if from < s.span.first {
		return 0, 0, s.gone(from, s.span.first)
	}
	return from, to, nil
}

// alone is how many records of one block are read through the blocks that are kept in memory, as by Get.
const alone = 4096

// readAlone is Read within one block.
func (s *Stored) readAlone(at int, from, to uint64, f func(seq uint64, b []byte) error) error {
	c, err := s.recent.block(s, s.span.blocks[at])
	if errors.Is(err, fs.ErrNotExist) {
		return s.gone(from, from+1)
	}
	if err != nil {
		return err
	}
	next, err := s.passRecords(c, from, to, f)
	if err == nil && next <= to {
		err = s.checkGone(next)
	}
	return err
}

// passRecords passes the records next..to of a block to f, and returns the number behind the last one.
func (s *Stored) passRecords(c *block, next, to uint64, f func(seq uint64, b []byte) error) (uint64, error) {
	for i := c.before(next); i < len(c.places); i++ {
		p := &c.places[i]
		switch {
		case !p.isRecord() || p.seq < next:
			continue
		case p.seq > to:
			return next, nil
		case p.seq > next:
			if err := s.checkGone(next); err != nil {
				return next, err
			}
		}
		next = p.seq + 1
		if err := f(p.seq, p.data); err != nil {
			return next, err
		}
	}
	return next, nil
}

// checkGone returns ErrGone if retention has removed record seq since the journal was opened.
func (s *Stored) checkGone(seq uint64) error {
	if now := readCut(s.dir, slog.New(slog.DiscardHandler)); now.first() > seq {
		return s.gone(seq, now.first())
	}
	return nil
}

func (s *Stored) gone(seq, first uint64) error {
	return fmt.Errorf("record %d: %w: the journal begins with record %d", seq, ErrGone, max(first, s.span.first))
}

// Get returns one record. ErrGone if retention has removed it, ErrNoRecord if it does not exist or cannot be read.
func (s *Stored) Get(ctx context.Context, seq uint64) (*journaletv1.Record, error) {
	var rec *journaletv1.Record
	sp := s.span
	if seq == 0 || seq > sp.last || sp.first > sp.last {
		return nil, fmt.Errorf("%w: %d; the journal holds %d to %d", ErrNoRecord, seq, sp.first, sp.last)
	}
	err := s.Read(ctx, seq, seq, func(_ uint64, b []byte) (err error) {
		rec, err = messages.Decode(b)
		return err
	})
	if err == nil && rec == nil {
		err = fmt.Errorf("%w: %d is lost; the journal holds %d to %d: run journal verify", ErrNoRecord, seq, sp.first,
			sp.last)
	}
	return rec, err
}

// recentBlocks is how many blocks are kept in memory, at some 11 MiB each: causes are mostly near their effects.
const recentBlocks = 4

// recent keeps the blocks that were read last, the newest use first. They are never changed, so that the function that
// receives a record may read others.
type recent struct {
	mu     sync.Mutex
	blocks []*block
}

// block returns block n of the journal.
func (r *recent) block(s *Stored, n uint64) (*block, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.blocks, func(c *block) bool { return c.number == n })
	if i < 0 {
		c := &block{}
		if err := c.read(s.blocks(journalStream), journalStream, s.prefix(), n); err != nil {
			return nil, err
		}
		r.keepLocked(c)
		return c, nil
	}
	c := r.blocks[i]
	r.blocks = slices.Insert(slices.Delete(r.blocks, i, i+1), 0, c)
	return c, nil
}

// get returns block n of the journal if it is in memory, else nil.
func (r *recent) get(n uint64) *block {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(r.blocks, func(c *block) bool { return c.number == n }); i >= 0 {
		return r.blocks[i]
	}
	return nil
}

// keep adds a block that was read, as the one of the newest use.
func (r *recent) keep(c *block) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keepLocked(c)
}

func (r *recent) keepLocked(c *block) {
	c.mark()
	r.blocks = slices.Insert(r.blocks, 0, c)
	r.blocks = r.blocks[:min(len(r.blocks), recentBlocks)]
}
