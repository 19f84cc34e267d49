package timeline

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/recording"
)

// recorded returns a recorded run of the simulation: 43 pods under faults, 2143 events.
func recorded(t *testing.T) *history.Memory {
	t.Helper()
	return &history.Memory{
		Name: "n1", Records: recording.Records(t, "../simulation/testdata/histories/seed-112.records"),
	}
}

// many returns a journal of manyEvents events: a recorded run, again and again.
func many(t *testing.T, wanted int) *history.Memory {
	t.Helper()
	once, m, events := recorded(t), &history.Memory{Name: "n1"}, 0
	first, last := once.Records[0], once.Records[len(once.Records)-1]
	lasts := last.GetTime().AsTime().Sub(first.GetTime().AsTime()) + time.Minute
	for k := uint64(0); ; k++ {
		for _, rec := range once.Records {
			rec = later(t, rec, k*last.GetSeq(), time.Duration(k)*lasts)
			m.Records = append(m.Records, rec)
			if events += len(messages.Events(rec)); events >= wanted {
				return m
			}
		}
	}
}

// later returns a record that is a number of records later, with all that it names in the journal.
func later(t *testing.T, rec *journaletv1.Record, seqs uint64, by time.Duration) *journaletv1.Record {
	t.Helper()
	rec, _ = proto.Clone(rec).(*journaletv1.Record)
	rec.Seq += seqs
	rec.Time = timestamppb.New(rec.GetTime().AsTime().Add(by))
	if s := rec.GetStep(); s != nil {
		s.Cause += seqs
	}
	for _, e := range messages.Events(rec) {
		m := e.ProtoReflect().Get(messages.EventField(e)).Message()
		if id := history.Text(m, "intent_id"); id != "" {
			d, err := messages.ParseDecisionID(id)
			must.OK(t, err)
			id = messages.DecisionID(d.Epoch, d.Cause+seqs, d.Author, d.Index)
			m.Set(m.Descriptor().Fields().ByName("intent_id"), protoreflect.ValueOfString(id))
		}
	}
	return rec
}
