package start_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history/start"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/recording"
)

var update = flag.Bool("start.update", false, "write testdata again")

const histories = "../../../test/simulation/testdata/histories"

// fold returns the starts that ended, in the order of their ends, and then the open ones.
func fold(recs []*journaletv1.Record) (out []*start.Start) {
	c := start.NewCollector()
	for _, rec := range recs {
		out = append(out, c.Add(rec)...)
	}
	return append(out, c.Open()...)
}

func text(s *start.Start, end time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s #%d-#%d %s after %v", s.Namespace, s.Name, s.BeginSeq, s.EndSeq, s.Outcome, s.Took(end))
	fmt.Fprintln(&b, strings.TrimRight(" "+s.Reason+" "+s.Message, " "))
	for _, p := range s.Phases {
		fmt.Fprintf(&b, "  +%-14v %-14v %-9s %-22s #%d-#%d %s", p.Begin.Sub(s.Begin), p.Took(end), p.Kind,
			strings.TrimSpace(p.Container+p.Image), p.BeginSeq, p.EndSeq, p.Outcome)
		if waited := p.Waited(end); waited > 0 {
			fmt.Fprintf(&b, " waited %v until #%d", waited, p.DispatchedSeq)
		}
		if p.SplitSeq > 0 {
			fmt.Fprintf(&b, " split by #%d", p.SplitSeq)
		}
		fmt.Fprintln(&b, strings.TrimRight(" "+p.Reason+" "+p.Message, " "))
	}
	return b.String()
}

