package logs

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// pollNotified is the pause between two inspections of a log whose changes are notified (kubelet: 1 s), and
	// pollAlone the pause where they are not: a line is to be printed within 50 ms.
	pollNotified = time.Second
	pollAlone    = 25 * time.Millisecond
	// endedEvery is the pause between two inspections of the container.
	endedEvery = time.Second
	// gather is the least time between two reads of a file that grows: a container that writes line by line costs one read
	// for all lines of that time.
	gather = 5 * time.Millisecond
	// closes is how long the runtime may take to close a file that it writes no longer: less than the shortest interval of
	// rotations, 3 s, so that a process that holds every file open does not leave a follower behind.
	closes = 2 * time.Second
	// settled is how long such a file must not have grown on a file system without leases.
	settled = 20 * time.Millisecond
	// lateLines is how long a rotated file is read once the next one has been begun.
	lateLines = 2 * time.Second
	// maxBehind bounds the files that wait for a client that reads slowly. Each takes the disk space of a rotated file.
	maxBehind = 8
)

// follower follows one log. A goroutine of its own opens each file that takes the live one's place, so that none is
// missed while a client blocks the other.
type follower struct {
	reader  *Reader
	dir     *bounded.Held
	base    string
	log     Log
	printer *printer
	report  *Report

	wake chan struct{}

	mu     sync.Mutex
	newest fileID    // the live file that was opened last
	queue  []*source // sources to be read, oldest first
	lost   int       // sources that were dropped
	ended  bool      // the container has ended, and all its files are in queue
}

// run prints what the log has, and follows it until the container has ended.
func (f *follower) run(ctx context.Context, all *files) error {
	f.wake = make(chan struct{}, 1)
	// Watching begins before the first read, so that no change is missed between the two.
	signal, poll := (<-chan struct{})(nil), pollAlone
	if !f.reader.opts.Poll {
		s, stop, err := f.reader.hub.subscribe(f.dir, f.base)
		if err == nil {
			defer stop()
			signal, poll = s, pollNotified
		} else {
			f.reader.opts.Log.Warn("cannot watch a log; it is polled", "log", f.log.Path, "error", err)
		}
	}
	var current *source
	n := len(all.all)
	if all.live {
		n--
		current = all.all[n]
		f.newest = current.id
	}
	ctx, stop := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() { f.track(ctx, signal, poll) })
	tasks.Go(func() { f.watchEnd(ctx) })
	defer func() {
		stop()
		tasks.Wait()
		for _, s := range f.queue {
			_ = s.f.Close()
		}
		if f.lost > 0 {
			f.report.problem("%d rotated files were left out: the client reads too slowly", f.lost)
		}
	}()
	// The newest rotated file may have been rotated a moment ago: the runtime still writes to it.
	late := n > 0 && !all.all[n-1].packed && !all.all[n-1].old(f.printer)
	if late {
		n--
	}
	if err := all.print(ctx, f.printer, n, f.report); err != nil {
		return err
	}
	if late {
		f.push(current)
		current = all.all[0]
	}
	all.all = nil // current is closed by follow, what is queued above
	return f.follow(ctx, current)
}

// push has the live file, if there is one, read before the files that took its place.
func (f *follower) push(live *source) {
	if live == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = slices.Insert(f.queue, 0, live)
}

// track opens the files that take the live one's place.
func (f *follower) track(ctx context.Context, signal <-chan struct{}, poll time.Duration) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-signal:
		case <-tick.C:
		}
		f.inspect()
		f.rouse()
	}
}

func (f *follower) rouse() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// inspect opens the live file if it is another one.
func (f *follower) inspect() {
	f.mu.Lock()
	defer f.mu.Unlock()
	st, err := f.dir.Stat(f.base)
	if err != nil || idOf(&st) == f.newest {
		return
	}
	s, err := openSource(f.dir, f.base)
	if err != nil {
		return // it is being rotated, or is no log
	}
	if s.id == f.newest {
		_ = s.f.Close()
		return
	}
	f.newest, f.queue = s.id, append(f.queue, s)
	if len(f.queue) > maxBehind {
		_ = f.queue[0].f.Close()
		f.queue = f.queue[1:]
		f.lost++
	}
}

// watchEnd finds out that the container has ended.
func (f *follower) watchEnd(ctx context.Context) {
	tick := time.NewTicker(endedEvery)
	defer tick.Stop()
	for !f.log.Ended(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	f.inspect()
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.rouse()
}

// state returns the next file to be read, if there is one, and whether no further one comes.
func (f *follower) state() (next *source, ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) > 0 {
		next = f.queue[0]
	}
	return next, f.ended
}

