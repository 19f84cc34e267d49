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
	"github.com/journalet/journalet/messages/journaletv1"
)

// Limits of the appender.
const (
	// MaxQueued is how many records may wait to be stored before AppendFact makes new facts wait.
	// Steps and outcomes are never held back; they are bounded by what was stored before them, since
	// actors decide on stored records only.
	MaxQueued = 4096
	// maxInFlight and maxInFlightBytes bound what is on its way to the stream at one time.
	maxInFlight      = 512
	maxInFlightBytes = 16 << 20
	// ackTimeout is how long the stream may stay silent about what is in flight. It answers within
	// the time of one write; a disk that takes longer than this is as good as hung.
	ackTimeout  = 10 * time.Second
	backOffMin  = 10 * time.Millisecond
	backOffMax  = 5 * time.Second
	healAfter   = 3 // failures in a row without one record stored
	maxIDLength = 64
)

// item is one record between its Append and its place on disk.
type item struct {
	rec     *journaletv1.Record
	subject string
	data    []byte
	hash    []byte
}

type waiter struct {
	upTo uint64
	done chan struct{}
}

// appender turns the order of calls into the order on disk, each record exactly once. It keeps many
// records in flight; each names the number it must get, so that the stream refuses whatever follows a
// hole. On a failure it stops, looks what the stream holds, and sends again from there.
type appender struct {
	node     string
	epoch    uint64
	log      *slog.Logger
	link     link
	head     *head
	onStored func([]*journaletv1.Record)
	refused  func(*journaletv1.Record, error)
	reserve  *reserve      // nil in some tests
	timeout  time.Duration // for acks; ackTimeout but in tests

	mu      sync.Mutex
	queue   []item // the first one has number stored+1
	next    uint64 // number of the next record
	prev    []byte // hash of the record before it
	waiters []waiter
	room    chan struct{} // closed when the queue has become shorter; nil while nobody waits
	closed  bool
	since   time.Time // stalled since; zero when not
	why     error

	// allowance is how many bytes may still be stored before full hears of it.
	allowance atomic.Int64
	full      chan struct{}

	stored  atomic.Uint64
	wake    chan struct{}
	stop    chan struct{}
	stopped chan struct{}

	// Only the loop knows these.
	attempt uint32
	sent    int    // how many of the queue are in flight
	flying  int    // bytes of them
	acked   uint64 // highest number the stream has acknowledged
	fails   int
	grudge  string // what the store itself complained of in this stall
	timer   *time.Timer
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

// put numbers, chains, encodes and queues a record. What cannot be stored is refused before it has a number.
func (a *appender) put(rec *journaletv1.Record) error {
	if err := checkRecord(rec); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errClosed
	}
	rec.Seq, rec.Epoch, rec.PreviousHash = a.next, a.epoch, a.prev
	b, err := messages.Encode(rec)
	if err != nil {
		return err
	}
	hash := messages.Hash(b)
	a.queue = append(a.queue, item{rec, messages.Subject(a.node, rec), b, hash})
	a.next++
	a.prev = hash
	select {
	case a.wake <- struct{}{}:
	default:
	}
	return nil
}

// checkRecord refuses what could not be found again: its subject must be well formed.
func checkRecord(rec *journaletv1.Record) error {
	r := messages.RefOf(rec.GetActor())
	if r.KindName() == "unknown" {
		return fmt.Errorf("a record of no known kind of actor (%v) cannot be stored", r.Kind)
	}
	if r.ID == "" || len(r.ID) > maxIDLength {
		return fmt.Errorf("a record of a %s with an id of %d bytes cannot be stored: want 1 to %d", r.KindName(), len(r.ID), maxIDLength)
	}
	for _, c := range []byte(r.ID) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return fmt.Errorf("a record of %q cannot be stored: an id holds only letters, digits, - and _", r.String())
		}
	}
	if fact := rec.GetFact(); fact == nil && rec.GetStep() == nil || fact != nil && messages.EventName(fact) == "" {
		return fmt.Errorf("a record of %s without a fact or a step cannot be stored", r)
	}
	return nil
}

// putFact is put for a new fact from outside: it waits while the queue is long.
func (a *appender) putFact(ctx context.Context, rec *journaletv1.Record) error {
	for {
		a.mu.Lock()
		if a.closed {
			a.mu.Unlock()
			return errClosed
		}
		if len(a.queue) < MaxQueued {
			a.mu.Unlock()
			return a.put(rec)
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

// flush returns once all that was put before is stored and was handed on.
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
				err = fmt.Errorf("the journal's stream did not answer for %v", a.timeout)
			case m := <-a.link.answers():
				err = a.take(m)
			}
		}
		if err != nil && !a.recover(err) {
			return
		}
	}
}

