package probe

import "testing"

func TestTallyReachesThresholdInARow(t *testing.T) {
	for name, c := range map[string]struct {
		successes, failures int32
		reported            verdict
		runs, changes       string // + success, - failure; the change after each run, . for none
	}{
		"the first of one":                {1, 1, undecided, "+++---+", "+..-..+"},
		"three failures in a row":         {1, 3, healthy, "--+---+", ".....-+"},
		"two successes in a row":          {2, 1, undecided, "+-++-+", ".-.+-."},
		"a liveness probe begins healthy": {1, 3, healthy, "++++", "...."},
		"seeded as failed":                {1, 1, unhealthy, "--+", "..+"},
		"a change after three":            {3, 3, healthy, "---", "..-"},
	} {
		t.Run(name, func(t *testing.T) {
			y := tally{successes: c.successes, failures: c.failures, reported: c.reported}
			got := ""
			for _, run := range c.runs {
				result, changed := y.add(run == '+')
				switch {
				case !changed:
					got += "."
				case result == healthy:
					got += "+"
					y.reported = result
				default:
					got += "-"
					y.reported = result
				}
			}
			if got != c.changes {
				t.Errorf("after %s: %s, want %s", c.runs, got, c.changes)
			}
		})
	}
}
