package why

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
)

const (
	// pageRecords is how many records are read at once. Causes are mostly near their effects.
	pageRecords = 1024
	// keptBytes bounds the records of the pages in memory: some 96 pages.
	keptBytes = 24 << 20
	// stretchBytes bounds what is found in a stretch and kept: a pod may have most of the records, and large ones.
	stretchBytes = keptBytes / 4
	// stretchRecords is how many records are searched at once for records about the pod in query, which are mostly few.
	stretchRecords = 32 * pageRecords
	// searchesPerRead is how many records that are only searched count as one read record.
	searchesPerRead = 4
	// DefaultLimit bounds the records that one query reads, unless the caller gives another limit.
	DefaultLimit = 2_000_000
)

// errLimit means that a query has read as much as it may.
var errLimit = errors.New("the limit of records to read is reached")

// errDense ends the search of a stretch that holds more than a page of it may.
var errDense = errors.New("more is found than is kept")

// journal reads a journal page by page, forward and backward, and keeps the pages that were used last.
type journal struct {
	ctx         context.Context
	r           history.Reader
	first, last uint64
	// left is how many more records may be read, or searched.
	left  int
	pages map[pageKey]*page
	used  []pageKey // of the kept pages, the last use last
	kept  int       // bytes of their records
	// finder finds records by what they hold; nil: all are read. about is the text that pages are found by, "" for none.
	finder history.Finder
	about  string
}

// pageKey names a page: pageRecords numbers, or of stretchRecords numbers the records that hold a text and the agent's
// records.
type pageKey struct {
	text string // "" for all records
	n    uint64
}

// records is how many numbers the pages of this kind have.
func (k pageKey) records() uint64 {
	if k.text == "" {
		return pageRecords
	}
	return stretchRecords
}

// from and to are the first and the last number of the page, which the journal may not have.
func (k pageKey) from() uint64 { return k.n * k.records() }
func (k pageKey) to() uint64   { return (k.n+1)*k.records() - 1 }

// cost is how many records count as read for a page.
func (k pageKey) cost() int {
	if k.text == "" {
		return pageRecords
	}
	return stretchRecords / searchesPerRead
}

// page holds records in order.
type page struct {
	heads []head
	bytes [][]byte
	size  int
	dense bool // more is found than a page of a stretch may hold: all its records are read, page by page
}

// index returns the place of a record, -1 if the page has it not.
func (p *page) index(seq uint64) int {
	return slices.IndexFunc(p.heads, func(h head) bool { return h.seq == seq })
}

func newJournal(ctx context.Context, r history.Reader, limit int) *journal {
	j := &journal{ctx: ctx, r: r, left: limit, pages: map[pageKey]*page{}}
	j.first, j.last = r.Bounds()
	if limit >= DefaultLimit { // a lower one counts the records that are read
		j.finder, _ = r.(history.Finder)
	}
	return j
}

// findBy has the records about a pod be found by its UID from now on, where the reader can do so.
func (j *journal) findBy(uid string) {
	if j.finder != nil {
		j.about = uid
	}
}

// search passes the records from..to that hold one of some texts to f, in order.
func (j *journal) search(texts []string, from, to uint64, f func(h head, b []byte) bool) error {
	from, to = max(from, j.first, 1), min(to, j.last)
	if from > to {
		return nil
	}
	if j.left -= int(to+1-from) / searchesPerRead; j.left < 0 {
		return errLimit
	}
	const alone = journaletv1.ActorKind_ACTOR_KIND_UNSPECIFIED // only records with a text
	err := j.finder.Find(j.ctx, texts, alone, from, to, func(e history.Entry) error {
		h := peek(e.Bytes)
		h.seq = e.Seq
		f(h, e.Bytes)
		return nil
	})
	if errors.Is(err, history.ErrGone) { // retention may cut the front while it is read
		return nil
	}
	return err
}

