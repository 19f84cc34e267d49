package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/clean"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Limits of the appender.
const (
	// MaxQueued is how many records may wait to be stored before AppendFact blocks. Steps and outcomes never block;
	// they are bounded by what was stored before them, since actors decide on stored records only.
	MaxQueued = 4096
	// maxInFlight and maxInFlightBytes bound what is published and not acknowledged.
	maxInFlight      = 512
	maxInFlightBytes = 16 << 20
	// ackTimeout is how long no acknowledgement may arrive while records are in flight. The stream acknowledges
	// within the time of one write; a disk that takes longer than this hangs.
	ackTimeout  = 10 * time.Second
	backOffMin  = 10 * time.Millisecond
	backOffMax  = 5 * time.Second
	reopenAfter = 3 // failures in a row without one record stored
)

// item is one record from Append until it is on disk.
type item struct {
	rec     *journaletv1.Record
	subject string
	data    []byte
	hash    []byte
	since   time.Time // when it was handed over
}

type waiter struct {
	upTo uint64
	done chan struct{}
}

// appender stores records on disk in the order of the calls, each exactly once. It keeps many records in flight; each
// names its expected number, so that the stream refuses whatever follows a gap. On a failure it stops, reads what the
// stream holds, and sends again from there.
type appender struct {
	node     string
	epoch    uint64
	log      *slog.Logger
	link     link
	head     *head
	onStored func([]*journaletv1.Record)
	meter    Meter
	reserve  *reserve      // nil in some tests
	timeout  time.Duration // for acks; ackTimeout except in tests

	mu           sync.Mutex
	queue        []item // the first one has number stored+1
	next         uint64 // number of the next record
	prev         []byte // hash of the record before it
	waiters      []waiter
	room         chan struct{} // closed when the queue has become shorter; nil while no caller waits
	closed       bool
	stalledSince time.Time // stalled since; zero when not
	stallCause   error

	// allowance is how many bytes may still be stored before full is signaled.
	allowance atomic.Int64
	full      chan struct{}

	stored  atomic.Uint64
	wake    chan struct{}
	stop    chan struct{}
	stopped chan struct{}

	// Only the loop uses these.
	attempt       uint32
	inFlight      int    // how many of the queue are in flight
	inFlightBytes int    // bytes of them
	acked         uint64 // highest number the stream has acknowledged
	failures      int
	storeError    string // the store's own error in this stall
	timer         *time.Timer
}

