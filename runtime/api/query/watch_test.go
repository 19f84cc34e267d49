package query

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/test/must"
)

// follower collects the events of a watch.
type follower struct {
	seen   chan string
	err    chan error
	cancel context.CancelFunc
}

func follow(t *testing.T, c *Client, q WatchRequest) *follower {
	ctx, cancel := context.WithCancel(context.Background()) // as a command's: without a deadline
	t.Cleanup(cancel)
	f := &follower{seen: make(chan string, 10_000), err: make(chan error, 1), cancel: cancel}
	q.Follow = true
	go func() {
		f.err <- c.Watch(ctx, q, func(e messages.Flat) error {
			f.seen <- fmt.Sprintf("%d.%d", e.Seq, e.Index)
			return nil
		})
	}()
	return f
}

// want waits for exactly these events, in order.
func (f *follower) want(t *testing.T, want ...string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for _, w := range want {
		select {
		case got := <-f.seen:
			if got != w {
				t.Fatalf("saw %s, want %s", got, w)
			}
		case err := <-f.err:
			t.Fatalf("the watch ended before %s: %v", w, err)
		case <-deadline:
			t.Fatalf("%s was not seen", w)
		}
	}
}

func appendSteps(w *testAgent, from, to int) []string {
	var want []string
	for i := from; i <= to; i++ {
		w.step(messages.Pod("u1"), i, uint64(i-1), startCall(uint32(i)), timerSet("t"))
		want = append(want, fmt.Sprintf("%d.0", i), fmt.Sprintf("%d.1", i))
	}
	return want
}

func TestWatchShowsPastThenLiveEventsOnceEach(t *testing.T) {
	w := newTestAgent(t)
	want := appendSteps(w, 1, 600) // more than a page
	f := follow(t, w.client(t), WatchRequest{From: 1})
	want = append(want, appendSteps(w, 601, 1200)...) // while the past is being read
	f.want(t, want...)
	f.want(t, appendSteps(w, 1201, 1300)...)
	f.cancel()
	if err := <-f.err; !errors.Is(err, context.Canceled) {
		t.Fatalf("the watch ended with %v", err)
	}
}

func TestWatchWithoutFollowEndsAtTheJournalsEnd(t *testing.T) {
	w := newTestAgent(t)
	want := appendSteps(w, 1, 20)
	w.flush(t)
	n := 0
	err := w.client(t).Watch(testContext(t), WatchRequest{All: true}, func(e messages.Flat) error {
		if got := fmt.Sprintf("%d.%d", e.Seq, e.Index); got != want[n] {
			t.Fatalf("saw %s, want %s", got, want[n])
		}
		n++
		return nil
	})
	if err != nil || n != len(want) {
		t.Fatalf("saw %d of %d, %v", n, len(want), err)
	}
}

func TestWatchFromARecordThatIsNotThereSaysSo(t *testing.T) {
	w := newTestAgent(t)
	appendSteps(w, 1, 20)
	w.flush(t)
	var notices []string
	q := WatchRequest{From: 1000, Notice: func(s string) { notices = append(notices, s) }}
	err := w.client(t).Watch(testContext(t), q, func(e messages.Flat) error {
		return fmt.Errorf("saw %d.%d", e.Seq, e.Index)
	})
	if want := "the journal ends at record 20: there is no record 1000"; err != nil || len(notices) != 1 ||
		!strings.HasPrefix(notices[0], want) {
		t.Errorf("%v, %q; want %q", err, notices, want)
	}
}

func TestWatchContinuesAfterAnAgentRestartWithoutGapOrRepeat(t *testing.T) {
	w := newTestAgent(t)
	c := w.client(t, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0))
	f := follow(t, c, WatchRequest{From: 1})
	f.want(t, appendSteps(w, 1, 50)...)
	w.end(t)
	w.start(t)
	want := appendSteps(w, 51, 100) // some of them before the observer reconnects
	w.flush(t)
	f.want(t, want...)
	f.want(t, appendSteps(w, 101, 110)...)
}

