package bus

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
)

// Find is Read for the records whose bytes hold one of some texts, none of them empty, and for the records of the
// actors of a kind. It does not check the others: that takes a fraction of the time. What retention removes
// meanwhile is left out.
func (s *Stored) Find(ctx context.Context, texts []string, kind journaletv1.ActorKind, from, to uint64,
	f func(seq uint64, b []byte) error) error {
	from, to, err := s.within(from, to)
	if err != nil || from > to || len(s.span.blocks) == 0 {
		return err
	}
	q := &search{&sought{from: from, to: to}, s, bufio.NewReaderSize(nil, searchBytes), nil}
	for _, t := range texts {
		q.texts = append(q.texts, []byte(t))
	}
	if kind != journaletv1.ActorKind_ACTOR_KIND_UNSPECIFIED {
		q.kind = []byte(messages.Ref{Kind: kind}.KindName())
	}
	for _, n := range s.span.blocks[s.span.at(from) : s.span.at(to)+1] {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := q.block(n); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for i := range q.found {
			if err := f(q.found[i].seq, q.found[i].data); err != nil {
				return err
			}
		}
	}
	return nil
}

// sought is what Find looks for.
type sought struct {
	texts    [][]byte
	kind     []byte // no record has an empty one
	from, to uint64
}

// matches reports whether a record is looked for.
func (q *sought) matches(seq uint64, subject, data []byte) bool {
	if seq < q.from || seq > q.to {
		return false
	}
	return bytes.Equal(kindIn(subject), q.kind) ||
		slices.ContainsFunc(q.texts, func(t []byte) bool { return bytes.Contains(data, t) })
}

// kindIn returns the kind of the actor in a subject: the third token, after the node.
func kindIn(subject []byte) []byte {
	_, rest, _ := bytes.Cut(subject, []byte("."))
	_, rest, _ = bytes.Cut(rest, []byte("."))
	kind, _, _ := bytes.Cut(rest, []byte("."))
	return kind
}

// search goes through blocks for what is sought.
type search struct {
	*sought
	s     *Stored
	in    *bufio.Reader // used again for each block
	found []frame       // in the block that was searched last
}

// searchBytes is how much of a block is in memory while it is searched.
const searchBytes = 256 << 10

// block finds the records of block n that are sought, in order.
func (q *search) block(n uint64) error {
	q.found = q.found[:0]
	if c := q.s.recent.get(n); c != nil {
		q.take(c)
		return nil
	}
	whole, err := q.walk(n)
	if err != nil || whole {
		return err
	}
	q.found = q.found[:0]
	c, err := q.s.recent.block(q.s, n)
	if err == nil {
		q.take(c)
	}
	return err
}

// take takes what is sought from a block whose records were checked.
func (q *search) take(c *block) {
	for i := c.before(q.from); i < len(c.places); i++ {
		if p := &c.places[i]; p.isRecord() && q.matches(p.seq, p.subject, p.data) {
			q.found = append(q.found, p.frame)
		}
	}
}

// walk finds records of a block by the lengths of the records before them, which no checksum covers, and checks only
// what it finds. whole is false where the block is not one record after the other: then each record has to be checked.
func (q *search) walk(n uint64) (whole bool, err error) {
	f, err := bounded.Open(q.s.blocks(journalStream).path(n))
	if err != nil {
		return false, err
	}
	defer f.Close()
	q.in.Reset(io.LimitReader(f, maxBlock))
	sum, prefix, last := blockSum(journalStream, n), q.s.prefix(), uint64(0)
	for last < q.to {
		h, err := q.in.Peek(frameHead)
		if len(h) == 0 && errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, orTorn(err)
		}
		size, data := lengthsOf(h)
		seq := binary.LittleEndian.Uint64(h[4:])
		if size > maxFrame || data+frameSum > size || seq&(erased|tombstone) != 0 || last > 0 && seq != last+1 {
			return false, nil
		}
		b, err := q.next(size)
		if err != nil || !hasPrefix(b[frameHead:data], prefix) {
			return false, orTorn(err)
		}
		// A header of the store may stand before the data: nothing in it is sought.
		if q.matches(seq, b[frameHead:data], b[data:size-frameSum]) {
			fr, err := parseFrame(b, sum)
			if err != nil {
				return false, nil
			}
			fr.subject, fr.data = nil, bytes.Clone(fr.data)
			q.found = append(q.found, fr)
		}
		last = seq
	}
	return true, nil
}

// next returns the next bytes of the block; they are valid until the one after it.
func (q *search) next(size int) ([]byte, error) {
	if size > q.in.Size() {
		b := make([]byte, size)
		_, err := io.ReadFull(q.in, b)
		return b, err
	}
	b, err := q.in.Peek(size)
	if err == nil {
		_, err = q.in.Discard(size) // it is buffered
	}
	return b, err
}

// orTorn returns an error of reading; nil for the end within a record.
func orTorn(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
