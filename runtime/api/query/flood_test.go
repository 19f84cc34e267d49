package query

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
)

// flood sends n requests at once and returns the numbers of responses, of overload errors, and of other errors.
func flood(t *testing.T, w *testAgent, name string, data []byte, n int, meanwhile func()) (served,
	refused, others int) {
	t.Helper()
	nc := w.client(t).Conn()
	inbox := nats.NewInbox()
	sub, err := nc.SubscribeSync(inbox + ".*")
	must.OK(t, err)
	for range n {
		must.OK(t, nc.PublishRequest(Subject(testNode, name), inbox+".x", data))
	}
	must.OK(t, nc.Flush())
	meanwhile()
	for served+refused+others < n {
		m, err := sub.NextMsgWithContext(testContext(t))
		if err != nil {
			t.Fatalf("%d served, %d refused, %d others of %d: %v", served, refused, others, n, err)
		}
		var a VerifyResponse
		var e *Error
		switch err := decodeResponse(m, &a); {
		case errors.As(err, &e) && e.Code == CodeUnavailable && strings.Contains(e.Message, "overloaded"):
			refused++
		case err != nil:
			others++
		default:
			served++
		}
	}
	return served, refused, others
}

func TestFloodOfRequestsIsServedUpToABound(t *testing.T) {
	w := newTestAgent(t)
	w.host.addPod(t, "u1", "default", "web")
	w.host.mu.Lock() // blocks requests for pods
	served, refused, others := flood(t, w, PodsGet, []byte(`{"pod":"u1"}`), 5000, w.host.mu.Unlock)
	if served < maxQueued || served+refused != 5000 || refused < 1000 {
		t.Fatalf("%d served, %d refused, %d others", served, refused, others)
	}
	if _, err := w.client(t).Pod(testContext(t), PodRequest{Pod: "u1"}); err != nil {
		t.Fatalf("after the flood: %v", err)
	}
}

func TestFloodOfVerificationsLeavesNoBacklog(t *testing.T) {
	w := newTestAgent(t)
	for range 20_000 {
		w.fact(messages.Pod("u1"), 0, observed("u1"))
	}
	w.flush(t)
	began := time.Now()
	served, refused, others := flood(t, w, JournalVerify, nil, 3000, func() {
		for range 100 {
			w.fact(messages.Pod("u1"), 0, observed("u1"))
			w.flush(t) // appends continue
		}
	})
	if served == 0 || refused < 2000 || others != 0 {
		t.Fatalf("%d served, %d refused, %d others", served, refused, others)
	}
	t.Logf("%d verifications of 3000 took %v", served, time.Since(began))
	if r, err := w.client(t).Verify(testContext(t), nil); err != nil || !r.OK() {
		t.Fatalf("after the flood: %+v, %v", r, err)
	}
}

func TestLargeRequestsAreNotQueued(t *testing.T) {
	w := newTestAgent(t)
	w.host.mu.Lock()
	served, refused, others := flood(t, w, PodsGet, make([]byte, maxRequest+1), 40, func() {})
	w.host.mu.Unlock()
	if others != 40 {
		t.Fatalf("%d served, %d refused, %d too large", served, refused, others)
	}
	err := w.client(t).request(testContext(t), PodsGet, PodRequest{Pod: strings.Repeat("x", 1<<20)}, nil, clientTimeout)
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeBadRequest {
		t.Errorf("a huge request: %v", err)
	}
}
