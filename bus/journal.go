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
	// MaxTail bounds how many records Tail gives.
	MaxTail = 10_000
	// tailWindow is how far back Tail looks first; each further look goes twice as far.
	tailWindow = 128
)

// Journal is the ordered, durable record of everything the agent learnt and decided. A record's way:
// Append numbers and chains it and returns; the appender stores it behind all earlier ones; OnStored
// hears of it once it would survive what the sync policy promises; from then on reads show it.
type Journal struct {
	a      *appender
	reader *reader
	node   string
	dir    string // the bus's
	first  atomic.Uint64
	blocks *blocks
	cut    atomic.Pointer[cut]
	// cutting is held while the front is cut, and shared by who needs the front to stay.
	cutting sync.RWMutex
	least   uint64 // MinKept but in tests
}

// formatKey names the format of the journal in the metadata of its stream.
const formatKey = "journal-format"

// journalConfig is the stream as we want it. Purging stays possible, for retention; that nobody else
// can do it is the accounts' work.
func journalConfig(node string, firstSeq uint64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        journalStream,
		Description: "everything the agent learnt and decided, in order",
		Subjects:    []string{messages.JournalFilter(node)},
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardNew,
		Duplicates:  time.Second, // unused; the server wants 100ms at least
		MaxMsgSize:  messages.MaxRecordBytes + 1024,
		AllowDirect: true,
		DenyDelete:  true,
		FirstSeq:    firstSeq,
		// The head has it too, and may be lost.
		Metadata: map[string]string{formatKey: strconv.Itoa(messages.JournalFormat)},
	}
}

// OnStored sets who hears of stored records; call it once, before the first Append. f is called from
// one goroutine, in the journal's order, each time with all records that are ready; it must return
// quickly, since nothing is stored meanwhile.
func (j *Journal) OnStored(f func(recs []*journaletv1.Record)) { j.a.onStored = f }

// OnRefused sets who hears of a record that Append could not take: too large (messages.MaxRecordBytes),
// or of an actor without a proper name. It got no number. f is called within Append.
func (j *Journal) OnRefused(f func(rec *journaletv1.Record, err error)) { j.a.refused = f }

// Append hands over a step or an outcome and never blocks. It sets Seq, Epoch and PreviousHash, in
// call order; the caller must not touch rec afterwards. A record that can never be stored is logged
// and goes to OnRefused.
func (j *Journal) Append(rec *journaletv1.Record) {
	if err := j.a.put(rec); err != nil {
		j.a.log.Error("a record was refused", "actor", messages.RefOf(rec.GetActor()).String(), "err", err)
		if j.a.refused != nil {
			j.a.refused(rec, err)
		}
	}
}

// AppendFact is Append for a new fact from outside: it waits while more than MaxQueued records are
// waiting to be stored, until ctx ends. On an error nothing was appended.
func (j *Journal) AppendFact(ctx context.Context, rec *journaletv1.Record) error {
	return j.a.putFact(ctx, rec)
}

// Flush returns once everything appended so far is stored and was handed to OnStored.
func (j *Journal) Flush(ctx context.Context) error { return j.a.flush(ctx) }

// Last is the number of the last stored record, 0 for none.
func (j *Journal) Last() uint64 { return j.a.stored.Load() }

// First is the number of the oldest record that is kept; Last+1 in an empty journal.
func (j *Journal) First() uint64 { return j.first.Load() }

// Queued is how many records wait to be stored, those on their way among them.
func (j *Journal) Queued() int { return j.a.queued() }

// Stalled tells since when the journal has not been able to store, and why; a zero time if it can.
func (j *Journal) Stalled() (since time.Time, err error) { return j.a.stalled() }

// Read hands the stored records with numbers from..to that match a subject filter to f, in order, with
// their stored size in bytes. 0 as to means the last one now, "" as filter means all. It ends at the
// first error of f and returns it. Records that the store can no longer read are passed over and
// logged; Opening or Verify tell of them.
func (j *Journal) Read(ctx context.Context, from, to uint64, filter string, f func(rec *journaletv1.Record, size int) error) error {
	to = j.bound(to)
	due := max(from, j.First())
	err := j.readBytes(ctx, from, to, filter, func(b []byte) (uint64, error) {
		rec, err := messages.Decode(b)
		if err != nil {
			return 0, err
		}
		seq := rec.GetSeq()
		if filter == "" {
			j.passedOver(due, min(seq, to+1))
		}
		if due = seq + 1; seq > to {
			return seq, nil
		}
		return seq, f(rec, len(b))
	})
	if err == nil && filter == "" {
		j.passedOver(due, to+1)
	}
	return err
}

// passedOver logs that the records from due up to but not including next could not be read.
func (j *Journal) passedOver(due, next uint64) {
	if due = max(due, j.First()); due < next {
		j.a.log.Error("records of the journal cannot be read and were passed over; run journal verify", "from", due, "to", next-1)
	}
}

// bound keeps reads to what is stored durably: the stream itself may hold more already.
func (j *Journal) bound(to uint64) uint64 {
	if last := j.Last(); to == 0 || to > last {
		return last
	}
	return to
}

// readBytes pages through the stream until f returns a number at or above to.
func (j *Journal) readBytes(ctx context.Context, from, to uint64, filter string, f func(b []byte) (uint64, error)) error {
	to = j.bound(to)
	for from = max(from, j.First(), 1); from <= to; {
		page, err := j.reader.batch(ctx, journalStream, from, filter)
		if err != nil || len(page) == 0 {
			return err
		}
		var seq uint64
		for _, b := range page {
			if seq, err = f(b); err != nil || seq >= to {
				return err
			}
		}
		if seq < from {
			return fmt.Errorf("the record at or after %d says that it is %d: the journal is damaged, run journal verify", from, seq)
		}
		from = seq + 1
	}
	return nil
}

// Get gives one stored record.
func (j *Journal) Get(ctx context.Context, seq uint64) (*journaletv1.Record, error) {
	if seq == 0 || seq > j.Last() {
		return nil, fmt.Errorf("there is no record %d: the journal holds %d to %d", seq, j.First(), j.Last())
	}
	b, err := j.reader.one(ctx, seq)
	if errors.Is(err, errNotStored) {
		return nil, fmt.Errorf("there is no record %d: the journal holds %d to %d", seq, j.First(), j.Last())
	}
	if err != nil {
		return nil, err
	}
	return messages.Decode(b)
}

// Tail gives the last n records that match a subject filter ("" = all), oldest first; n is at most
// MaxTail. It reads backwards in growing windows, so a few recent records cost little.
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
