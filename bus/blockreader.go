package bus

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/journalet/journalet/runtime/bounded"
)

// readAhead is how many blocks are in memory while blocks are read in order: one is used while the next is read.
const readAhead = 2

// usualFrame is how many bytes a stored record takes, for the first allocation only.
const usualFrame = 256

// block is the content of one block: what a block reader returns. Its buffers are used again for the next one.
type block struct {
	number uint64
	data   []byte
	places []place
	err    error
	marks  []uint64 // of mark; none while blocks are read in order
}

// markEvery is the distance of a block's marks, in places.
const markEvery = 256

// mark keeps the highest number before every so many places, so that a record is found without passing all of them.
func (c *block) mark() {
	c.marks = c.marks[:0]
	highest := uint64(0)
	for i := range c.places {
		if i%markEvery == 0 {
			c.marks = append(c.marks, highest)
		}
		if p := &c.places[i]; p.isRecord() {
			highest = max(highest, p.seq)
		}
	}
}

// before returns the index of a place before which all records have lower numbers than seq.
func (c *block) before(seq uint64) int {
	i, _ := slices.BinarySearch(c.marks, seq)
	return max(0, i-1) * markEvery
}

// read reads and checks block n of a stream, at most maxBlock bytes of it: what follows them is no record.
func (c *block) read(b *blocks, stream, prefix string, n uint64) error {
	c.number, c.places, c.data = n, c.places[:0], c.data[:0]
	f, err := bounded.Open(b.path(n))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := int(min(info.Size(), maxBlock))
	c.data = slices.Grow(c.data, size)[:size]
	got, err := io.ReadFull(f, c.data)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	c.data = c.data[:got]
	c.places = slices.Grow(c.places, size/usualFrame)
	c.places = scan(c.data, blockSum(stream, n), prefix, c.places)
	return nil
}

// eachBlock passes blocks of a stream to f in the order of numbers. One more goroutine reads and checks the next block
// meanwhile. A block is valid until f returns. An error that a block cannot be read is in the block.
func (b *blocks) eachBlock(ctx context.Context, stream, prefix string, numbers []uint64, f func(*block) error) error {
	ctx, cancel := context.WithCancel(ctx)
	free, full := make(chan *block, readAhead), make(chan *block)
	for range readAhead {
		free <- &block{}
	}
	go func() {
		defer close(full)
		for _, n := range numbers {
			select {
			case c := <-free:
				c.err = c.read(b, stream, prefix, n)
				select {
				case full <- c:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	var err error
	for c := range full {
		if err == nil {
			err = f(c)
		}
		if err != nil {
			cancel() // full is closed when the goroutine has ended
			continue
		}
		free <- c
	}
	if err == nil {
		err = ctx.Err()
	}
	cancel()
	return err
}

// eachFrame is eachBlock by record. It passes bytes that belong to no record to bad, with block, offset and reason.
func (b *blocks) eachFrame(ctx context.Context, stream, prefix string, numbers []uint64, f func(frame) error,
	bad func(block uint64, at int, why error)) error {
	return b.eachBlock(ctx, stream, prefix, numbers, func(c *block) error {
		if c.err != nil {
			return c.err
		}
		for i := range c.places {
			p := &c.places[i]
			if p.bad != nil {
				bad(c.number, p.at, p.bad)
			} else if err := f(p.frame); err != nil {
				return err
			}
		}
		return nil
	})
}