// send puts on their way as many of the waiting records as may fly.
func (a *appender) send() error {
	a.mu.Lock()
	first := a.stored.Load() + 1 + uint64(a.sent)
	end := min(len(a.queue), maxInFlight)
	batch := a.queue[min(a.sent, end):end] // items are never changed, and popped only by this goroutine
	a.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	if a.sent == 0 {
		a.timer.Reset(a.timeout)
	}
	for i := range batch {
		if a.flying > 0 && a.flying+len(batch[i].data) > maxInFlightBytes {
			return nil
		}
		if err := a.link.publish(a.attempt, first+uint64(i), batch[i].subject, batch[i].data); err != nil {
			return fmt.Errorf("send record %d: %w", first+uint64(i), err)
		}
		a.sent++
		a.flying += len(batch[i].data)
	}
	return nil
}

// take handles an answer and all others that are there already, so that they share one fsync and one
// call of OnStored.
func (a *appender) take(m *nats.Msg) error {
	err := a.note(m)
	for err == nil {
		select {
		case m := <-a.link.answers():
			err = a.note(m)
			continue
		default:
		}
		break
	}
	if err == nil {
		err = a.send() // these are stored while the disk works for the ones before
	}
	return errors.Join(a.commit(a.acked), err)
}

func (a *appender) note(m *nats.Msg) error {
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
	// The stream takes a record only right after the one before, so this one vouches for those too.
	a.acked = max(a.acked, k.seq)
	return nil
}

// commit makes everything up to seq durable, notes it in the head and hands it on.
func (a *appender) commit(seq uint64) error {
	n := int(seq - a.stored.Load())
	if n == 0 {
		return nil
	}
	if err := a.link.force(); err != nil {
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
		a.flying -= len(done[i].data)
	}
	a.flying = max(a.flying, 0)
	a.sent = max(a.sent-n, 0)
	if err := a.head.advance(seq, done[n-1].hash); err != nil {
		// The records are safe, and only the notice of a lost tail would come too early.
		a.log.Error("cannot keep the journal's head up to date", "err", err)
	}
	a.stored.Store(seq)
	if a.onStored != nil {
		a.onStored(recs)
	}
	a.spend(int64(size))
	if a.reserve != nil {
		a.reserve.restore()
	}
	a.release(seq, n)
	a.fails, a.grudge = 0, ""
	if a.sent > 0 {
		a.timer.Reset(a.timeout)
	} else {
		a.timer.Stop()
	}
	return nil
}

// spend takes what was stored from the allowance, and tells once when it is gone.
func (a *appender) spend(size int64) {
	if left := a.allowance.Add(-size); left <= 0 && left+size > 0 {
		select {
		case a.full <- struct{}{}:
		default:
		}
	}
}

// release lets those go on who waited for records up to seq.
func (a *appender) release(seq uint64, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.queue[:n])
	a.queue = a.queue[n:]
	if len(a.queue) == 0 {
		a.queue = nil // give the memory of a burst back
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
	if a.why != nil {
		a.log.Info("the journal stores again", "stalled", time.Since(a.since).Round(time.Millisecond), "seq", seq)
		a.since, a.why = time.Time{}, nil
	}
}

// recover finds out what the stream holds and gets ready to send the rest again. It returns false
// when the appender was stopped.
func (a *appender) recover(cause error) bool {
	a.timer.Stop()
	for {
		a.fails++
		a.attempt++ // answers to what was sent before no longer count
		a.stall(cause)
		if a.makeRoom() {
			a.fails = healAfter + 1 // there is room now: open the streams again at once
		}
		if a.fails > healAfter {
			if err := a.link.heal(); err != nil {
				a.log.Warn("cannot bring the journal's stream back yet", "err", err)
			}
		}
		if a.fails > 1 {
			select {
			case <-a.stop:
				return false
			case <-time.After(min(backOffMin<<min(a.fails, 16), backOffMax)):
			}
		}
		if cause = a.settle(); cause == nil {
			return true
		}
	}
}

func (a *appender) stall(cause error) {
	// The refusal of one record mostly says only that the one before it is missing.
	if c := a.link.complaint(); c != "" {
		a.grudge = c
	}
	if a.grudge != "" {
		cause = fmt.Errorf("%w (the store says: %s)", cause, a.grudge)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.why == nil {
		a.since = time.Now()
		a.log.Warn("the journal cannot store; it tries again until it can", "err", cause)
	}
	a.why = cause
}

// makeRoom gives the reserve free if it is a full disk that nothing can be stored on.
func (a *appender) makeRoom() bool {
	if a.reserve == nil {
		return false
	}
	_, why := a.stalled()
	return a.reserve.release(why)
}

// settle takes the stream's word for what is stored.
func (a *appender) settle() error {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
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
		return fmt.Errorf("the stream ends at record %d and %d was stored: records are lost, restart the agent to go on from what is left", seq, stored)
	case seq > end:
		return fmt.Errorf("the stream ends at record %d and only %d were written: somebody else writes to the journal", seq, end)
	case seq > stored && !slices.Equal(hash, want):
		return fmt.Errorf("record %d in the stream is not the one that was written: somebody else writes to the journal", seq)
	}
	a.acked = seq
	if err := a.commit(seq); err != nil {
		return err
	}
	a.sent, a.flying = 0, 0
	return nil
}

func (a *appender) stalled() (time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.since, a.why
}

func (a *appender) queued() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queue)
}

// close stops the loop; what is still queued is lost to it.
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
