package host

import (
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

func TestMailboxThatIsNeverEmptyReclaimsItsSpace(t *testing.T) {
	m := newMailbox()
	for seq := range uint64(100 * mailboxSize) {
		if !m.put(&fold.Delivery{Rec: &journaletv1.Record{Seq: seq + 1}}) {
			t.Fatalf("the mailbox is full at record %d", seq+1)
		}
		// A few always wait.
		if seq < 3 {
			continue
		}
		m.started, m.invoker = true, nil
		if msg, _ := m.next(); msg.(*fold.Delivery).Seq() != seq-2 {
			t.Fatalf("next is record %v, want %d", msg, seq-2)
		}
	}
	if c := cap(m.records); c > 4*mailboxSize {
		t.Errorf("the mailbox has space for %d records, its limit is %d", c, mailboxSize)
	}
}

func TestCurrentInspectionWaitsForTheRecordsBeforeIt(t *testing.T) {
	m := newMailbox()
	record := func(seq uint64) { m.put(&fold.Delivery{Rec: &journaletv1.Record{Seq: seq}}) }
	record(1)
	record(2)
	current, urgent := &inspection{current: true}, &inspection{}
	m.PostUserMessage(current)
	record(3)
	want := func(what any) {
		t.Helper()
		msg, _ := m.next()
		if d, ok := msg.(*fold.Delivery); ok {
			msg = d.Seq()
		}
		if msg != what {
			t.Fatalf("next is %v, want %v", msg, what)
		}
	}
	want(uint64(1))
	want(uint64(2))
	want(current)
	m.PostUserMessage(urgent)
	want(urgent)
	want(uint64(3))
	current.after = 0
	m.PostUserMessage(current)
	want(current)
}
