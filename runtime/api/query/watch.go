package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
)

const (
	// liveBuffer is how many events may wait on the client's side; what does not fit is read again.
	liveBuffer = 16 << 10
	// retryFirst and retryMost are the pauses between tries to reach an agent that was lost.
	retryFirst = 100 * time.Millisecond
	retryMost  = 5 * time.Second
)

// WatchRequest says what to follow.
type WatchRequest struct {
	// From is the record to begin with. 0 means the first one at or after Since; if that is zero
	// too, All decides between the oldest one and what comes from now on.
	From  uint64
	Since time.Time
	All   bool
	Filter
	// Follow goes on with what comes, over restarts of the agent, until the context ends.
	Follow bool
	// Notice hears of what people should know: a connection lost and found. It may be nil.
	Notice func(string)
}

// place is an event's place in the journal.
type place struct {
	seq   uint64
	index int
}

func (p place) before(q place) bool { return p.seq < q.seq || p.seq == q.seq && p.index < q.index }

// wholeRecord is the place behind all events of a record.
const wholeRecord = math.MaxInt

// index is an event's place within its record.
func index(f *bus.Flat) int {
	if d, err := messages.ParseDecisionID(f.ID); err == nil {
		return d.Index
	}
	return 0
}

// watcher follows the journal. Live events are taken as long as each follows the one before without a
// gap; at any doubt it reads the journal from the last place that is certain.
type watcher struct {
	c      *Client
	ears   *nats.Conn // nil without Follow
	q      WatchRequest
	f      func(bus.Flat) error
	done   place // everything up to here was seen
	doubt  chan struct{}
	pause  time.Duration
	failed error // of f

	mu    sync.Mutex
	abort context.CancelFunc // of the read under way, or of the one before
}

// Watch hands events to f, each once and in the journal's order: first what is past, then, with Follow,
// what comes. It ends with the context's error, f's, or, without Follow, at the journal's end.
func (c *Client) Watch(ctx context.Context, q WatchRequest, f func(bus.Flat) error) error {
	if err := q.Check(); err != nil {
		return err
	}
	q.Node = c.node
	w := &watcher{c: c, q: q, f: f, doubt: make(chan struct{}, 1)}
	if !q.Follow {
		if err := w.begin(ctx); err != nil {
			return err
		}
		return w.read(ctx)
	}
	live := make(chan *nats.Msg, liveBuffer)
	// Before anything is read, so that nothing falls between what is past and what is live.
	ears, err := c.listen(ctx)
	if err != nil {
		return err
	}
	defer ears.Close()
	w.ears = ears
	if _, err := ears.ChanSubscribe(messages.EventFilter(c.node), live); err != nil {
		return fmt.Errorf("follow events: %w", err)
	}
	ears.SetReconnectHandler(func(*nats.Conn) { w.doubtful() })
	ears.SetDisconnectErrHandler(func(*nats.Conn, error) {
		w.interrupt()
		if ctx.Err() == nil {
			w.notice("the connection to the agent is lost; waiting for it")
		}
	})
	defer ears.SetDisconnectErrHandler(nil)
	ears.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrSlowConsumer) {
			w.doubtful()
		}
	})
	if err := ears.FlushTimeout(clientTimeout); err != nil {
		return asked(ctx, err)
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	if err := w.catchUp(ctx); err != nil {
		return err
	}
	return w.follow(ctx, live)
}

// doubtful has the watcher read the journal before it goes on.
func (w *watcher) doubtful() {
	select {
	case w.doubt <- struct{}{}:
	default:
	}
}

// interrupt ends the read under way: the agent that was asked answers no more.
func (w *watcher) interrupt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.abort != nil {
		w.abort()
	}
}

// readUninterrupted reads until the connection is lost.
func (w *watcher) readUninterrupted(ctx context.Context) error {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	w.abort = cancel
	w.mu.Unlock()
	return w.read(reading)
}

func (w *watcher) notice(s string) {
	if w.q.Notice != nil {
		w.q.Notice(s)
	}
}

// begin finds the place to begin at.
func (w *watcher) begin(ctx context.Context) error {
	switch {
	case w.q.From > 0:
		w.done = place{w.q.From - 1, wholeRecord}
		return nil
	case w.q.Since.IsZero() && w.q.All:
		return nil
	}
	q := ReadRequest{Since: w.q.Since, Limit: 1}
	if w.q.Since.IsZero() {
		// A page with a filter on a pod tells its UID too.
		q.Filter = w.q.Filter
		info, err := w.c.Info(ctx)
		if err != nil {
			return err
		}
		w.done = place{info.JournalLast, wholeRecord}
		q.From = info.JournalLast + 1
	}
	page, err := w.c.Read(ctx, q)
	if err != nil {
		return err
	}
	if !w.q.Since.IsZero() {
		first := page.Next
		if len(page.Events) > 0 {
			first = page.Events[0].Seq
		}
		w.done = place{max(first, 1) - 1, wholeRecord}
		return nil
	}
	w.know(page.UIDs)
	return nil
}

