package main

import (
	"bytes"
	"io"
	"sync"
)

// maxLogLine is how much of a line is kept so that the line is printed in one piece among the lines of other
// containers. A longer line is printed in pieces.
const maxLogLine = 64 << 10

// logWriter returns where logs are written to: a terminal gets control characters as text, unless raw; anything else
// gets all bytes as they are.
func (a *app) logWriter(raw bool) io.Writer {
	if raw || !a.out.terminal() {
		return a.out.w
	}
	return &pieces{to: a.out}
}

// logOutput is what the logs of several containers are printed to.
type logOutput struct {
	to    io.Writer
	lines bool // lines of several containers come at once

	mu sync.Mutex
}

// outputOf returns a writer for the log of one container. Each line begins with prefix.
func (o *logOutput) outputOf(prefix string) *containerOutput {
	return &containerOutput{all: o, prefix: []byte(prefix), begin: true}
}

// containerOutput is the writer for one container.
type containerOutput struct {
	all    *logOutput
	prefix []byte
	begin  bool // a line begins
	kept   []byte
}

func (c *containerOutput) Write(b []byte) (int, error) {
	if len(c.prefix) == 0 && !c.all.lines {
		return c.all.to.Write(b)
	}
	for rest := b; len(rest) > 0; {
		line := rest
		if n := bytes.IndexByte(rest, '\n'); n >= 0 {
			line = rest[:n+1]
		}
		rest = rest[len(line):]
		if c.begin {
			c.kept = append(c.kept, c.prefix...)
		}
		c.kept = append(c.kept, line...)
		c.begin = line[len(line)-1] == '\n'
		if len(c.kept) >= maxLogLine {
			if err := c.flush(len(c.kept)); err != nil {
				return 0, err
			}
		}
	}
	if !c.all.lines {
		return len(b), c.flush(len(c.kept))
	}
	return len(b), c.flush(bytes.LastIndexByte(c.kept, '\n') + 1)
}

// flush prints the first n bytes of what is kept.
func (c *containerOutput) flush(n int) error {
	if n == 0 {
		return nil
	}
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	_, err := c.all.to.Write(c.kept[:n])
	c.kept = append(c.kept[:0], c.kept[n:]...)
	return err
}

// end prints a last line that has not ended.
func (c *containerOutput) end() error { return c.flush(len(c.kept)) }