// page returns a page.
func (j *journal) page(k pageKey) (*page, error) {
	if p := j.pages[k]; p != nil {
		return p, nil
	}
	if j.left -= k.cost(); j.left < 0 {
		return nil, errLimit
	}
	p := &page{}
	from, to := max(k.from(), j.first, 1), min(k.to(), j.last)
	if from <= to {
		err := j.read(k.text, from, to, func(e history.Entry) error {
			b := append(make([]byte, 0, len(e.Bytes)), e.Bytes...)
			h := peek(b)
			h.seq = e.Seq
			p.heads, p.bytes, p.size = append(p.heads, h), append(p.bytes, b), p.size+len(b)
			if k.text != "" && p.size > stretchBytes {
				return errDense
			}
			return nil
		})
		switch {
		case errors.Is(err, errDense):
			p = &page{dense: true}
		case err != nil && !errors.Is(err, history.ErrGone): // retention may cut the front while it is read
			return nil, err
		}
	}
	for j.kept+p.size > keptBytes && len(j.used) > 0 {
		j.kept -= j.pages[j.used[0]].size
		delete(j.pages, j.used[0])
		j.used = j.used[1:]
	}
	j.pages[k], j.used, j.kept = p, append(j.used, k), j.kept+p.size
	return p, nil
}

// read reads all records from..to, or the records that hold a text and the agent's records.
func (j *journal) read(text string, from, to uint64, f func(history.Entry) error) error {
	if text == "" {
		return j.r.Read(j.ctx, from, to, f)
	}
	return j.finder.Find(j.ctx, []string{text}, journaletv1.ActorKind_ACTOR_KIND_AGENT, from, to, f)
}

// pagesOf returns the pages with the records that hold a text and the agent's records; they may hold other records too.
func (j *journal) pagesOf(text string) pageKey {
	if text == "" || text != j.about {
		return pageKey{}
	}
	return pageKey{text: text}
}

// forward passes the heads of the records from..to in order until f returns true.
func (j *journal) forward(from, to uint64, f func(h head, b []byte) bool) error {
	return j.forwardOf("", from, to, f)
}

// forwardOf is forward for records that hold a text and the agent's records. It may pass other records too.
func (j *journal) forwardOf(text string, from, to uint64, f func(h head, b []byte) bool) error {
	_, err := j.ahead(j.pagesOf(text), from, to, f)
	return err
}

// ahead passes the heads of the records from..to of pages of one kind in order until f returns true, and reports
// whether f did.
func (j *journal) ahead(k pageKey, from, to uint64, f func(h head, b []byte) bool) (bool, error) {
	from, to = max(from, j.first, 1), min(to, j.last)
	for k.n = from / k.records(); k.n <= to/k.records() && from <= to; k.n++ {
		p, err := j.page(k)
		if err != nil {
			return false, err
		}
		if p.dense {
			if done, err := j.ahead(pageKey{}, max(from, k.from()), min(to, k.to()), f); done || err != nil {
				return done, err
			}
		}
		for i, h := range p.heads {
			if h.seq >= from && h.seq <= to && f(h, p.bytes[i]) {
				return true, nil
			}
		}
	}
	return false, nil
}

// backward passes the heads of the records from..to, the last one first, until f returns true. It reports whether f
// did.
func (j *journal) backward(from, to uint64, f func(h head, b []byte) bool) (bool, error) {
	return j.backwardOf("", from, to, f)
}

// backwardOf is backward for records that hold a text and the agent's records. It may pass other records too.
func (j *journal) backwardOf(text string, from, to uint64, f func(h head, b []byte) bool) (bool, error) {
	return j.back(j.pagesOf(text), from, to, f)
}

// back is ahead in the other direction.
func (j *journal) back(k pageKey, from, to uint64, f func(h head, b []byte) bool) (bool, error) {
	from, to = max(from, j.first, 1), min(to, j.last)
	if from > to {
		return false, nil
	}
	for k.n = to / k.records(); ; k.n-- {
		p, err := j.page(k)
		if err != nil {
			return false, err
		}
		if p.dense {
			if done, err := j.back(pageKey{}, max(from, k.from()), min(to, k.to()), f); done || err != nil {
				return done, err
			}
		}
		for i := len(p.heads) - 1; i >= 0; i-- {
			if h := p.heads[i]; h.seq >= from && h.seq <= to && f(h, p.bytes[i]) {
				return true, nil
			}
		}
		if k.n == from/k.records() {
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
	if p := j.pages[pageKey{j.about, seq / stretchRecords}]; p != nil && j.about != "" {
		if i := p.index(seq); i >= 0 {
			return messages.Decode(p.bytes[i])
		}
	}
	p, err := j.page(pageKey{n: seq / pageRecords})
	if err != nil {
		return nil, err
	}
	if i := p.index(seq); i >= 0 {
		return messages.Decode(p.bytes[i])
	}
	return nil, fmt.Errorf("record %d: %w: it is lost or damaged", seq, history.ErrNoRecord)
}
