package replay

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/test/must"
)

func TestSessionShowsTheStatesOfStateAt(t *testing.T) {
	compareStates(t, simulated(), 61, func(messages.Ref) bool { return true })
	// Pods with UIDs of their own are forgotten and added again.
	compareStates(t, busy(), 401, func(ref messages.Ref) bool { return strings.HasPrefix(ref.ID, "uid-") })
}

// compareStates compares the states of some actors at every nth record.
func compareStates(t *testing.T, src *history.Memory, n int, some func(messages.Ref) bool) {
	t.Helper()
	s, err := Open(t.Context(), src, Options{})
	must.OK(t, err)
	for i, rec := range src.Records {
		if i%n != 0 {
			continue
		}
		for _, ref := range s.Actors() {
			if !some(ref) {
				continue
			}
			want, missing := StateAt(t.Context(), src, ref, rec.GetSeq())
			got, err := s.State(ref, rec.GetSeq())
			if (err == nil) != (missing == nil) {
				t.Fatalf("%s at %d: %v, want %v", ref, rec.GetSeq(), err, missing)
			}
			if err == nil && (got.Handled != want.Handled || !proto.Equal(got.Message, want.Message)) {
				t.Fatalf("%s at %d differs: %v", ref, rec.GetSeq(), Differences(want.Message, got.Message))
			}
		}
	}
}

func TestSessionStepsThroughTheRecordsOfAnActor(t *testing.T) {
	src := simulated()
	s, err := Open(t.Context(), src, Options{})
	must.OK(t, err)
	var want, got []uint64
	for _, rec := range src.Records {
		author, fact := messages.RefOf(rec.GetActor()), rec.GetFact() != nil
		concerns := author == messages.Image && !fact
		for _, e := range messages.Events(rec) {
			audience, everyone := messages.Audience(author, e)
			concerns = concerns || !everyone && slices.Contains(audience, messages.Image)
		}
		if concerns {
			want = append(want, rec.GetSeq())
		}
	}
	for seq := s.Next(messages.Image, 0); seq != 0; seq = s.Next(messages.Image, seq) {
		got = append(got, seq)
	}
	if len(got) == 0 || !slices.Equal(got, want) {
		t.Fatalf("next: %v, want %v", got, want)
	}
	for i, seq := len(got)-1, s.Previous(messages.Image, 1<<40); i >= 0; i, seq = i-1, s.Previous(messages.Image, seq) {
		if seq != got[i] {
			t.Fatalf("previous is %d, want %d", seq, got[i])
		}
	}
}

func TestSessionFindsTexts(t *testing.T) {
	src := simulated()
	s, err := Open(t.Context(), src, Options{})
	must.OK(t, err)
	first, last := s.Bounds()
	for _, text := range []string{"call_finished", "p1"} {
		seq := s.Search(text, 0, true)
		back := s.Search(text, last+1, false)
		if seq < first || back > last || seq > back || back == 0 {
			t.Errorf("%s is in %d and, from the end, in %d", text, seq, back)
		}
		if again := s.Search(text, seq+1, false); again != seq {
			t.Errorf("%s: back from %d is %d", text, seq+1, again)
		}
	}
	if seq := s.Search("no such text", 0, true); seq != 0 {
		t.Errorf("a text that is not there is in %d", seq)
	}
}

func TestCausesEndAtAFact(t *testing.T) {
	src := simulated()
	s, err := Open(t.Context(), src, Options{})
	must.OK(t, err)
	for _, rec := range src.Records {
		chain, err := s.Causes(rec.GetSeq())
		must.OK(t, err)
		if end := chain[len(chain)-1]; end.GetFact() == nil {
			t.Fatalf("the causes of record %d end at step %d", rec.GetSeq(), end.GetSeq())
		}
	}
}
