package why

import (
	"context"
	"errors"
	"fmt"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
)

const (
	// pageRecords is how many records are read at once. Causes are mostly near their effects.
	pageRecords = 1024
	// keptPages bounds the pages in memory, at some 250 KiB each.
	keptPages = 96
	// DefaultLimit bounds the records that one query reads, unless the caller gives another limit.
	DefaultLimit = 2_000_000
)

// errLimit means that a query has read as much as it may.
var errLimit = errors.New("the limit of records to read is reached")

// journal reads a journal page by page, forward and backward, and keeps the pages that were used last.
type journal struct {
	ctx         context.Context
	r           history.Reader
	first, last uint64
	// left is how many more records may be read.
	left  int
	pages map[uint64]*page
	used  []uint64 // numbers of the kept pages, the last use last
}

// page holds the records of one stretch of pageRecords numbers, in order.
type page struct {
	heads []head
	bytes [][]byte
}

func newJournal(ctx context.Context, r history.Reader, limit int) *journal {
	j := &journal{ctx: ctx, r: r, left: limit, pages: map[uint64]*page{}}
	j.first, j.last = r.Bounds()
	return j
}

// page returns the page with a number: that of its first record divided by pageRecords.
func (j *journal) page(n uint64) (*page, error) {
	if p := j.pages[n]; p != nil {
		return p, nil
	}
	if j.left -= pageRecords; j.left < 0 {
		return nil, errLimit
	}
	p := &page{}
	from, to := max(n*pageRecords, j.first, 1), min((n+1)*pageRecords-1, j.last)
	if from <= to {
		err := j.r.Read(j.ctx, from, to, func(e history.Entry) error {
			b := append(make([]byte, 0, len(e.Bytes)), e.Bytes...)
			h := peek(b)
			h.seq = e.Seq
			p.heads, p.bytes = append(p.heads, h), append(p.bytes, b)
			return nil
		})
		// Retention may cut the front while it is read.
		if err != nil && !errors.Is(err, history.ErrGone) {
			return nil, err
		}
	}
	if len(j.used) == keptPages {
		delete(j.pages, j.used[0])
		j.used = j.used[1:]
	}
	j.pages[n], j.used = p, append(j.used, n)
	return p, nil
}

// forward passes the heads of the records from..to in order until f returns true.
func (j *journal) forward(from, to uint64, f func(h head, b []byte) bool) error {
	from, to = max(from, j.first, 1), min(to, j.last)
	for n := from / pageRecords; n <= to/pageRecords && from <= to; n++ {
		p, err := j.page(n)
		if err != nil {
			return err
		}
		for i, h := range p.heads {
			if h.seq >= from && h.seq <= to && f(h, p.bytes[i]) {
				return nil
			}
		}
	}
	return nil
}

// backward passes the heads of the records from..to, the last one first, until f returns true. It reports whether f
// did.
func (j *journal) backward(from, to uint64, f func(h head, b []byte) bool) (bool, error) {
	from, to = max(from, j.first, 1), min(to, j.last)
	if from > to {
		return false, nil
	}
	for n := to / pageRecords; ; n-- {
		p, err := j.page(n)
		if err != nil {
			return false, err
		}
		for i := len(p.heads) - 1; i >= 0; i-- {
			if h := p.heads[i]; h.seq >= from && h.seq <= to && f(h, p.bytes[i]) {
				return true, nil
			}
		}
		if n == from/pageRecords {
			return false, nil
		}
	}
}

// get returns one record; history.ErrGone or history.ErrNoRecord if it is not there.
func (j *journal) get(seq uint64) (*journaletv1.Record, error) {
	switch {
	case seq > 0 && seq < j.first:
		return nil, fmt.Errorf("record %d: %w: the journal begins with record %d", seq, history.ErrGone, j.first)
	case seq == 0 || seq > j.last:
		return nil, fmt.Errorf("record %d: %w: the journal holds %d to %d", seq, history.ErrNoRecord, j.first, j.last)
	}
	p, err := j.page(seq / pageRecords)
	if err != nil {
		return nil, err
	}
	for i := range p.heads {
		if p.heads[i].seq == seq {
			return messages.Decode(p.bytes[i])
		}
	}
	return nil, fmt.Errorf("record %d: %w: it is lost or damaged", seq, history.ErrNoRecord)
}
