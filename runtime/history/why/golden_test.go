package why_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/journalet/journalet/runtime/history/why"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/scenario"
)

func TestX(t *testing.T) {
	s := scenario.New()
	datadriven.RunTest(t, "../../../test/stories/testdata/crash_loop.txt", func(t *testing.T, d *datadriven.TestData) string {
		return s.Run(d)
	})
	m, err := s.Journal()
	must.OK(t, err)
	for _, rec := range m.Records {
		a, err := why.Ask(t.Context(), m, why.Question{Seq: rec.GetSeq()})
		must.OK(t, err)
		for _, l := range a.Text(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
			t.Log(l.Text)
		}
	}
}
