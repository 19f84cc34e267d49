package logs

import (
	"bytes"
	"errors"
	"io"
)

// outBytes is how much output is gathered for one write. Each session has as much: 240 may follow logs at once. With
// 256 KiB a read of a large log is no faster.
const outBytes = 32 << 10

// errLimit means that as many bytes were written as were requested.
var errLimit = errors.New("as many bytes as requested")

// printer prints the records of a log. It takes them in pieces of any size and keeps nothing of what it has taken but
// its output, of at most outBytes.
type printer struct {
	to             io.Writer
	stdout, stderr bool // the streams that are printed
	timestamps     bool
	since          int64 // records before it are not printed, in nanoseconds since 1970; 0: all are
	left           int64 // how many bytes may still be printed
	skip           int64 // how many lines are still not printed

	out     []byte
	stamp   []byte
	within  bool // a record's text, not its head, comes next
	hidden  bool // the text is not printed
	partial bool // the text ends without a new line
	midLine bool // what was printed last did not end a line

	lines  int64 // lines that have ended
	broken int64 // lines that are not records
}

// take takes the next bytes of a log. It returns how many of them it has used: all but the begin of a head, which has
// to come again with what follows it.
func (p *printer) take(b []byte) (used int, err error) {
	for used < len(b) {
		if !p.within {
			h, ok, whole := parseHead(b[used:])
			if !ok && !whole {
				return used, nil
			}
			if err := p.begin(h, ok); err != nil {
				return used, err
			}
			used += h.size
			continue
		}
		text, ends := b[used:], false
		if n := bytes.IndexByte(text, '\n'); n >= 0 {
			text, ends = text[:n+1], true
		}
		used += len(text)
		if err := p.text(text, ends); err != nil {
			return used, err
		}
	}
	return used, nil
}

// begin begins a record.
func (p *printer) begin(h head, ok bool) error {
	p.within, p.hidden, p.partial = true, true, h.partial
	if !ok {
		p.broken++
		p.partial = true
		return nil
	}
	switch {
	case p.skip > 0:
		if !h.partial {
			p.skip--
		}
	case h.stderr && !p.stderr, !h.stderr && !p.stdout:
	case p.since != 0 && p.before(h.time):
	default:
		p.hidden = false
		if p.timestamps && !p.midLine {
			p.stamp = append(appendTime(p.stamp[:0], h.time), ' ')
			return p.print(p.stamp)
		}
	}
	return nil
}

func (p *printer) before(stamp []byte) bool {
	at, ok := nanoseconds(stamp)
	return !ok || at < p.since
}

// text takes a piece of a record's text.
func (p *printer) text(text []byte, ends bool) error {
	if ends {
		p.within = false
		if p.partial {
			text = text[:len(text)-1]
		} else {
			p.lines++
		}
	}
	if p.hidden {
		return nil
	}
	if ends || len(text) > 0 {
		p.midLine = !ends || p.partial
	}
	return p.print(text)
}

// print writes output, or keeps it for the next write.
func (p *printer) print(b []byte) error {
	cut := p.left <= int64(len(b))
	if cut {
		b = b[:p.left]
	}
	p.left -= int64(len(b))
	if len(p.out)+len(b) > outBytes {
		if err := p.flush(); err != nil {
			return err
		}
	}
	if len(b) >= outBytes {
		if _, err := p.to.Write(b); err != nil {
			return err
		}
	} else {
		p.out = append(p.out, b...)
	}
	if cut {
		return errors.Join(p.flush(), errLimit)
	}
	return nil
}

// flush writes what was kept.
func (p *printer) flush() error {
	if len(p.out) == 0 {
		return nil
	}
	_, err := p.to.Write(p.out)
	p.out = p.out[:0]
	return err
}

// endFile notes that a file has ended, with so many bytes that take has not used.
func (p *printer) endFile(unused int) {
	if unused > 0 {
		p.broken++
	}
	p.within = false
}
