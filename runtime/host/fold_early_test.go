package host

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Journals hold timers that fired in a run before its start was recorded. No actor heard of them, so the steps that follow
// name the record before; a fold that hands them over finds the order broken and has the actor handle everything since again.
func TestWhatARunRecordedBeforeItsStartWasHeardByNobody(t *testing.T) {
	f := newFold(AllDeciders, nil)
	f.bear(messages.Runtime)
	seq := uint64(0)
	record := func(epoch uint64, actor messages.Ref, e *journaletv1.Event) {
		seq++
		f.record(&journaletv1.Record{
			Seq: seq, Epoch: epoch, Time: timestamppb.Now(), Actor: actor.Proto(), Body: &journaletv1.Record_Fact{Fact: e},
		})
	}
	starts := func(epoch uint64) {
		record(epoch, messages.Agent, &journaletv1.Event{Kind: &journaletv1.Event_AgentStarted{AgentStarted: &journaletv1.AgentStarted{Epoch: epoch}}})
	}
	fires := func(epoch uint64) {
		record(epoch, messages.Runtime, &journaletv1.Event{Kind: &journaletv1.Event_TimerFired{TimerFired: &journaletv1.TimerFired{Name: "t"}}})
	}
	starts(1)
	fires(1)
	fires(2)
	starts(2)
	fires(2)
	var heard []uint64
	for _, d := range f.open[messages.Runtime] {
		heard = append(heard, d.rec.GetSeq())
	}
	if want := []uint64{1, 2, 4, 5}; len(heard) != len(want) || heard[2] != 4 {
		t.Fatalf("heard are the records %v, want %v", heard, want)
	}
}
