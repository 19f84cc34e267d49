package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	journalStream = "JOURNAL"
	// MaxTail bounds how many records Tail returns.
	MaxTail = 10_000
	// tailWindow is how many records Tail reads first; each further read is twice as long.
	tailWindow = 128
)

// Journal is the ordered, durable record of everything the agent learned and decided. Append numbers and chains a
// record and returns. The appender stores it behind all earlier ones. OnStored receives it once it survives what the
// sync policy promises; from then on reads return it.
type Journal struct {
	a      *appender
	reader *reader
	node   string
	dir    string // the bus's
	first  atomic.Uint64
	blocks *blocks
	cut    atomic.Pointer[cut]
	// cutting is locked while the front is cut, and read-locked by a reader that needs the front to stay.
	cutting sync.RWMutex
	least   uint64 // MinKept except in tests
}

// formatKey names the format of the journal in the metadata of its stream.
const formatKey = "journal-format"

// journalConfig returns the stream's configuration. Purging stays possible, for retention; the accounts keep everyone
// else from it.
func journalConfig(node string, firstSeq uint64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        journalStream,
		Description: "everything the agent learned and decided, in order",
		Subjects:    []string{messages.JournalFilter(node)},
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardNew,
		Duplicates:  time.Second, // unused; the server wants 100ms at least
		MaxMsgSize:  messages.MaxRecordBytes + 1024,
		AllowDirect: true,
		DenyDelete:  true,
		FirstSeq:    firstSeq,
		// The head has it too, but may be lost.
		Metadata: map[string]string{formatKey: strconv.Itoa(messages.JournalFormat)},
	}
}

// OnStored sets the receiver of stored records; call it once, before the first Append. f is called from one
// goroutine, in the journal's order, each time with all records that are ready. It must return quickly: nothing is
// stored meanwhile.
func (j *Journal) OnStored(f func(recs []*journaletv1.Record)) { j.a.onStored = f }

// Append queues a step, in one record or in parts that follow each other, or an outcome, whose strings clean.Fact makes
// storable. It never blocks. It sets Seq, Epoch and PreviousHash, in call order; the caller must not touch recs
// afterwards. On an error nothing was appended, and nothing ever can be of these records: one is too large
// (messages.MaxRecordBytes), a step is not UTF-8, or its actor has no valid name. After Close records are dropped
// without an error.
func (j *Journal) Append(recs ...*journaletv1.Record) error {
	if err := j.a.enqueue(recs...); err != nil && !errors.Is(err, errClosed) {
		return err
	}
	return nil
}

// AppendFact appends a new fact from outside, with its strings made storable as by Append. It blocks while MaxQueued
// records wait to be stored, until ctx ends. On an error nothing was appended.
func (j *Journal) AppendFact(ctx context.Context, rec *journaletv1.Record) error {
	return j.a.enqueueFact(ctx, rec)
}

// Flush returns once everything appended so far is stored and was passed to OnStored.
func (j *Journal) Flush(ctx context.Context) error { return j.a.flush(ctx) }

// Last returns the number of the last stored record, 0 for none.
func (j *Journal) Last() uint64 { return j.a.stored.Load() }

// First returns the number of the oldest record that is kept; Last+1 in an empty journal.
func (j *Journal) First() uint64 { return j.first.Load() }

// Queued returns how many records wait to be stored, including the records in flight.
func (j *Journal) Queued() int { return j.a.queued() }

// Stalled returns since when the journal has not been able to store, and why; a zero time if it can.
func (j *Journal) Stalled() (since time.Time, err error) { return j.a.stalled() }

