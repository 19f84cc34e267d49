package simulation

import (
	"slices"
)

// How often a plan is carried out to shrink it, and how many events of the clock these runs have: a day with a hostile
// tenant takes as long as hundreds of other plans. Records would not bound that: they begin anew with each lost
// journal.
const (
	maxShrinkRuns   = 400
	maxShrinkEvents = 5_000_000
)

// Shrink returns a failed run with every op left out that the same violation does not need. It tries halves, quarters
// and so on, down to single ops.
func Shrink(broken *Result, o Options) *Result {
	best, runs, events := broken, 0, uint64(0)
	over := func() bool { return runs >= maxShrinkRuns || events >= maxShrinkEvents }
	for size := max(1, len(best.Plan.Ops)/2); ; size /= 2 {
		for shrunk := true; shrunk; {
			shrunk = false
			for at := 0; at < len(best.Plan.Ops) && !over(); {
				r := Run(best.Plan.without(at, size), o)
				runs, events = runs+1, events+r.Events
				if r.Violation != nil && r.Violation.Invariant == broken.Violation.Invariant {
					best, shrunk = r, true
					continue // the next ops are at this index now
				}
				at += size
			}
		}
		if size == 1 || over() {
			return best
		}
	}
}

// without returns the plan without n ops from index at on.
func (p *Plan) without(at, n int) *Plan {
	q := *p
	q.Ops = slices.Delete(slices.Clone(p.Ops), at, min(at+n, len(p.Ops)))
	return &q
}

// Keep returns the plan with only the ops of these numbers.
func (p *Plan) Keep(numbers []int) *Plan {
	q := *p
	q.Ops = slices.DeleteFunc(slices.Clone(p.Ops), func(o Op) bool { return !slices.Contains(numbers, o.N) })
	return &q
}
