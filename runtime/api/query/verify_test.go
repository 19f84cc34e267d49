package query

import (
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
)

// All who request a check while one runs share it: many requests cost no more than one.
func TestRequestsJoinTheCheckUnderWay(t *testing.T) {
	w := newTestAgent(t)
	for range 60_000 {
		w.fact(messages.Pod("u1"), 0, observed("u1"))
	}
	w.flush(t)
	c := w.client(t)
	verify := func(q VerifyRequest) (a VerifyResponse) {
		t.Helper()
		must.OK(t, c.request(testContext(t), JournalVerify, q, &a, clientTimeout))
		return a
	}
	first := verify(VerifyRequest{})
	if first.Check != 1 {
		t.Fatalf("the first check is %+v", first)
	}
	for a := first; a.Report == nil; {
		// A request that comes after the end starts another check.
		if b := verify(VerifyRequest{}); b.Check > 2 {
			t.Fatalf("a request while check 1 runs started check %d", b.Check)
		}
		if a = verify(VerifyRequest{Check: 1}); a.Check != 1 {
			t.Fatalf("got check %d", a.Check)
		}
	}
	if a := verify(VerifyRequest{Check: 1}); a.Report == nil || !a.Report.OK() || a.Report.Records != 60_000 {
		t.Fatalf("the report is not kept: %+v", a)
	}
	var a VerifyResponse
	if err := c.request(testContext(t), JournalVerify, VerifyRequest{Check: 99}, &a, clientTimeout); !IsNotFound(err) {
		t.Fatalf("a check that does not exist: %v", err)
	}
}