// TestStartsOfARecordedRun holds the starts of one run under faults to what a person has read in its journal.
func TestStartsOfARecordedRun(t *testing.T) {
	recs := recording.Records(t, filepath.Join(histories, "seed-160.records"))
	end := recs[len(recs)-1].GetTime().AsTime()
	var b strings.Builder
	for _, s := range fold(recs) {
		b.WriteString(text(s, end))
	}
	golden := filepath.Join("testdata", "seed-160.txt")
	if *update {
		must.OK(t, os.WriteFile(golden, []byte(b.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	must.OK(t, err)
	if b.String() != string(want) {
		t.Errorf("other starts than in %s; if they are right, run with -start.update:\n%s", golden, b.String())
	}
}

// TestPhasesLieWithinTheirStart holds for all recorded runs, also if the front of the journal was cut.
func TestPhasesLieWithinTheirStart(t *testing.T) {
	all, err := filepath.Glob(histories + "/*.records")
	must.OK(t, err)
	kinds := map[start.Kind]bool{}
	for _, path := range all {
		recs := recording.Records(t, path)
		for _, cut := range []int{0, len(recs) / 3, len(recs) / 2} {
			for _, s := range fold(recs[cut:]) {
				check(t, filepath.Base(path), s)
				for _, p := range s.Phases {
					kinds[p.Kind] = true
				}
			}
		}
	}
	if len(all) == 0 || len(kinds) < 11 {
		t.Errorf("%d histories with phases of the kinds %v: too few to show anything", len(all), kinds)
	}
}

func check(t *testing.T, where string, s *start.Start) {
	t.Helper()
	if s.Outcome != start.Open && (s.End.Before(s.Begin) || s.EndSeq < s.BeginSeq || s.EndSeq != s.LastSeq) {
		t.Errorf("%s: %s/%s ends at #%d before it begins at #%d, or has records after its end", where, s.Namespace, s.Name,
			s.EndSeq, s.BeginSeq)
	}
	for _, p := range s.Phases {
		ended := p.Outcome != start.Open
		switch {
		case p.BeginSeq < s.BeginSeq || p.BeginSeq > s.LastSeq:
			t.Errorf("%s: %s of %s begins at #%d, outside its start", where, p.Kind, s.Name, p.BeginSeq)
		case ended && (p.EndSeq < p.BeginSeq || p.EndSeq > s.LastSeq || p.End.Before(p.Begin)):
			t.Errorf("%s: %s of %s ends at #%d, outside its start", where, p.Kind, s.Name, p.EndSeq)
		case !ended && s.Outcome != start.Open:
			t.Errorf("%s: %s of %s is open, and its start is not", where, p.Kind, s.Name)
		case ended != (p.EndSeq > 0) || p.Kind == "":
			t.Errorf("%s: %s of %s has the outcome %q and the end #%d", where, p.Kind, s.Name, p.Outcome, p.EndSeq)
		case p.Kind == start.Admission && p.Outcome == start.Done && s.Incarnation == 0:
			t.Errorf("%s: %s was admitted without a request", where, s.Name)
		}
	}
}

// TestStepInPartsCountsWithItsLastPart splits every step of a run, and loses the last part of one.
func TestStepInPartsCountsWithItsLastPart(t *testing.T) {
	recs := recording.Records(t, filepath.Join(histories, "seed-59.records"))
	var parts []*journaletv1.Record
	seq := uint64(0)
	for _, rec := range recs {
		decisions := rec.GetStep().GetDecisions()
		for i := range max(1, len(decisions)) {
			seq++
			part := &journaletv1.Record{
				Seq: seq, Epoch: rec.GetEpoch(), Time: rec.GetTime(), Actor: rec.GetActor(), Body: rec.GetBody(),
			}
			if len(decisions) > 0 {
				part.Body = &journaletv1.Record_Step{Step: &journaletv1.Step{Cause: rec.GetStep().GetCause(),
					Decisions: decisions[i : i+1], Offset: uint32(i), More: i < len(decisions)-1}}
			}
			parts = append(parts, part)
		}
	}
	whole, split := fold(recs), fold(parts)
	if len(whole) != len(split) {
		t.Fatalf("%d starts, and %d of the same steps in parts", len(whole), len(split))
	}
	for i := range whole {
		if len(whole[i].Phases) != len(split[i].Phases) || whole[i].Outcome != split[i].Outcome {
			t.Errorf("%s has %d phases (%q), and %d (%q) in parts", whole[i].Name, len(whole[i].Phases), whole[i].Outcome,
				len(split[i].Phases), split[i].Outcome)
		}
	}
}

func TestCallThatIsGivenUpIsNoFailedPhase(t *testing.T) {
	record := func(seq uint64, actor messages.Ref, fact bool, m proto.Message) *journaletv1.Record {
		rec := &journaletv1.Record{Seq: seq, Epoch: 1, Actor: actor.Proto(), Time: timestamppb.Now()}
		if rec.Body = (&journaletv1.Record_Fact{Fact: messages.NewEvent(m)}); !fact {
			rec.Body = &journaletv1.Record_Step{Step: &journaletv1.Step{
				Cause: seq - 1, Decisions: []*journaletv1.Event{messages.NewEvent(m)}}}
		}
		return rec
	}
	for code, want := range map[journaletv1.CallError]start.Outcome{
		journaletv1.CallError_CALL_ERROR_NOT_DONE:  start.Withdrawn,
		journaletv1.CallError_CALL_ERROR_WITHDRAWN: start.Withdrawn,
		journaletv1.CallError_CALL_ERROR_RUNTIME:   start.Failed,
	} {
		call := messages.NewCall(&journaletv1.RunSandbox{})
		call.PodUid = "u"
		all := fold([]*journaletv1.Record{
			record(1, messages.Source("file"), false, &journaletv1.PodUpdated{
				Operation: journaletv1.PodOperation_POD_OPERATION_ADD, Pod: &journaletv1.PodRef{Uid: "u"}}),
			record(2, messages.Pod("u"), false, call),
			record(3, messages.Pod("u"), true, &journaletv1.CallFinished{
				IntentId: messages.DecisionID(1, 1, messages.Pod("u"), 0), Requester: "pod/u", Error: code}),
		})
		if len(all) != 1 || len(all[0].Phases) == 0 {
			t.Fatalf("the starts are %v", all)
		}
		if p := all[0].Phases[len(all[0].Phases)-1]; p.Outcome != want {
			t.Errorf("the phase %s whose call ended with %s is %q, want %q", p.Kind, code, p.Outcome, want)
		}
	}
}