func TestGapInLiveEventsIsReadFromTheJournal(t *testing.T) {
	w := newTestAgent(t)
	appendSteps(w, 1, 9)
	w.flush(t)
	var got []string
	x := &watcher{c: w.client(t), resync: make(chan struct{}, 1), done: position{3, 0}, f: func(e messages.Flat) error {
		got = append(got, fmt.Sprintf("%d.%d", e.Seq, e.Index))
		return nil
	}}
	rec, err := w.bus.Journal().Get(testContext(t), 5)
	must.OK(t, err)
	live := messages.Flatten(testNode, rec)[1]
	b := fmt.Appendf(nil, `{"seq":%d,"id":%q,"author":%q,"event":%q,"data":{}}`, live.Seq, live.ID,
		live.Author, live.Event)
	must.OK(t, x.take(testContext(t), &nats.Msg{Data: b}))
	want := "[3.1 4.0 4.1 5.0 5.1 6.0 6.1 7.0 7.1 8.0 8.1 9.0 9.1]"
	if fmt.Sprint(got) != want || x.done.before(position{9, 1}) {
		t.Fatalf("saw %v up to %v, want %s", got, x.done, want)
	}
	if err := x.take(testContext(t), &nats.Msg{Data: b}); err != nil || len(got) != 13 {
		t.Fatalf("an event was shown twice: %v, %v", got, err)
	}
}

func TestWatchFiltersLiveAndPastEventsAlike(t *testing.T) {
	w := newTestAgent(t)
	w.step(messages.Source(messages.FileSource), 1, 0, added("u1", "default", "web"), added("u2", "default", "api"))
	w.step(messages.Pod("u2"), 2, 1, startCall(0))
	w.flush(t)
	f := follow(t, w.client(t), WatchRequest{From: 1, Filter: history.Filter{Pods: []string{"web"}}})
	f.want(t, "1.0")
	w.step(messages.Pod("u2"), 3, 2, startCall(1))
	w.step(messages.Pod("u1"), 4, 1, startCall(0))
	w.step(messages.Image, 5, 4, imagePullDecided("u2"), imagePullDecided("u1"))
	f.want(t, "4.0", "5.1")
}

func TestWatchOfACauseBeginsThereAndContinuesWithLiveEvents(t *testing.T) {
	w := newTestAgent(t)
	appendSteps(w, 1, 3)
	w.step(messages.Image, 4, 0, imagePullDecided("u1"))
	w.flush(t)
	f := follow(t, w.client(t), WatchRequest{Filter: history.Filter{Cause: 2, Quiet: true}})
	f.want(t, "2.0", "3.0")
	w.step(messages.Pod("u1"), 5, 3, startCall(5), timerSet("t"))
	w.step(messages.Pod("u1"), 6, 4, startCall(6)) // of another cause
	w.fact(messages.Pod("u1"), 7, callResult(messages.DecisionID(1, 3, messages.Pod("u1"), 0), "pod/u1", 0, ""))
	w.step(messages.Pod("u1"), 8, 7, startCall(7))
	f.want(t, "5.0", "7.0", "8.0")
}

func TestWatchFromNowOnSkipsThePast(t *testing.T) {
	w := newTestAgent(t)
	appendSteps(w, 1, 5)
	w.flush(t)
	x := &watcher{c: w.client(t)}
	if err := x.begin(testContext(t)); err != nil || x.done.seq != 5 {
		t.Fatalf("begins after %v, %v", x.done, err)
	}
	x.q.Since = at(3)
	if err := x.begin(testContext(t)); err != nil || x.done.seq != 2 {
		t.Fatalf("since the third second it begins after %v, %v", x.done, err)
	}
}

func TestWatchReadsFromTheJournalWhatTheAgentDidNotSend(t *testing.T) {
	w := newTestAgent(t)
	f := follow(t, w.client(t), WatchRequest{From: 1})
	f.want(t, appendSteps(w, 1, 5)...)
	w.mute.Store(true)
	missed := appendSteps(w, 6, 700)
	w.flush(t)
	notice := fmt.Appendf(nil, `{"seq":700,"author":"agent/0","event":%q,"data":{"from":6,"to":700}}`, bus.EventsMissed)
	must.OK(t, w.bus.Services().Publish(messages.EventSubject(testNode, messages.Agent, bus.EventsMissed), notice))
	f.want(t, missed...)
	w.mute.Store(false)
	f.want(t, appendSteps(w, 701, 710)...)
}
