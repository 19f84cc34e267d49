package why

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func eventAt(seq uint64, m proto.Message) Event {
	return Event{Seq: seq, Author: messages.Pod("u"), Body: messages.NewEvent(m)}
}

func TestSearchSeesEachEventWhileItReadsFurtherBack(t *testing.T) {
	l := &podLog{}
	for seq := uint64(10); seq < 15; seq++ {
		l.events = append(l.events, eventAt(seq, &journaletv1.PodStatusChanged{}))
	}
	var seen []uint64
	found := l.last(14, 0, func(e *Event) bool {
		if len(seen) == 0 { // as a search within this one does
			l.events = slices.Concat([]Event{eventAt(7, &journaletv1.PodUpdated{}), eventAt(8, &journaletv1.PodUpdated{})},
				l.events)
		}
		seen = append(seen, e.Seq)
		return e.Seq == 7
	})
	if want := []uint64{13, 12, 11, 10, 8, 7}; !slices.Equal(seen, want) || found == nil || found.Seq != 7 {
		t.Errorf("the search saw the events %v and found %v, want %v", seen, found, want)
	}
}

func TestFailureBeforeAWithdrawnCallIsTheNewest(t *testing.T) {
	const request, cause = 2, 1
	id := messages.DecisionID(1, cause, messages.Pod("u"), 0)
	requested := eventAt(request, messages.NewCall(&journaletv1.StopContainer{Container: "main"}))
	requested.ID = id
	const failed, ok = journaletv1.CallError_CALL_ERROR_RUNTIME, journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	for _, c := range []struct {
		outcomes []journaletv1.CallError
		want     uint64
	}{
		{[]journaletv1.CallError{failed}, 3},
		{[]journaletv1.CallError{failed, journaletv1.CallError_CALL_ERROR_WITHDRAWN}, 3},
		{[]journaletv1.CallError{failed, journaletv1.CallError_CALL_ERROR_NOT_DONE}, 3},
		{[]journaletv1.CallError{failed, failed}, 4},
		{[]journaletv1.CallError{failed, ok, journaletv1.CallError_CALL_ERROR_WITHDRAWN}, 0},
		{[]journaletv1.CallError{journaletv1.CallError_CALL_ERROR_WITHDRAWN}, 0},
	} {
		s := &subject{uid: "u", at: 9, log: &podLog{events: []Event{requested}}}
		for i, code := range c.outcomes {
			s.log.events = append(s.log.events, eventAt(uint64(3+i), &journaletv1.CallFinished{
				IntentId: id, Requester: "pod/u", Error: code}))
		}
		got := uint64(0)
		if e := s.failedCall(func(c *journaletv1.CallRequested) bool { return c.GetStopContainer() != nil }); e != nil {
			got = e.Seq
		}
		if got != c.want {
			t.Errorf("after calls that ended with %v the newest failure is record %d, want %d", c.outcomes, got, c.want)
		}
	}
}
