package why_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/why"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/recording"
)

const histories = "../../../test/simulation/testdata/histories"

// read returns a recorded run of the simulation.
func read(t testing.TB, path string) *history.Memory {
	t.Helper()
	return &history.Memory{Name: "n1", Records: recording.Records(t, path)}
}

// TestEveryDecisionLeadsToAFactFromOutside follows the chain of every decision of every recorded run.
func TestEveryDecisionLeadsToAFactFromOutside(t *testing.T) {
	all, err := filepath.Glob(histories + "/*.records")
	must.OK(t, err)
	total, longest, kinds := 0, 0, map[why.EndKind]int{}
	for _, path := range all {
		m := read(t, path)
		n, most := followAll(t, filepath.Base(path), m, kinds)
		total, longest = total+n, max(longest, most)
	}
	t.Logf("%d decisions, the longest chain has %d links; ends: %v", total, longest, kinds)
	if total < 2_000 {
		t.Errorf("only %d decisions: too few to show anything", total)
	}
	for kind := range kinds {
		if !kind.Outside() {
			t.Errorf("%d chains end with %q", kinds[kind], kind)
		}
	}
}

// followAll follows the chains of all decisions in a journal, and returns their number and the length of the longest.
func followAll(t testing.TB, where string, m *history.Memory, kinds map[why.EndKind]int) (total, longest int) {
	t.Helper()
	tracer := why.NewTracer(t.Context(), m, math.MaxInt)
	for _, rec := range m.Records {
		for i := range rec.GetStep().GetDecisions() {
			c, err := tracer.Chain(rec.GetSeq(), i)
			must.OK(t, err)
			total, longest = total+1, max(longest, len(c.Events))
			if kinds[c.End.Kind]++; !c.End.Kind.Outside() {
				t.Errorf("%s: %s", where, text(c))
			}
		}
	}
	return total, longest
}

// text is a chain for a failure: the newest event first.
func text(c *why.Chain) string {
	var b strings.Builder
	for i, e := range c.Events {
		fmt.Fprintf(&b, "  %-9s #%d %s %s\n", c.Relations[i], e.Seq, e.Author, e.Body)
		if i > 30 {
			break
		}
	}
	fmt.Fprintf(&b, "  %s #%d: %s", c.End.Kind, c.End.Seq, c.End.Text)
	return b.String()
}

// TestChainStopsWhereRetentionCut cuts the front of runs between the request of a call and its success.
func TestChainStopsWhereRetentionCut(t *testing.T) {
	const every = 40 // cuts are slow: one for so many successes
	all, err := filepath.Glob(histories + "/*.records")
	must.OK(t, err)
	kinds, successes := map[why.EndKind]int{}, 0
	for _, path := range all {
		m := read(t, path)
		for i, rec := range m.Records {
			if f := rec.GetFact().GetCallFinished(); f == nil || f.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
				continue
			}
			if successes++; successes%every == 1 {
				cutAt(t, filepath.Base(path), m.Records[i:], kinds)
			}
		}
	}
	t.Logf("%d successes, ends: %v", successes, kinds)
	if kinds[why.Manifest] == 0 || successes < 2*every {
		t.Errorf("the cuts show nothing: %d successes, ends %v", successes, kinds)
	}
}

// cutAt follows all chains in a journal that begins with the success of a call, which was requested before.
func cutAt(t *testing.T, where string, recs []*journaletv1.Record, kinds map[why.EndKind]int) {
	t.Helper()
	first := recs[0].GetSeq()
	m := &history.Memory{Name: "n1", Records: slices.Clone(recs),
		Sets: map[uint64][]*journaletv1.Snapshot{first - 1: nil}}
	tracer := why.NewTracer(t.Context(), m, math.MaxInt)
	for _, rec := range m.Records {
		for i := range messages.Events(rec) {
			c, err := tracer.Chain(rec.GetSeq(), i)
			must.OK(t, err)
			kinds[c.End.Kind]++
			switch {
			case rec.GetSeq() == first && c.End.Kind != why.Cut:
				t.Errorf("%s: a call requested before record %d leads to %q\n%s", where, first, c.End.Kind, text(c))
			case c.End.Kind.Outside():
			case c.End.Kind != why.Cut:
				t.Errorf("%s: a chain ends with %q\n%s", where, c.End.Kind, text(c))
			case c.End.Seq >= first || c.End.Snapshot != first-1:
				t.Errorf("%s: cut at %d, snapshot %d: the journal begins with %d", where, c.End.Seq, c.End.Snapshot, first)
			}
		}
	}
}
