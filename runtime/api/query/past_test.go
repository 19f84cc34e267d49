package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/clean"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/strict"
)

// observer connects with the key for events alone.
func (w *testAgent) observer(t *testing.T) *nats.Conn {
	t.Helper()
	nc, err := bus.Listen(testContext(t), w.dir)
	must.OK(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// readPast requests a page as an observer does.
func readPast(ctx context.Context, nc *nats.Conn, q any) (*Page, error) {
	data, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	m, err := nc.RequestWithContext(ctx, Subject(testNode, EventsRead), data)
	if err != nil {
		return nil, err
	}
	page := &Page{}
	return page, decodeResponse(m, page)
}

func TestObserverReadsThePastWithItsOwnKey(t *testing.T) {
	w := newTestAgent(t)
	want := appendSteps(w, 1, 700)
	w.flush(t)
	nc := w.observer(t)
	var got []string
	for q := (ReadRequest{After: &messages.Position{}}); ; {
		page, err := readPast(testContext(t), nc, q)
		must.OK(t, err)
		for _, f := range page.Events {
			got = append(got, fmt.Sprintf("%d.%d", f.Seq, f.Index))
			*q.After = f.Position()
		}
		if page.Next > page.Last {
			break
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("read %d events, want %d: %v", len(got), len(want), got)
	}
	var e *Error
	if _, err := readPast(testContext(t), nc, map[string]any{"kind": "pots"}); !errors.As(err, &e) || e.Code != 400 {
		t.Errorf("a bad request gets %v", err)
	}
	if _, err := readPast(testContext(t), nc, strings.Repeat("x", maxRequest)); !errors.As(err, &e) || e.Code != 400 {
		t.Errorf("a huge request gets %v", err)
	}
}

func TestObserverReadsNoWordsOfContainersIfTheyAreWithheld(t *testing.T) {
	w := newTestAgent(t)
	w.end(t)
	w.withhold = true
	w.start(t)
	w.fact(messages.Pod("u1"), 1, observed("u1", &journaletv1.ContainerObservation{Name: "c", Message: "my words"}))
	w.flush(t)
	page, err := readPast(testContext(t), w.observer(t), ReadRequest{})
	must.OK(t, err)
	if len(page.Events) != 1 || !strings.Contains(string(page.Events[0].Data), clean.Mark) ||
		strings.Contains(string(page.Events[0].Data), "my words") {
		t.Errorf("%+v", page.Events)
	}
	all, err := w.client(t).Read(testContext(t), ReadRequest{})
	must.OK(t, err)
	if len(all.Events) != 1 || !strings.Contains(string(all.Events[0].Data), "my words") {
		t.Errorf("with the key for queries: %+v", all.Events)
	}
}

// A crowd of observers that request as fast as they can gets its share of time, and no one else waits for it: neither
// an append nor a command. An observer beside it gets its turn.
func TestGreedyObserversOfThePastHoldUpNoOne(t *testing.T) {
	w := newTestAgent(t)
	appendSteps(w, 1, 1000)
	w.flush(t)
	done := make(chan struct{})
	const greedy = 20
	ended := make(chan struct{}, greedy)
	for range greedy {
		nc := w.observer(t)
		inbox := nats.NewInbox()
		_, err := nc.Subscribe(inbox, func(*nats.Msg) {})
		must.OK(t, err)
		must.OK(t, nc.Flush()) // the server's first two subscriptions of an account's import race with each other
		go func() {
			defer func() { ended <- struct{}{} }()
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				_ = nc.PublishRequest(Subject(testNode, EventsRead), inbox, []byte(`{"limit":20}`))
				if n%100 == 0 {
					_ = nc.Flush()
				}
			}
		}()
	}
	nc, c := w.observer(t), w.client(t)
	for i := range 3 {
		begun := time.Now()
		appendSteps(w, 1001+i, 1001+i)
		w.flush(t)
		stored := time.Since(begun)
		_, err := c.Info(testContext(t))
		must.OK(t, err)
		t.Logf("a record took %v", stored)
		strict.Within(t, "a record and a command beside greedy observers", time.Since(begun), 5*time.Second)
	}
	// Beside a flood a request may be dropped, or refused: it is repeated.
	for patience := testContext(t); ; {
		ctx, cancel := context.WithTimeout(patience, 2*time.Second)
		page, err := readPast(ctx, nc, ReadRequest{Limit: 1})
		cancel()
		if err == nil && len(page.Events) == 2 {
			break
		}
		if patience.Err() != nil {
			t.Fatalf("an observer beside the greedy ones got %v", err)
		}
	}
	close(done)
	for range greedy {
		<-ended
	}
}

func TestObserversShareIsBounded(t *testing.T) {
	w := newTestAgent(t)
	appendSteps(w, 1, 1000)
	w.flush(t)
	nc := w.observer(t)
	begun := time.Now()
	for range 20 {
		page, err := readPast(testContext(t), nc, ReadRequest{Limit: 200})
		must.OK(t, err)
		if len(page.Events) == 0 {
			t.Fatal("an empty page")
		}
	}
	if least := begun.Add(maxSaved); time.Now().Before(least) {
		t.Errorf("20 pages took %v: no pause between them", time.Since(begun))
	}
}
