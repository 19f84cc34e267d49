package query

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/history"
)

const (
	// liveBuffer is how many events the client buffers; what does not fit is read from the journal.
	liveBuffer = 16 << 10
	// retryFirst and retryMax bound the pause between two attempts to reach an agent that was lost.
	retryFirst = 100 * time.Millisecond
	retryMax   = 5 * time.Second
)

// WatchRequest selects the events to watch.
type WatchRequest struct {
	// From is the first record. 0 means the first one at or after Since; if that is zero too, the filter's Cause, the
	// oldest one with All, or else the next one to come.
	From  uint64
	Since time.Time
	All   bool
	history.Filter
	// Follow continues with new events, across restarts of the agent, until the context ends.
	Follow bool
	// Notice receives messages for the user, such as a lost connection. It may be nil.
	Notice func(string)
}

// position is an event's position in the journal.
type position struct {
	seq   uint64
	index int
}

func (p position) before(q position) bool {
	return p.seq < q.seq || p.seq == q.seq && p.index < q.index
}

// wholeRecord is the index behind all events of a record.
const wholeRecord = math.MaxInt

// behind returns the position behind an event: the next one has the next index, or, after the record's last event, the
// next number.
func behind(f *messages.Flat) position {
	if f.Index+1 == f.Of {
		return position{f.Seq, wholeRecord}
	}
	return position{f.Seq, f.Index}
}

// follows reports whether no event is between p, a position behind an event, and q.
func (p position) follows(q position) bool {
	if q.index == wholeRecord {
		return p == position{q.seq + 1, 0}
	}
	return p == position{q.seq, q.index + 1}
}

// watcher follows the journal. It uses live events as long as each follows the one before without a gap. On any gap it
// reads the journal from the last position.
type watcher struct {
	c      *Client
	events *nats.Conn // nil without Follow
	q      WatchRequest
	f      func(messages.Flat) error
	done   position // everything up to here was passed to f or filtered out
	resync chan struct{}
	pause  time.Duration
	failed error // of f
	shown  bool  // f was called

	mu    sync.Mutex
	abort context.CancelFunc // of the read under way, or of the one before
}

// Watch calls f for each event, once and in the journal's order: for the past ones, then, with Follow, for new ones. It
// returns the context's error, f's error, or, without Follow, nil at the journal's end. A Cause has to be there.
func (c *Client) Watch(ctx context.Context, q WatchRequest, f func(messages.Flat) error) error {
	if err := q.Check(); err != nil {
		return err
	}
	if q.Cause > 0 {
		if _, err := c.Record(ctx, q.Cause); err != nil {
			return err
		}
	}
	q.Node, q.Record = c.node, c.flats(ctx)
	w := &watcher{c: c, q: q, f: f, resync: make(chan struct{}, 1)}
	if !q.Follow {
		if err := w.begin(ctx); err != nil {
			return err
		}
		return w.read(ctx)
	}
	live := make(chan *nats.Msg, liveBuffer)
	// Subscribe before reading: no event may fall between the past and the live ones.
	events, err := c.listen(ctx)
	if err != nil {
		return err
	}
	defer events.Close()
	w.events = events
	if _, err := events.ChanSubscribe(messages.EventFilter(c.node), live); err != nil {
		return fmt.Errorf("follow events: %w", err)
	}
	events.SetReconnectHandler(func(*nats.Conn) { w.requestResync() })
	events.SetDisconnectErrHandler(func(*nats.Conn, error) {
		w.interrupt()
		if ctx.Err() == nil {
			w.notice("lost the connection to the agent; reconnecting")
		}
	})
	defer events.SetDisconnectErrHandler(nil)
	events.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrSlowConsumer) {
			w.requestResync()
		}
	})
	if err := events.FlushTimeout(clientTimeout); err != nil {
		return clientError(ctx, err)
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	if err := w.catchUp(ctx); err != nil {
		return err
	}
	return w.follow(ctx, live)
}

// requestResync makes the watcher read the journal before it uses live events again.
func (w *watcher) requestResync() {
	select {
	case w.resync <- struct{}{}:
	default:
	}
}

// interrupt cancels the read under way: its agent will not respond any more.
func (w *watcher) interrupt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.abort != nil {
		w.abort()
	}
}

// readUninterrupted reads until the end or until interrupt.
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

