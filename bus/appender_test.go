package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// faultyLink is a stream in memory that loses and delays publishes and acknowledgements, by a seed.
type faultyLink struct {
	mu       sync.Mutex
	rng      *rand.Rand
	faults   int // how many of a hundred calls fail
	down     bool
	reopened int
	stored   [][]byte
	late     []func() // publishes that arrive later than they should
	out      chan *nats.Msg
}

func newFaultyLink(seed uint64, faults int) *faultyLink {
	return &faultyLink{rng: rand.New(rand.NewPCG(seed, 1)), faults: faults, out: make(chan *nats.Msg, 1<<16)}
}

func (l *faultyLink) fails() bool { return l.rng.IntN(100) < l.faults }

func (l *faultyLink) publish(attempt uint32, seq uint64, _ string, data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down || l.fails() {
		switch l.rng.IntN(3) {
		case 0:
			return errors.New("the connection is gone")
		case 1: // lost on its way
			return nil
		default: // delayed until the next call of last
			l.late = append(l.late, func() { l.arrive(attempt, seq, data) })
			return nil
		}
	}
	l.arrive(attempt, seq, data)
	return nil
}

func (l *faultyLink) arrive(attempt uint32, seq uint64, data []byte) {
	ack := fmt.Sprintf(`{"stream":"JOURNAL","seq":%d}`, seq)
	if seq != uint64(len(l.stored))+1 {
		ack = `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence"},"stream":"JOURNAL","seq":0}`
	} else {
		l.stored = append(l.stored, data)
	}
	if l.fails() {
		return // the acknowledgement is lost
	}
	l.out <- &nats.Msg{Subject: "_INBOX.x." + strconv.Itoa(int(attempt)) + "." + strconv.FormatUint(seq, 10),
		Data: []byte(ack)}
}

func (l *faultyLink) acks() <-chan *nats.Msg { return l.out }

func (l *faultyLink) last(context.Context) (uint64, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down || l.fails() {
		return 0, nil, errors.New("no answer")
	}
	n := len(l.stored)
	var hash []byte
	if n > 0 {
		hash = messages.Hash(l.stored[n-1])
	}
	// Delayed publishes arrive now: after the state was read, before records are sent again.
	for _, f := range l.late {
		f()
	}
	l.late = nil
	return uint64(n), hash, nil
}

func (l *faultyLink) force() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down || l.fails() {
		return errors.New("the disk is full")
	}
	return nil
}

func (l *faultyLink) reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reopened++
	if l.reopened > 1 {
		l.down = false
	}
	return nil
}

func (l *faultyLink) takeStoreError() string { return "" }

func startAppender(t *testing.T, l link, onStored func([]*journaletv1.Record)) *appender {
	dir := t.TempDir()
	h, err := newHead(dir, &journaletv1.Head{Epoch: 1, Format: messages.JournalFormat})
	must.OK(t, err)
	a := newAppender(testNode, 1, 0, nil, l, h, quiet)
	a.timeout = 20 * time.Millisecond
	a.onStored = onStored
	go a.run()
	t.Cleanup(func() { a.close(); h.f.Close() })
	return a
}

// Whatever fails, the stream holds what was appended, in that order, each record once. OnStored receives the same, and
// never before it is stored.
func TestFaultsNeitherLoseNorRepeatNorReorderRecords(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(strconv.Itoa(int(seed)), func(t *testing.T) {
			t.Parallel()
			l := newFaultyLink(seed, 2)
			var h received
			a := startAppender(t, l, func(recs []*journaletv1.Record) {
				l.mu.Lock()
				if last := recs[len(recs)-1].GetSeq(); last > uint64(len(l.stored)) {
					t.Errorf("record %d was delivered, and %d are stored", last, len(l.stored))
				}
				l.mu.Unlock()
				h.add(recs)
			})
			const n = 600
			for i := range n {
				must.OK(t, a.enqueue(fact(messages.Pod("p"), int64(i))))
				if i%100 == 99 {
					must.OK(t, a.flush(testContext(t)))
				}
			}
			wantSeqs(t, h.seqs(), 1, n)
			for i, b := range l.stored {
				rec, err := messages.Decode(b)
				if err != nil || rec.GetSeq() != uint64(i+1) || rec.GetTime().GetSeconds() != at(int64(i)).GetSeconds() {
					t.Fatalf("place %d holds %v, %v", i+1, rec, err)
				}
			}
			if hd, err := readHead(filepath.Dir(a.head.f.Name())); err != nil || hd.GetSeq() != n {
				t.Fatalf("head: %v, %v", hd, err)
			}
		})
	}
}

func TestAppenderReopensFailedStreamAndReportsStall(t *testing.T) {
	l := newFaultyLink(1, 0)
	l.down = true
	var h received
	a := startAppender(t, l, h.add)
	must.OK(t, a.enqueue(fact(messages.Pod("p"), 0)))
	waitUntil(t, "the stall is reported", func() bool {
		since, err := a.stalled()
		return err != nil && !since.IsZero()
	})
	must.OK(t, a.flush(testContext(t)))
	if since, err := a.stalled(); err != nil || !since.IsZero() {
		t.Fatalf("still stalled: %v since %v", err, since)
	}
	if l.reopened < 2 {
		t.Fatalf("reopened %d times", l.reopened)
	}
	wantSeqs(t, h.seqs(), 1, 1)
}

func TestFactsWaitWhileQueueIsFull(t *testing.T) {
	l := newFaultyLink(1, 0)
	l.mu.Lock() // nothing gets through
	a := startAppender(t, l, nil)
	for i := range MaxQueued {
		must.OK(t, a.enqueue(fact(messages.Pod("p"), int64(i))))
	}
	if n := a.queued(); n != MaxQueued {
		t.Fatalf("%d are queued", n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := a.enqueueFact(ctx, fact(messages.Pod("p"), 0)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a fact beyond the limit: %v", err)
	}
	if err := a.enqueue(step(messages.Pod("p"), 1, 0)); err != nil { // steps never wait
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.enqueueFact(testContext(t), fact(messages.Pod("p"), 1)) }()
	l.mu.Unlock()
	must.OK(t, <-done)
	must.OK(t, a.flush(testContext(t)))
	if got := a.stored.Load(); got != MaxQueued+2 || a.queued() != 0 {
		t.Fatalf("%d records are stored, %d are queued", got, a.queued())
	}
}

func TestAppenderStallsOnRecordOfAnotherWriter(t *testing.T) {
	l := newFaultyLink(1, 0)
	l.stored = [][]byte{[]byte("another writer's")}
	a := startAppender(t, l, func([]*journaletv1.Record) { t.Error("delivered") })
	must.OK(t, a.enqueue(fact(messages.Pod("p"), 0)))
	waitUntil(t, "the stall is reported", func() bool {
		_, err := a.stalled()
		return err != nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := a.flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("flush: %v", err)
	}
	a.close()
	if err := a.enqueue(fact(messages.Pod("p"), 0)); !errors.Is(err, errClosed) {
		t.Fatalf("append after close: %v", err)
	}
}