func newAppender(node string, epoch, last uint64, hash []byte, l link, h *head, log *slog.Logger) *appender {
	a := &appender{
		node: node, epoch: epoch, log: log, link: l, head: h, timeout: ackTimeout,
		next: last + 1, prev: hash, acked: last,
		full: make(chan struct{}, 1),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	a.allowance.Store(math.MaxInt64)
	a.stored.Store(last)
	a.timer = time.NewTimer(time.Hour)
	a.timer.Stop()
	return a
}

// enqueue cleans, numbers, chains, encodes and queues records that follow each other, all or none. It refuses a record
// that cannot be stored before any of them gets a number. It is the only way of a fact into the journal.
func (a *appender) enqueue(recs ...*journaletv1.Record) error {
	for _, rec := range recs {
		if err := checkRecord(rec); err != nil {
			return err
		}
		// Steps are left as they are: their actors have folded them.
		if fact := rec.GetFact(); fact != nil {
			rec.Body = &journaletv1.Record_Fact{Fact: clean.Fact(fact)}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errClosed
	}
	items, next, prev, now := make([]item, 0, len(recs)), a.next, a.prev, time.Now()
	for _, rec := range recs {
		rec.Seq, rec.Epoch, rec.PreviousHash = next, a.epoch, prev
		b, err := messages.Encode(rec)
		if err != nil {
			return err
		}
		next, prev = next+1, messages.Hash(b)
		items = append(items, item{rec, messages.Subject(a.node, rec), b, prev, now})
	}
	a.queue = append(a.queue, items...)
	a.next, a.prev = next, prev
	select {
	case a.wake <- struct{}{}:
	default:
	}
	return nil
}

// checkRecord refuses a record that could not be found again: its subject must be well formed.
func checkRecord(rec *journaletv1.Record) error {
	r := messages.RefOf(rec.GetActor())
	if r.KindName() == "unknown" {
		return fmt.Errorf("a record of no known kind of actor (%v) cannot be stored", r.Kind)
	}
	if err := messages.CheckID(r.ID); err != nil {
		return fmt.Errorf("a record of %q cannot be stored: %w", r.String(), err)
	}
	if fact := rec.GetFact(); fact == nil && rec.GetStep() == nil || fact != nil && messages.EventName(fact) == "" {
		return fmt.Errorf("a record of %s without a fact or a step cannot be stored", r)
	}
	return nil
}

// enqueueFact is enqueue for a new fact from outside: it blocks while the queue is full.
func (a *appender) enqueueFact(ctx context.Context, rec *journaletv1.Record) error {
	for {
		a.mu.Lock()
		if a.closed {
			a.mu.Unlock()
			return errClosed
		}
		if len(a.queue) < MaxQueued {
			a.mu.Unlock()
			return a.enqueue(rec)
		}
		if a.room == nil {
			a.room = make(chan struct{})
		}
		room := a.room
		a.mu.Unlock()
		select {
		case <-room:
		case <-a.stopped:
			return errClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// flush returns once every record queued before is stored and was passed to onStored.
func (a *appender) flush(ctx context.Context) error {
	a.mu.Lock()
	if len(a.queue) == 0 {
		a.mu.Unlock()
		return nil
	}
	w := waiter{upTo: a.next - 1, done: make(chan struct{})}
	a.waiters = append(a.waiters, w)
	a.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-a.stopped:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run is the appender's one goroutine.
func (a *appender) run() {
	defer close(a.stopped)
	for {
		err := a.send()
		if err == nil {
			select {
			case <-a.stop:
				return
			case <-a.wake:
				continue
			case <-a.timer.C:
				err = fmt.Errorf("the journal's stream did not acknowledge for %v", a.timeout)
			case m := <-a.link.acks():
				err = a.takeAcks(m)
			}
		}
		if err != nil && !a.recoverStream(err) {
			return
		}
	}
}

// send publishes as many of the queued records as the bounds of records in flight admit.
func (a *appender) send() error {
	a.mu.Lock()
	first := a.stored.Load() + 1 + uint64(a.inFlight)
	end := min(len(a.queue), maxInFlight)
	batch := a.queue[min(a.inFlight, end):end] // items are never changed, and popped only by this goroutine
	a.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	if a.inFlight == 0 {
		a.timer.Reset(a.timeout)
	}
	for i := range batch {
		if a.inFlightBytes > 0 && a.inFlightBytes+len(batch[i].data) > maxInFlightBytes {
			return nil
		}
		if err := a.link.publish(a.attempt, first+uint64(i), batch[i].subject, batch[i].data); err != nil {
			return fmt.Errorf("send record %d: %w", first+uint64(i), err)
		}
		a.inFlight++
		a.inFlightBytes += len(batch[i].data)
	}
	return nil
}

// takeAcks handles an acknowledgement and all others that have arrived, so that they share one fsync and one call of
// onStored.
func (a *appender) takeAcks(m *nats.Msg) error {
	err := a.noteAck(m)
	for err == nil {
		select {
		case m := <-a.link.acks():
			err = a.noteAck(m)
			continue
		default:
		}
		break
	}
	if err == nil {
		err = a.send() // these are stored while the disk syncs the ones before
	}
	return errors.Join(a.commit(a.acked), err)
}

func (a *appender) noteAck(m *nats.Msg) error {
	k, err := parseAck(m)
	if err != nil {
		return err
	}
	if k.attempt != a.attempt {
		return nil
	}
	if k.err != nil {
		return fmt.Errorf("store record %d: %w", k.seq, k.err)
	}
	// The stream stores a record only right after the record before it, so this acknowledges all earlier records, too.
	a.acked = max(a.acked, k.seq)
	return nil
}

// commit forces everything up to seq to disk, records it in the head and passes it to onStored.
func (a *appender) commit(seq uint64) error {
	n := int(seq - a.stored.Load())
	if n == 0 {
		return nil
	}
	if err := a.force(); err != nil {
		return fmt.Errorf("force the journal to disk: %w", err)
	}
	a.mu.Lock()
	done := slices.Clone(a.queue[:n])
	a.mu.Unlock()
	recs := make([]*journaletv1.Record, n)
	size := 0
	for i := range done {
		size += len(done[i].data) + len(done[i].subject) + storedFrame
		recs[i] = done[i].rec
		a.inFlightBytes -= len(done[i].data)
	}
	a.inFlightBytes = max(a.inFlightBytes, 0)
	a.inFlight = max(a.inFlight-n, 0)
	if err := a.head.advance(seq, done[n-1].hash); err != nil {
		// The records are safe; only a lost tail might go unnoticed.
		a.log.Error("cannot keep the journal's head up to date", "err", err)
	}
	a.stored.Store(seq)
	a.measure(done)
	if a.onStored != nil {
		a.onStored(recs)
	}
	a.charge(int64(size))
	if a.reserve != nil {
		a.reserve.restore()
	}
	a.release(seq, n)
	a.failures, a.storeError = 0, ""
	if a.inFlight > 0 {
		a.timer.Reset(a.timeout)
	} else {
		a.timer.Stop()
	}
	return nil
}

// charge subtracts stored bytes from the allowance, and signals once when none is left.
func (a *appender) charge(size int64) {
	if left := a.allowance.Add(-size); left <= 0 && left+size > 0 {
		select {
		case a.full <- struct{}{}:
		default:
		}
	}
}

// release removes n stored records from the queue and wakes the callers that wait for records up to seq.
func (a *appender) release(seq uint64, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.queue[:n])
	a.queue = a.queue[n:]
	if len(a.queue) == 0 {
		a.queue = nil // free the memory of a burst
	}
	a.waiters = slices.DeleteFunc(a.waiters, func(w waiter) bool {
		if w.upTo <= seq {
			close(w.done)
		}
		return w.upTo <= seq
	})
	if a.room != nil && len(a.queue) < MaxQueued {
		close(a.room)
		a.room = nil
	}
	if a.stallCause != nil {
		a.log.Info("the journal can store again", "stalled", time.Since(a.stalledSince).Round(time.Millisecond), "seq", seq)
		a.stalledSince, a.stallCause = time.Time{}, nil
	}
}

// recoverStream finds out what the stream holds and prepares to send the rest again. It returns false when the
// appender was stopped.
func (a *appender) recoverStream(cause error) bool {
	a.timer.Stop()
	for {
		a.failures++
		a.attempt++ // acknowledgements of what was sent before no longer count
		a.stall(cause)
		if a.releaseReserve() {
			a.failures = reopenAfter + 1 // there is space now: open the streams again at once
		}
		if a.failures > reopenAfter {
			if err := a.link.reopen(); err != nil {
				a.log.Warn("cannot open the journal's stream again yet; retrying", "err", err)
			}
		}
		if a.failures > 1 {
			select {
			case <-a.stop:
				return false
			case <-time.After(min(backOffMin<<min(a.failures, 16), backOffMax)):
			}
		}
		if cause = a.resync(); cause == nil {
			return true
		}
	}
}

func (a *appender) stall(cause error) {
	// The refusal of a record mostly means only that the one before it is missing.
	if c := a.link.takeStoreError(); c != "" {
		a.storeError = c
	}
	if a.storeError != "" {
		cause = fmt.Errorf("%w (error of the store: %s)", cause, a.storeError)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stallCause == nil {
		a.stalledSince = time.Now()
		a.log.Warn("the journal cannot store; retrying until it can", "err", cause)
	}
	a.stallCause = cause
}

// releaseReserve frees the reserve if the disk is full, and reports whether it did.
func (a *appender) releaseReserve() bool {
	if a.reserve == nil {
		return false
	}
	_, why := a.stalled()
	return a.reserve.release(why)
}

// resync reads from the stream what is stored, and prepares to send the rest.
func (a *appender) resync() error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	seq, hash, err := a.link.last(ctx)
	if err != nil {
		return err
	}
	stored := a.stored.Load()
	a.mu.Lock()
	end := stored + uint64(len(a.queue))
	var want []byte
	if seq > stored && seq <= end {
		want = a.queue[seq-stored-1].hash
	}
	a.mu.Unlock()
	switch {
	case seq < stored:
		return fmt.Errorf(
			"the stream ends at record %d and %d was stored: records are lost; restart the agent to continue from what is left",
			seq, stored)
	case seq > end:
		return fmt.Errorf("the stream ends at record %d and only %d were written: another process writes to the journal", seq,
			end)
	case seq > stored && !slices.Equal(hash, want):
		return fmt.Errorf("record %d in the stream is not the one that was written: another process writes to the journal",
			seq)
	}
	a.acked = seq
	if err := a.commit(seq); err != nil {
		return err
	}
	a.inFlight, a.inFlightBytes = 0, 0
	return nil
}

func (a *appender) stalled() (time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stalledSince, a.stallCause
}

func (a *appender) queued() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queue)
}

// close stops the loop. Records still queued are dropped.
func (a *appender) close() {
	a.mu.Lock()
	was := a.closed
	a.closed = true
	a.mu.Unlock()
	if !was {
		close(a.stop)
	}
	<-a.stopped
}
