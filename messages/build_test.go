package messages

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages/journaletv1"
)

func TestNewEventAndNewCallSetTheFieldOfTheirMessage(t *testing.T) {
	fired := &journaletv1.TimerFired{Name: "t", Generation: 2}
	want := &journaletv1.Event{Kind: &journaletv1.Event_TimerFired{TimerFired: fired}}
	if got := NewEvent(fired); !proto.Equal(got, want) || got.GetTimerFired() != fired {
		t.Errorf("%v, want %v", got, want)
	}
	pull := &journaletv1.PullImage{Image: "i"}
	if got := NewCall(pull); got.GetPullImage() != pull {
		t.Errorf("%v, want a pull of i", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("an event was built of a message that is no kind")
		}
	}()
	NewEvent(pull)
}

func BenchmarkNewEvent(b *testing.B) {
	b.ReportAllocs()
	for range b.N {
		NewEvent(&journaletv1.TimerFired{Name: "t"})
	}
}
