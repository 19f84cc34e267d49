package simulation

import (
	"slices"
)

// maxShrinkRuns bounds how often a plan is carried out again to make it smaller.
const maxShrinkRuns = 400

// Shrink leaves out of a plan that breaks something whatever it can be left out without: what is left breaks the same
// invariant. It takes away halves, quarters and so on, down to single things.
func Shrink(broken *Result, o Options) *Result {
	best, runs := broken, 0
	for size := max(1, len(best.Plan.Ops)/2); ; size /= 2 {
		for shrunk := true; shrunk; {
			shrunk = false
			for at := 0; at < len(best.Plan.Ops) && runs < maxShrinkRuns; {
				runs++
				if r := Run(best.Plan.without(at, size), o); r.Violation != nil && r.Violation.Invariant == broken.Violation.Invariant {
					best, shrunk = r, true
					continue // what stood behind it stands here now
				}
				at += size
			}
		}
		if size == 1 || runs >= maxShrinkRuns {
			return best
		}
	}
}

// without is the plan without some of its ops.
func (p *Plan) without(at, n int) *Plan {
	q := *p
	q.Ops = slices.Delete(slices.Clone(p.Ops), at, min(at+n, len(p.Ops)))
	return &q
}

// Keep is the plan with nothing but the ops of these numbers.
func (p *Plan) Keep(numbers []int) *Plan {
	q := *p
	q.Ops = slices.DeleteFunc(slices.Clone(p.Ops), func(o Op) bool { return !slices.Contains(numbers, o.N) })
	return &q
}