func (f *follower) pop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = f.queue[1:]
}

// follow prints file after file.
func (f *follower) follow(ctx context.Context, current *source) error {
	t := &tape{printer: f.printer, report: f.report, buf: make([]byte, inBytes)}
	defer t.close()
	if current != nil {
		if err := t.load(current); err != nil {
			return err
		}
	}
	for {
		read := time.Now()
		// Before the read, so that nothing is written between the read and the end.
		next, ended := f.state()
		left := next != nil || ended
		last := left && t.last()
		if err := t.drain(ctx); err != nil {
			return err
		}
		switch {
		case last && next != nil:
			f.pop()
			if err := t.load(next); err != nil {
				return err
			}
			continue
		case last:
			return nil
		}
		if err := f.wait(ctx, read, left); err != nil {
			return err
		}
	}
}

// wait waits for a change after a read, and lets others gather.
func (f *follower) wait(ctx context.Context, read time.Time, soon bool) error {
	if soon {
		return pause(ctx, gather)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.wake:
		return pause(ctx, gather-time.Since(read))
	}
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// tape is the file that is followed, and the one before for a while.
type tape struct {
	printer *printer
	report  *Report
	buf     []byte
	copier  copier
	current *source
	grew    time.Time // when the current file last had something to read
	left    time.Time // when the runtime was first known to write no longer to it

	before      *source
	beforeUntil time.Time
}

func (t *tape) close() {
	for _, s := range []*source{t.current, t.before} {
		if s != nil {
			_ = s.f.Close()
		}
	}
	t.current, t.before = nil, nil
}

// load begins a file. Of the one before, lines that come late are still printed.
func (t *tape) load(s *source) error {
	if t.before != nil {
		_ = t.before.f.Close()
		t.before = nil
	}
	if t.current != nil {
		t.printer.endFile(t.copier.kept)
		t.before, t.beforeUntil = t.current, time.Now().Add(lateLines)
		t.before.start = t.copier.at
	}
	t.current, t.grew, t.left = s, time.Now(), time.Time{}
	from, err := s.reader()
	t.copier = copier{from: from, at: s.start, buf: t.buf}
	return err
}

// last reports whether the next read of the current file is the last one. It is called once the runtime has opened the
// next file, or the container has ended: the runtime still writes then what it had buffered, such as the begin of a
// line whose end is in the next file, and closes the file after that.
func (t *tape) last() bool {
	if t.current == nil {
		return true
	}
	if t.left.IsZero() {
		t.left = time.Now()
	}
	waited := time.Since(t.left)
	written, err := t.current.written()
	switch {
	case waited >= closes:
		return true
	case err != nil:
		return min(waited, time.Since(t.grew)) >= settled
	}
	return !written
}

// drain prints all that is there, and writes it out.
func (t *tape) drain(ctx context.Context) error {
	if t.current == nil {
		return nil
	}
	if err := t.late(ctx); err != nil {
		return err
	}
	if err := t.rewind(); err != nil {
		return err
	}
	for {
		at := t.copier.at
		err := t.copier.next(ctx, t.printer)
		if t.copier.at > at {
			t.grew = time.Now()
		}
		switch {
		case errors.Is(err, io.EOF):
			return t.printer.flush()
		case err != nil:
			return err
		}
	}
}

// late prints what was written to the file before after the current one was begun.
func (t *tape) late(ctx context.Context) error {
	if t.before == nil || t.printer.within || t.copier.kept > 0 {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(t.before.f.Fd()), &st); err == nil && st.Size > t.before.start {
		t.before.size = st.Size
		if err := t.before.copyTo(ctx, t.printer); err != nil {
			return err
		}
	}
	if time.Now().After(t.beforeUntil) {
		_ = t.before.f.Close()
		t.before = nil
	}
	return nil
}

// rewind begins a file again that was truncated.
func (t *tape) rewind() error {
	var st unix.Stat_t
	if err := unix.Fstat(int(t.current.f.Fd()), &st); err != nil || st.Size >= t.copier.at {
		return nil
	}
	t.report.problem("%s was truncated while it was read; it is read from its begin", t.current.f.Name())
	t.printer.endFile(t.copier.kept)
	t.copier.at, t.copier.kept = 0, 0
	_, err := t.current.f.Seek(0, io.SeekStart)
	return err
}
