package query

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/journalet/journalet/messages"
)

// flood asks n times at once and gives what came back: answers, refusals because there were too many, others.
func flood(t *testing.T, w *world, question string, data []byte, n int, meanwhile func()) (answers, refused, others int) {
	t.Helper()
	nc := w.client(t).Conn()
	inbox := nats.NewInbox()
	sub, err := nc.SubscribeSync(inbox + ".*")
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := nc.PublishRequest(Subject(testNode, question), inbox+".x", data); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	meanwhile()
	for answers+refused+others < n {
		m, err := sub.NextMsgWithContext(testContext(t))
		if err != nil {
			t.Fatalf("%d answers, %d refusals, %d others of %d: %v", answers, refused, others, n, err)
		}
		var a VerifyAnswer
		var e *Error
		switch err := answered(m, &a); {
		case errors.As(err, &e) && e.Code == CodeUnavailable && strings.Contains(e.Message, "asked too much"):
			refused++
		case err != nil:
			others++
		case question != JournalVerify || a.Report != nil:
			answers++
		}
	}
	return answers, refused, others
}

// What waits is bounded, and the rest is told so at once.
func TestOfAFloodOfQuestionsABoundedNumberIsAnswered(t *testing.T) {
	w := newWorld(t)
	w.host.addPod(t, "u1", "default", "web")
	w.host.mu.Lock() // no question about pods gets on
	answers, refused, others := flood(t, w, PodsGet, []byte(`{"pod":"u1"}`), 5000, w.host.mu.Unlock)
	if answers < maxWaiting || answers+refused != 5000 || refused < 1000 {
		t.Fatalf("%d answers, %d refused, %d others", answers, refused, others)
	}
	if _, err := w.client(t).Pod(testContext(t), PodRequest{Pod: "u1"}); err != nil {
		t.Fatalf("after the flood: %v", err)
	}
}

func TestAFloodOfVerificationsLeavesNoneToBeDone(t *testing.T) {
	w := newWorld(t)
	for range 20_000 {
		w.fact(messages.Pod("u1"), 0, observed("u1"))
	}
	w.flush(t)
	began := time.Now()
	answers, refused, others := flood(t, w, JournalVerify, nil, 3000, func() {
		for range 100 {
			w.fact(messages.Pod("u1"), 0, observed("u1"))
			w.flush(t) // appends go on
		}
	})
	if answers == 0 || refused < 2000 || others != 0 {
		t.Fatalf("%d answers, %d refused, %d others", answers, refused, others)
	}
	t.Logf("%d verifications of 3000 took %v", answers, time.Since(began))
	if r, err := w.client(t).Verify(testContext(t), nil); err != nil || !r.OK() {
		t.Fatalf("after the flood: %+v, %v", r, err)
	}
}

func TestHugeQuestionsAreNotKept(t *testing.T) {
	w := newWorld(t)
	w.host.mu.Lock()
	answers, refused, others := flood(t, w, PodsGet, make([]byte, 8<<20), 40, func() {})
	w.host.mu.Unlock()
	if others != 40 {
		t.Fatalf("%d answers, %d refused, %d told that they are too large", answers, refused, others)
	}
}