// Read passes the stored records with numbers from..to that match a subject filter to f, in order, with their stored
// size in bytes. A to of 0 means the last one now, a filter of "" means all. Read ends at the first error of f and
// returns it. Records that the store can no longer read are skipped and logged; Opening and Verify report them.
func (j *Journal) Read(ctx context.Context, from, to uint64, filter string,
	f func(rec *journaletv1.Record, size int) error) error {
	to = j.bound(to)
	due := max(from, j.First())
	err := j.readBytes(ctx, from, to, filter, func(b []byte) (uint64, error) {
		rec, err := messages.Decode(b)
		if err != nil {
			return 0, err
		}
		seq := rec.GetSeq()
		if filter == "" {
			j.logSkipped(due, min(seq, to+1))
		}
		if due = seq + 1; seq > to {
			return seq, nil
		}
		return seq, f(rec, len(b))
	})
	if err == nil && filter == "" {
		j.logSkipped(due, to+1)
	}
	return err
}

// logSkipped logs that the records from due up to but not including next could not be read.
func (j *Journal) logSkipped(due, next uint64) {
	if due = max(due, j.First()); due < next {
		j.a.log.Error("records of the journal cannot be read and were skipped; run journal verify",
			"from", due, "to", next-1)
	}
}

// bound limits reads to what is stored durably: the stream itself may hold more already.
func (j *Journal) bound(to uint64) uint64 {
	if last := j.Last(); to == 0 || to > last {
		return last
	}
	return to
}

// readBytes reads records until f returns a number at or above to.
func (j *Journal) readBytes(ctx context.Context, from, to uint64, filter string,
	f func(b []byte) (uint64, error)) error {
	to = j.bound(to)
	return j.readPages(ctx, from, to, filter, func(page [][]byte) (seq uint64, err error) {
		for _, b := range page {
			if seq, err = f(b); err != nil || seq >= to {
				return seq, err
			}
		}
		return seq, nil
	})
}

// readPages pages through the stream until f returns a number at or above to. f returns the number of the last record
// that it was passed.
func (j *Journal) readPages(ctx context.Context, from, to uint64, filter string,
	f func(page [][]byte) (uint64, error)) error {
	to = j.bound(to)
	for from = max(from, j.First(), 1); from <= to; {
		page, err := j.reader.batch(ctx, journalStream, from, filter)
		if err != nil || len(page) == 0 {
			return err
		}
		seq, err := f(page)
		if err != nil || seq >= to {
			return err
		}
		if seq < from {
			return fmt.Errorf("the record at or after %d has the number %d: the journal is damaged, run journal verify",
				from, seq)
		}
		from = seq + 1
	}
	return nil
}

// Get returns one stored record, or ErrNoRecord.
func (j *Journal) Get(ctx context.Context, seq uint64) (*journaletv1.Record, error) {
	if seq == 0 || seq > j.Last() {
		return nil, fmt.Errorf("%w: %d; the journal holds %d to %d", ErrNoRecord, seq, j.First(), j.Last())
	}
	b, err := j.reader.record(ctx, seq)
	if errors.Is(err, errNotStored) {
		return nil, fmt.Errorf("%w: %d; the journal holds %d to %d", ErrNoRecord, seq, j.First(), j.Last())
	}
	if err != nil {
		return nil, err
	}
	return messages.Decode(b)
}

// Tail returns the last n records that match a subject filter ("" = all), oldest first; n is at most MaxTail. It
// reads backwards in growing windows, so a few recent records cost little.
func (j *Journal) Tail(ctx context.Context, filter string, n int) ([]*journaletv1.Record, error) {
	n = min(n, MaxTail)
	var parts [][]*journaletv1.Record
	have := 0
	hi, lo := j.Last(), j.First()
	for width := uint64(max(tailWindow, n)); n > have && hi >= lo && hi > 0; width *= 2 {
		from := lo
		if hi-lo >= width {
			from = hi - width + 1
		}
		var part []*journaletv1.Record
		err := j.Read(ctx, from, hi, filter, func(rec *journaletv1.Record, _ int) error {
			if part = append(part, rec); len(part) > 2*n {
				part = append(part[:0], part[len(part)-n:]...)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		part = part[len(part)-min(len(part), n-have):]
		have += len(part)
		parts = append(parts, part)
		hi = from - 1
	}
	out := make([]*journaletv1.Record, 0, have)
	for i := len(parts) - 1; i >= 0; i-- {
		out = append(out, parts[i]...)
	}
	return out, nil
}
