package history

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func TestMomentIsANumberATimeOrADurationBeforeTheEnd(t *testing.T) {
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	m := &Memory{}
	for i := range 10 { // records 5 to 14, a minute apart
		m.Records = append(m.Records, &journaletv1.Record{
			Seq: uint64(5 + i), Time: timestamppb.New(begin.Add(time.Duration(i) * time.Minute)), Actor: messages.Agent.Proto(),
		})
	}
	for s, want := range map[string]uint64{
		"7": 7, "0s": 14, "2m": 12, "90s": 13, "1h": 5, "2026-01-01T12:03:00Z": 8, "2026-01-01T13:03:30+01:00": 9,
		"2027-01-01T00:00:00Z": 15,
	} {
		if got, err := ParseMoment(t.Context(), m, s); err != nil || got != want {
			t.Errorf("%s is record %d, want %d: %v", s, got, want, err)
		}
	}
	for _, s := range []string{"", "yesterday", "-5m", "-1", "12:00"} {
		if got, err := ParseMoment(t.Context(), m, s); err == nil {
			t.Errorf("%q is record %d", s, got)
		}
	}
	if seq, err := SeqAt(t.Context(), &Memory{}, begin); err != nil || seq != 1 {
		t.Errorf("in an empty journal it is record %d: %v", seq, err)
	}
}
