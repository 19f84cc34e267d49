package bus

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func TestAFactOfAnyBytesIsStored(t *testing.T) {
	b := openBus(t, busDir(t))
	var got received
	b.Journal().OnStored(got.add)
	fact := func(m proto.Message) *journaletv1.Record {
		return &journaletv1.Record{
			Actor: messages.Pod("p").Proto(), Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(m)},
		}
	}
	start := &journaletv1.SessionStarted{Uid: "p", Container: "main\xff", Client: strings.Repeat("\x1b]0;x\a\xfe", 9000)}
	kept := proto.CloneOf(start)
	must.OK(t, b.Journal().Append(fact(start)))
	long := fact(&journaletv1.CallFinished{Message: "\xff" + strings.Repeat("ü", 1<<21)})
	must.OK(t, b.Journal().AppendFact(testContext(t), long))
	must.OK(t, b.Journal().Flush(testContext(t)))
	if !proto.Equal(start, kept) {
		t.Error("the driver's own fact was changed")
	}
	for i, rec := range got.recs {
		stored, err := b.Journal().Get(testContext(t), rec.GetSeq())
		must.OK(t, err)
		if !proto.Equal(stored, rec) {
			t.Errorf("record %d is delivered as %.300s and stored as %.300s", i+1, rec, stored)
		}
	}
	session := got.recs[0].GetFact().GetSessionStarted()
	if !strings.HasPrefix(session.GetContainer(), "main\ufffd~") || len(session.GetClient()) > 512 ||
		!strings.HasPrefix(session.GetClient(), `\u001b]0;x\u0007`+"\ufffd") {
		t.Errorf("%.300v", session)
	}
	if m := got.recs[1].GetFact().GetCallFinished().GetMessage(); !strings.HasSuffix(m, "ü...") || len(m) > 4<<10 {
		t.Errorf("%d bytes: %.60q", len(m), m)
	}
}

// Its actor has folded it: what is stored must not be something else.
func TestAStepIsStoredAsItWasTakenOrNotAtAll(t *testing.T) {
	b := openBus(t, busDir(t))
	odd := step(messages.Pod("p"), 1, 0)
	odd.GetStep().Decisions = []*journaletv1.Event{messages.NewEvent(&journaletv1.PodTerminating{Message: "\xff"})}
	if err := b.Journal().Append(odd); err == nil {
		t.Error("a step that is not UTF-8 was taken")
	}
	said := step(messages.Pod("p"), 1, 0)
	said.GetStep().Decisions = []*journaletv1.Event{messages.NewEvent(&journaletv1.PodTerminating{Message: "\x1b[2J"})}
	must.OK(t, b.Journal().Append(said))
	must.OK(t, b.Journal().Flush(testContext(t)))
	rec, err := b.Journal().Get(testContext(t), 1)
	must.OK(t, err)
	if m := rec.GetStep().GetDecisions()[0].GetPodTerminating().GetMessage(); m != "\x1b[2J" {
		t.Errorf("stored as %q", m)
	}
}
