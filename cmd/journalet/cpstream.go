package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/journalet/journalet/runtime/api/stream"
)

// tarReader reads an archive of a container, over several sessions if connections are lost.
type tarReader struct {
	open    func(skip int64, w io.Writer) error // writes the archive without its first bytes
	resume  func(read int64, left int)
	retries int // below 0: without end
	read    int64
	r       *io.PipeReader
	ended   chan error
	err     error // how the last session ended
}

func (t *tarReader) Read(b []byte) (int, error) {
	for {
		if t.r == nil {
			t.start()
		}
		n, err := t.r.Read(b)
		t.read += int64(n)
		if err == nil || n > 0 {
			return n, nil
		}
		t.wait()
		if !errors.Is(t.err, stream.ErrLost) || t.retries == 0 {
			return 0, io.EOF // the error of the session says more
		}
		t.retries--
		t.resume(t.read, max(t.retries, 0))
		t.r = nil
	}
}

func (t *tarReader) start() {
	r, w := io.Pipe()
	t.r, t.ended = r, make(chan error, 1)
	skip, ended := t.read, t.ended
	go func() {
		err := t.open(skip, w)
		w.Close()
		ended <- err
	}()
}

func (t *tarReader) wait() {
	if t.ended != nil {
		t.err, t.ended = <-t.ended, nil
	}
}

// end returns how the last session ended. Its context must have ended, if the archive was not read to its end.
func (t *tarReader) end() error {
	if t.r != nil {
		t.r.Close()
	}
	t.wait()
	return t.err
}

const (
	// progressAfter is how long a copy takes before its progress is shown, progressEvery how often that changes.
	progressAfter = time.Second
	progressEvery = 250 * time.Millisecond
)

// progressLine shows on a terminal how much was copied.
type progressLine struct {
	bytes atomic.Int64
	stop  chan struct{}
	done  sync.WaitGroup
}

func (c *copier) progress() *progressLine {
	p := &progressLine{stop: make(chan struct{})}
	if c.quiet || !c.a.err.terminal() {
		return p
	}
	begun := time.Now()
	p.done.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for shown := false; ; {
			select {
			case <-p.stop:
				if shown {
					c.a.err.status("")
				}
				return
			case now := <-tick.C:
				took := now.Sub(begun)
				if took < progressAfter {
					continue
				}
				n := p.bytes.Load()
				shown = true
				rate := int64(float64(n) / took.Seconds())
				c.a.err.status(fmt.Sprintf("copied %s, %s/s", bytesText(n), bytesText(rate)))
			}
		}
	})
	return p
}

func (p *progressLine) add(n int) { p.bytes.Add(int64(n)) }

func (p *progressLine) end() {
	close(p.stop)
	p.done.Wait()
}

// writer returns a writer to w that counts.
func (p *progressLine) writer(w io.Writer) io.Writer { return &countingWriter{w, p} }

type countingWriter struct {
	w io.Writer
	p *progressLine
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.p.add(n)
	return n, err
}

// bytesText returns a number of bytes for people.
func bytesText(n int64) string {
	const step = 1024
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(n), 0
	for value >= step && unit < len(units)-1 {
		value, unit = value/step, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}
