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
)

// shakyLink is a stream in memory whose way there and back has faults, by a seed.
type shakyLink struct {
	mu     sync.Mutex
	rng    *rand.Rand
	faults int // how many of a hundred calls fail
	down   bool
	healed int
	stored [][]byte
	late   []func() // publishes that arrive later than they should
	out    chan *nats.Msg
}

func newShakyLink(seed uint64, faults int) *shakyLink {
	return &shakyLink{rng: rand.New(rand.NewPCG(seed, 1)), faults: faults, out: make(chan *nats.Msg, 1<<16)}
}

func (l *shakyLink) fails() bool { return l.rng.IntN(100) < l.faults }

func (l *shakyLink) publish(attempt uint32, seq uint64, _ string, data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down || l.fails() {
		switch l.rng.IntN(3) {
		case 0:
			return errors.New("the connection is gone")
		case 1: // lost on its way
			return nil
		default: // held up, to arrive when nobody waits for it any more
			l.late = append(l.late, func() { l.arrive(attempt, seq, data) })
			return nil
		}
	}
	l.arrive(attempt, seq, data)
	return nil
}

func (l *shakyLink) arrive(attempt uint32, seq uint64, data []byte) {
	answer := fmt.Sprintf(`{"stream":"JOURNAL","seq":%d}`, seq)
	if seq != uint64(len(l.stored))+1 {
		answer = `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence"},"stream":"JOURNAL","seq":0}`
	} else {
		l.stored = append(l.stored, data)
	}
	if l.fails() {
		return // the answer is lost
	}
	l.out <- &nats.Msg{Subject: "_INBOX.x." + strconv.Itoa(int(attempt)) + "." + strconv.FormatUint(seq, 10), Data: []byte(answer)}
}

func (l *shakyLink) acks() <-chan *nats.Msg { return l.out }

func (l *shakyLink) last(context.Context) (uint64, []byte, error) {
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
	// What was held up arrives now: after the question, before what is sent again.
	for _, f := range l.late {
		f()
	}
	l.late = nil
	return uint64(n), hash, nil
}

func (l *shakyLink) force() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down || l.fails() {
		return errors.New("the disk is full")
	}
	return nil
}

func (l *shakyLink) reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.healed++
	if l.healed > 1 {
		l.down = false
	}
	return nil
}

func (l *shakyLink) takeStoreError() string { return "" }

func startAppender(t *testing.T, l link, onStored func([]*journaletv1.Record)) *appender {
	dir := t.TempDir()
	h, err := newHead(dir, &journaletv1.Head{Epoch: 1, Format: messages.JournalFormat})
	if err != nil {
		t.Fatal(err)
	}
	a := newAppender(testNode, 1, 0, nil, l, h, quiet)
	a.timeout = 20 * time.Millisecond
	a.onStored = onStored
	go a.run()
	t.Cleanup(func() { a.close(); h.f.Close() })
	return a
}

// The promise of the appender: whatever fails, what is stored is what was put, in that order, each
// once; and OnStored hears it in that order, each once, and never before it is stored.
func TestFaultsNeitherLoseNorDoubleNorReorder(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(strconv.Itoa(int(seed)), func(t *testing.T) {
			t.Parallel()
			l := newShakyLink(seed, 2)
			var h heard
			a := startAppender(t, l, func(recs []*journaletv1.Record) {
				l.mu.Lock()
				if last := recs[len(recs)-1].GetSeq(); last > uint64(len(l.stored)) {
					t.Errorf("record %d was handed on, and %d are stored", last, len(l.stored))
				}
				l.mu.Unlock()
				h.take(recs)
			})
			const n = 600
			for i := range n {
				if err := a.enqueue(fact(messages.Pod("p"), int64(i))); err != nil {
					t.Fatal(err)
				}
				if i%100 == 99 {
					if err := a.flush(testContext(t)); err != nil {
						t.Fatal(err)
					}
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

func TestAStreamThatIsDownIsHealedAndStallsAreTold(t *testing.T) {
	l := newShakyLink(1, 0)
	l.down = true
	var h heard
	a := startAppender(t, l, h.take)
	if err := a.enqueue(fact(messages.Pod("p"), 0)); err != nil {
		t.Fatal(err)
	}
	for {
		if since, err := a.stalled(); err != nil {
			if since.IsZero() {
				t.Fatal("a stall without a beginning")
			}
			break
		}
		select {
		case <-testContext(t).Done():
			t.Fatal("the stall is not told")
		case <-time.After(time.Millisecond):
		}
	}
	if err := a.flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if since, err := a.stalled(); err != nil || !since.IsZero() {
		t.Fatalf("still stalled: %v since %v", err, since)
	}
	if l.healed < 2 {
		t.Fatalf("healed %d times", l.healed)
	}
	wantSeqs(t, h.seqs(), 1, 1)
}

func TestNewFactsWaitWhileTooManyAreQueued(t *testing.T) {
	l := newShakyLink(1, 0)
	l.mu.Lock() // nothing gets through
	a := startAppender(t, l, nil)
	for i := range MaxQueued {
		if err := a.enqueue(fact(messages.Pod("p"), int64(i))); err != nil {
			t.Fatal(err)
		}
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
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := a.flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if got := a.stored.Load(); got != MaxQueued+2 || a.queued() != 0 {
		t.Fatalf("%d records are stored, %d are queued", got, a.queued())
	}
}

func TestAForeignRecordStopsTheAppenderLoudly(t *testing.T) {
	l := newShakyLink(1, 0)
	l.stored = [][]byte{[]byte("somebody else's")}
	a := startAppender(t, l, func([]*journaletv1.Record) { t.Error("handed on") })
	if err := a.enqueue(fact(messages.Pod("p"), 0)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := a.flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("flush: %v", err)
	}
	if _, err := a.stalled(); err == nil {
		t.Fatal("no word of it")
	}
	a.close()
	if err := a.enqueue(fact(messages.Pod("p"), 0)); !errors.Is(err, errClosed) {
		t.Fatalf("put after the end: %v", err)
	}
}