// begin sets the position to begin at.
func (w *watcher) begin(ctx context.Context) error {
	if w.q.From == 0 && w.q.Since.IsZero() {
		w.q.From = w.q.Cause
	}
	switch {
	case w.q.From > 0:
		w.done = position{w.q.From - 1, wholeRecord}
		return nil
	case w.q.Since.IsZero() && w.q.All:
		return nil
	}
	q := ReadRequest{Since: w.q.Since, Limit: 1}
	if w.q.Since.IsZero() {
		// The page of a filter on a pod has the pod's UIDs.
		q.Filter = w.q.Filter
		info, err := w.c.Info(ctx)
		if err != nil {
			return err
		}
		w.done = position{info.JournalLast, wholeRecord}
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
		w.done = position{max(first, 1) - 1, wholeRecord}
		return nil
	}
	w.learn(page)
	return nil
}

// learn continues with the filter of a page.
func (w *watcher) learn(page *Page) {
	record := w.q.Record
	w.q.Filter = page.Filter
	w.q.Record = record
}

// read reads the journal from the position reached to its end.
func (w *watcher) read(ctx context.Context) error {
	for {
		// A record that only some events of are done is read again.
		from := w.done.seq + 1
		if w.done.index != wholeRecord && w.done.seq > 0 {
			from = w.done.seq
		}
		page, err := w.c.Read(ctx, ReadRequest{From: from, Filter: w.q.Filter})
		if err != nil {
			return err
		}
		w.learn(page)
		if from > page.Last+1 {
			why := fmt.Sprintf("there is no record %d", from)
			if w.shown {
				why = "its tail was lost"
			}
			w.notice(fmt.Sprintf("the journal ends at record %d: %s; continuing there", page.Last, why))
			w.done = position{page.Last, wholeRecord}
			return nil
		}
		if from < page.First && from > 1 {
			w.notice(fmt.Sprintf("records %d to %d were cut by retention", from, page.First-1))
		}
		for _, f := range page.Events {
			if !w.done.before(position{f.Seq, f.Index}) {
				continue
			}
			w.shown = true
			if w.failed = w.f(f); w.failed != nil {
				return w.failed
			}
			w.done = behind(&f)
		}
		if reached := (position{page.Next - 1, wholeRecord}); page.Next > 0 && w.done.before(reached) {
			w.done = reached
		}
		if page.Next > page.Last {
			return nil
		}
	}
}

// flush waits until the server has processed the subscription. A new connection subscribes again, and events published
// before the server knows of it are not delivered: they must be in the journal by the time it is read.
func (w *watcher) flush() {
	if w.events == nil {
		return
	}
	if err := w.events.FlushTimeout(clientTimeout); err != nil && !w.events.IsReconnecting() && !w.events.IsClosed() {
		w.requestResync()
	}
}

// catchUp reads until it succeeds: the agent may be restarting.
func (w *watcher) catchUp(ctx context.Context) error {
	for {
		w.flush()
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
		w.pause = min(max(2*w.pause, retryFirst), retryMax)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.resync:
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
		case <-w.resync:
			if err = w.catchUp(ctx); err == nil {
				w.notice(fmt.Sprintf("continuing after record %d", w.done.seq))
			}
		case m := <-live:
			err = w.take(ctx, m)
		}
		if err != nil {
			return err
		}
	}
}

// take processes one live event.
func (w *watcher) take(ctx context.Context, m *nats.Msg) error {
	var f messages.Flat
	if err := bounded.JSON(m.Data, maxResponse, &f); err != nil {
		return fmt.Errorf("decode an event on %s; is the agent of another version? %w", m.Subject, err)
	}
	if f.Event == bus.EventsMissed {
		return w.resume(ctx, &f)
	}
	at := position{f.Seq, f.Index}
	if !w.done.before(at) {
		return nil
	}
	if !at.follows(w.done) {
		if err := w.catchUp(ctx); err != nil || !w.done.before(at) {
			return err
		}
	}
	wanted, err := w.q.Match(&f)
	if err != nil {
		// The record of a cause could not be read: the agent is gone, or busy. It filters by itself once it is back.
		return w.catchUp(ctx)
	}
	if wanted {
		w.shown = true
		if w.failed = w.f(f); w.failed != nil {
			return w.failed
		}
	}
	w.done = behind(&f)
	return nil
}

// resume reads what the agent reports that it has not sent. Live events after a gap lead to the same; the notice comes
// also without live events.
func (w *watcher) resume(ctx context.Context, f *messages.Flat) error {
	if !w.done.before(position{f.Seq, wholeRecord}) {
		return nil
	}
	var gap bus.Missed
	if err := bounded.JSON(f.Data, maxResponse, &gap); err != nil {
		return fmt.Errorf("decode the agent's notice of missed events; is the agent of another version? %w", err)
	}
	w.notice(fmt.Sprintf("the agent did not send records %d to %d live; reading them from its journal", gap.From, gap.To))
	return w.catchUp(ctx)
}
