package scenario_test

import (
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/journalet/journalet/test/scenario"
)

// TestScenarios plays every file in testdata.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := scenario.New()
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string { return s.Run(d) })
		if err := s.End(); err != nil {
			t.Error(err)
		}
	})
}