func (w *watcher) know(uids []string) {
	for _, uid := range uids {
		w.q.know(uid)
	}
}

// read reads the journal from the place reached to its end.
func (w *watcher) read(ctx context.Context) error {
	for {
		// A record of which only a part was seen is read once more.
		from := w.done.seq + 1
		if w.done.index != wholeRecord && w.done.seq > 0 {
			from = w.done.seq
		}
		page, err := w.c.Read(ctx, ReadRequest{From: from, Filter: w.q.Filter})
		if err != nil {
			return err
		}
		w.know(page.UIDs)
		if from > page.Last+1 {
			w.notice(fmt.Sprintf("the journal ends at %d, before what was seen already: its end was lost; going on from there", page.Last))
			w.done = place{page.Last, wholeRecord}
			return nil
		}
		if from < page.First && from > 1 {
			w.notice(fmt.Sprintf("records %d to %d are kept no longer", from, page.First-1))
		}
		for _, f := range page.Events {
			at := place{f.Seq, index(&f)}
			if !w.done.before(at) {
				continue
			}
			if w.failed = w.f(f); w.failed != nil {
				return w.failed
			}
			w.done = at
		}
		if reached := (place{page.Next - 1, wholeRecord}); page.Next > 0 && w.done.before(reached) {
			w.done = reached
		}
		if page.Next > page.Last {
			return nil
		}
	}
}

// settle waits until the server knows what is listened to. A connection that was found again asks for its events anew, and what
// comes before the server has read that is heard by nobody: it must be stored when the journal is read, and not a moment later.
func (w *watcher) settle() {
	if w.ears == nil {
		return
	}
	if err := w.ears.FlushTimeout(clientTimeout); err != nil && !w.ears.IsReconnecting() && !w.ears.IsClosed() {
		w.doubtful()
	}
}

// catchUp reads until it succeeds: the agent may be restarting.
func (w *watcher) catchUp(ctx context.Context) error {
	for {
		w.settle()
		err := w.readUninterrupted(ctx)
		var e *Error
		switch {
		case err == nil:
			w.pause = 0
			return nil
		case w.failed != nil, ctx.Err() != nil, w.c.nc.IsClosed():
			return err
		case errors.As(err, &e) && e.Code != CodeUnavailable:
			return err
		}
		w.pause = min(max(2*w.pause, retryFirst), retryMost)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.doubt:
		case <-time.After(w.pause):
		}
	}
}

func (w *watcher) follow(ctx context.Context, live <-chan *nats.Msg) error {
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.doubt:
			if err = w.catchUp(ctx); err == nil {
				w.notice("going on after record " + fmt.Sprint(w.done.seq))
			}
		case m := <-live:
			err = w.take(ctx, m)
		}
		if err != nil {
			return err
		}
	}
}

// take looks at one live event.
func (w *watcher) take(ctx context.Context, m *nats.Msg) error {
	var f bus.Flat
	if err := json.Unmarshal(m.Data, &f); err != nil {
		return fmt.Errorf("an event on %s cannot be read; is the agent of another version? %w", m.Subject, err)
	}
	at := place{f.Seq, index(&f)}
	if !w.done.before(at) {
		return nil
	}
	follows := at.seq == w.done.seq+1 && at.index == 0 || at.seq == w.done.seq && at.index == w.done.index+1
	if !follows {
		if err := w.catchUp(ctx); err != nil || !w.done.before(at) {
			return err
		}
	}
	if w.wanted(&f) {
		if w.failed = w.f(f); w.failed != nil {
			return w.failed
		}
	}
	w.done = at
	return nil
}

func (w *watcher) wanted(f *bus.Flat) bool {
	author, err := messages.ParseRef(f.Author)
	if err != nil {
		return w.q.Pod == "" && w.q.Kind == ""
	}
	e, err := Event(f)
	if err != nil {
		// Of a newer agent: shown, unless the filter asks for something else.
		return w.q.Pod == "" && w.q.Event == "" && (w.q.Kind == "" || w.q.Kind == author.KindName())
	}
	return w.q.Match(author, e)
}
