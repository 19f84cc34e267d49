package fold

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// maxPartBytes bounds the decisions of one record of a step, in bytes; a larger step is stored in parts. A single
// decision may be larger, up to messages.MaxRecordBytes.
const maxPartBytes = messages.MaxRecordBytes / 4

// split returns the records of a step: one, or parts that each hold at most maxPartBytes or a single decision.
func split(ref messages.Ref, cause, after uint64, now time.Time, decisions []*journaletv1.Event) []*journaletv1.Record {
	var recs []*journaletv1.Record
	for offset := 0; offset < len(decisions); {
		end, size := offset, 0
		for end < len(decisions) {
			if size += proto.Size(decisions[end]); end > offset && size > maxPartBytes {
				break
			}
			end++
		}
		recs = append(recs, &journaletv1.Record{
			Time: timestamppb.New(now), Actor: ref.Proto(),
			Body: &journaletv1.Record_Step{Step: &journaletv1.Step{
				Cause: cause, After: after, Decisions: decisions[offset:end:end], Offset: uint32(offset),
				More: end < len(decisions),
			}},
		})
		offset = end
	}
	return recs
}

// Parts joins the parts of a step, which follow each other in the journal. A step whose last part a crash has lost was
// not taken: nobody has received any of it, and its author handles the cause again.
type Parts struct{ first []*journaletv1.Record }

// Join returns the record to be handled: rec itself, with the last part of a step the whole step, and nil for a part
// that others must follow, or that does not follow the ones before.
func (p *Parts) Join(rec *journaletv1.Record) *journaletv1.Record {
	step := rec.GetStep()
	first := p.first
	p.first = nil
	if step.GetOffset() == 0 && !step.GetMore() {
		return rec
	}
	if step.GetOffset() > 0 && !follows(first, rec) {
		return nil
	}
	if step.GetOffset() == 0 {
		first = nil
	}
	first = append(slices.Clip(first), rec)
	if step.GetMore() {
		p.first = first
		return nil
	}
	whole := &journaletv1.Step{Cause: step.GetCause(), After: step.GetAfter()}
	for _, part := range first {
		whole.Decisions = append(whole.Decisions, part.GetStep().GetDecisions()...)
	}
	return &journaletv1.Record{
		Seq: rec.GetSeq(), Epoch: rec.GetEpoch(), Time: rec.GetTime(), Actor: rec.GetActor(),
		PreviousHash: first[0].GetPreviousHash(), Body: &journaletv1.Record_Step{Step: whole},
	}
}

// follows reports whether rec is the next part after these.
func follows(first []*journaletv1.Record, rec *journaletv1.Record) bool {
	if len(first) == 0 {
		return false
	}
	last := first[len(first)-1]
	return last.GetSeq()+1 == rec.GetSeq() && last.GetEpoch() == rec.GetEpoch() &&
		messages.RefOf(last.GetActor()) == messages.RefOf(rec.GetActor()) &&
		last.GetStep().GetCause() == rec.GetStep().GetCause() &&
		int(last.GetStep().GetOffset())+len(last.GetStep().GetDecisions()) == int(rec.GetStep().GetOffset())
}
