package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"
	"time"

	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// inBytes is how much of a file is read at once.
	inBytes = 32 << 10
	// maxProblems bounds the problems of one report.
	maxProblems = 8
	// sinceSlack is how much older than the requested time a rotated file must be to be left out unread: its clock is the
	// file system's.
	sinceSlack = time.Minute
)

// Query selects what is read: v1.PodLogOptions without its names.
type Query struct {
	// Follow reads on until the container has ended.
	Follow bool
	// Timestamps puts the time of its first record before each line.
	Timestamps bool
	// Since leaves out records that are older. Zero: none.
	Since time.Time
	// Tail is how many lines are read, the last ones. Nil: all.
	Tail *int64
	// Limit is how many bytes are written at most. Nil: no limit.
	Limit *int64
	// Stdout and Stderr select the streams.
	Stdout, Stderr bool
}

// Log names the log of one instance.
type Log struct {
	// Path is the live file, below the directory of the pods' logs.
	Path string
	// Ended reports whether the container will write no more. It is called about once a second by one goroutine, while the
	// log is followed. It may block until ctx ends.
	Ended func(ctx context.Context) bool
}

// Report is what a reader could not read.
type Report struct {
	// Broken is how many records were left out because they are not in CRI's format.
	Broken int64
	// Problems are files and parts of them that were left out, the first few.
	Problems []error
}

func (r *Report) problem(format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Errorf(format, args...))
	}
}

func (r *Report) merge(other *Report) {
	for _, err := range other.Problems {
		r.problem("%w", err)
	}
}

// Err returns what was left out as one error, nil if nothing was.
func (r *Report) Err() error {
	err := errors.Join(r.Problems...)
	if r.Broken > 0 {
		err = errors.Join(err, fmt.Errorf("%d records of the log are broken and were left out", r.Broken))
	}
	return err
}

// Options configure a Reader.
type Options struct {
	// Dir is the directory of the pods' logs, such as /var/log/pods.
	Dir string
	Log *slog.Logger
	// Poll is set by tests: follow without notifications.
	Poll bool
}

// Reader reads logs. Its methods may be called concurrently.
type Reader struct {
	opts Options
	hub  hub
}

// New returns a reader.
func New(o Options) *Reader {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Reader{opts: o}
}

// Locate returns the directory and the name of a log, relative to dir.
func Locate(dir, path string) (below, base string, err error) {
	rel, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return "", "", fmt.Errorf("the log %s is not below %s; is another agent's --pod-log-dir in use?", path, dir)
	}
	return filepath.Dir(rel), filepath.Base(rel), nil
}

// Read writes a log to w, in pieces of up to some hundred KiB, after an empty piece that shows that the log was opened.
// It returns when all is read, when ctx ends, or with an error: of w, or because there is no log. The report has what
// was left out nevertheless.
func (r *Reader) Read(ctx context.Context, log Log, q Query, w io.Writer) (report Report, err error) {
	below, base, err := Locate(r.opts.Dir, log.Path)
	if err != nil {
		return report, err
	}
	dir, err := bounded.Hold(r.opts.Dir, below)
	if err != nil {
		return report, fmt.Errorf("open the directory of the log: %w", err)
	}
	defer dir.Close()
	all, err := openFiles(dir, base, &report)
	switch {
	case errors.Is(err, fs.ErrNotExist) && q.Follow:
		all = &files{} // the container's first line creates it
	case err != nil:
		return report, fmt.Errorf("open the log: %w", err)
	}
	defer all.close()
	if _, err := w.Write(nil); err != nil {
		return report, err
	}
	p := newPrinter(q, w)
	defer func() { report.Broken = p.broken }()
	if q.Tail != nil && len(all.all) > 0 {
		if err := all.tail(ctx, *q.Tail, &report); err != nil {
			return report, err
		}
	}
	if q.Follow {
		f := &follower{reader: r, dir: dir, base: base, log: log, printer: p, report: &report}
		err = f.run(ctx, all)
	} else {
		err = all.print(ctx, p, len(all.all), &report)
	}
	err = errors.Join(err, p.flush())
	if errors.Is(err, errLimit) {
		err = nil
	}
	return report, err
}

func newPrinter(q Query, w io.Writer) *printer {
	p := &printer{to: w, stdout: q.Stdout, stderr: q.Stderr, timestamps: q.Timestamps, left: math.MaxInt64,
		out: make([]byte, 0, outBytes)}
	if !q.Since.IsZero() {
		p.since = q.Since.UnixNano()
	}
	if q.Limit != nil {
		p.left = *q.Limit
	}
	return p
}

// print prints the first n files and closes them.
func (all *files) print(ctx context.Context, p *printer, n int, report *Report) error {
	for ; n > 0; n-- {
		s := all.all[0]
		err := s.copyTo(ctx, p)
		all.all = all.all[1:]
		_ = s.f.Close()
		var failed *readError
		switch {
		case errors.As(err, &failed):
			report.problem("%w", err) // the rest is printed
		case err != nil:
			return err
		}
	}
	return nil
}

// readError is an error of a file, as opposed to one of the writer.
type readError struct {
	name string
	err  error
}

func (e *readError) Error() string { return "read " + e.name + ": " + e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// old reports whether all of a rotated file is older than the time that was requested.
func (s *source) old(p *printer) bool {
	if p.since == 0 {
		return false
	}
	info, err := s.f.Stat()
	return err == nil && info.ModTime().Add(sinceSlack).UnixNano() < p.since
}

// copyTo prints a file up to the size that it had when it was opened, and on to the end of a record.
func (s *source) copyTo(ctx context.Context, p *printer) error {
	if s.old(p) {
		return nil
	}
	from, err := s.reader()
	if err != nil {
		return &readError{s.f.Name(), err}
	}
	p.skip = s.skip
	c := &copier{from: from, at: s.start, buf: make([]byte, inBytes)}
	for {
		err := c.next(ctx, p)
		whole := !s.packed && c.at >= s.size && !p.within && c.kept == 0
		if err == nil && !whole {
			continue
		}
		p.skip, s.start = 0, c.at
		var failed *readError
		switch {
		case errors.As(err, &failed):
			failed.name = s.f.Name()
		case errors.Is(err, io.EOF):
			err = nil
		case err != nil:
			return err // of the writer: the file has more
		}
		p.endFile(c.kept)
		return err
	}
}

// copier passes what it reads to a printer.
type copier struct {
	from io.Reader
	at   int64 // how far was read
	buf  []byte
	kept int // bytes at the begin of buf that the printer needs again
}

// next passes one piece on. It returns io.EOF at the end, which may be one for now.
func (c *copier) next(ctx context.Context, p *printer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	n, err := c.from.Read(c.buf[c.kept:])
	c.at += int64(n)
	have := c.buf[:c.kept+n]
	used, printErr := p.take(have)
	c.kept = copy(c.buf, have[used:])
	switch {
	case printErr != nil:
		return printErr
	case errors.Is(err, io.EOF):
		return io.EOF
	case err != nil:
		return &readError{err: err}
	}
	return nil
}
