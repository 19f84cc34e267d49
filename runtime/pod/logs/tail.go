package logs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
)

// tailBlock is how much is read at once when lines are counted from the end of a file.
const tailBlock = 128 << 10

// tail sets where reading begins so that the last n lines are read, and drops the files before. A line is what the
// container wrote up to a new line, however many records it takes; an unfinished line counts.
func (all *files) tail(ctx context.Context, n int64, report *Report) error {
	if n == 0 {
		all.fromEnd()
		return nil
	}
	found := &tailCount{want: n, last: true}
	for i := len(all.all) - 1; i >= 0; i-- {
		s := all.all[i]
		var err error
		if s.packed {
			err = found.packed(ctx, s)
		} else {
			err = found.plain(ctx, s)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			report.problem("%s: %w", s.f.Name(), err)
		}
		if found.done {
			for _, old := range all.all[:i] {
				_ = old.f.Close()
			}
			all.all = all.all[i:]
			return nil
		}
	}
	return nil
}

// fromEnd leaves out all that is there.
func (all *files) fromEnd() {
	newest := all.all[len(all.all)-1]
	for _, s := range all.all[:len(all.all)-1] {
		_ = s.f.Close()
	}
	all.all = []*source{newest}
	if newest.packed {
		newest.skip = math.MaxInt64
	} else {
		newest.start = newest.size
	}
}

// tailCount counts lines from the end of a log.
type tailCount struct {
	want, lines int64
	last        bool // no record was seen yet
	done        bool // the begin of the lines is found
}

// ended counts a record, from the last one to the first. It reports whether the lines begin after it.
func (c *tailCount) ended(h head) bool {
	if c.last && h.partial {
		c.lines++ // the line that has not ended
	}
	c.last = false
	if !h.partial {
		c.lines++
	}
	c.done = c.lines > c.want
	return c.done
}

// plain counts in a file that is not packed, from its end.
func (c *tailCount) plain(ctx context.Context, s *source) error {
	buf := make([]byte, tailBlock+maxHeadBytes)
	next := s.size // where the record begins that was counted last
	for hi := s.size; hi > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		lo := max(0, hi-tailBlock)
		// Heads that begin in this block may end in the next one.
		n, err := s.f.ReadAt(buf[:min(int64(len(buf)), s.size-lo)], lo)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for block := buf[:min(int64(n), hi-lo)]; ; {
			at := bytes.LastIndexByte(block, '\n')
			if at < 0 {
				break
			}
			if begin := lo + int64(at) + 1; begin < s.size {
				if h, ok, _ := parseHead(buf[at+1 : n]); ok {
					if c.ended(h) {
						s.start = next
						return nil
					}
					next = begin
				}
			}
			block = block[:at]
		}
		if lo == 0 {
			if h, ok, _ := parseHead(buf[:n]); ok && c.ended(h) {
				s.start = next
			}
		}
		hi = lo
	}
	return nil
}

// packed counts in a packed file, which can only be read from its begin.
func (c *tailCount) packed(ctx context.Context, s *source) error {
	count := &printer{to: io.Discard, skip: math.MaxInt64}
	err := s.copyTo(ctx, count)
	if c.lines+count.lines > c.want {
		s.skip, c.done = c.lines+count.lines-c.want, true
	}
	c.lines += count.lines
	c.last = c.last && count.lines == 0
	return err
}
