package probe

import "testing"

func TestTallyReachesThresholdInARow(t *testing.T) {
	for name, c := range map[string]struct {
		successes, failures int32
		told                verdict
		runs, news          string // + success, - failure; what is news after each run, . for nothing
	}{
		"the first of one":             {1, 1, undecided, "+++---+", "+..-..+"},
		"three failures in a row":      {1, 3, healthy, "--+---+", ".....-+"},
		"two successes in a row":       {2, 1, undecided, "+-++-+", ".-.+-."},
		"a liveness probe begins well": {1, 3, healthy, "++++", "...."},
		"seeded as failed":             {1, 1, unhealthy, "--+", "..+"},
		"a change is told from 1":      {3, 3, healthy, "---", "..-"},
	} {
		t.Run(name, func(t *testing.T) {
			y := tally{successes: c.successes, failures: c.failures, reported: c.told}
			got := ""
			for _, run := range c.runs {
				result, news := y.add(run == '+')
				switch {
				case !news:
					got += "."
				case result == healthy:
					got += "+"
					y.setReported(result)
				default:
					got += "-"
					y.setReported(result)
				}
			}
			if got != c.news {
				t.Errorf("after %s: %s, want %s", c.runs, got, c.news)
			}
		})
	}
}
