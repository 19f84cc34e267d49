package oracle

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/journalet/journalet/test/oracle/pods"
)

var (
	seed  = flag.Uint64("oracle.seed", 0, "seed of the made-up cases; 0: another one each time")
	cases = flag.Int("oracle.cases", 1000, "made-up cases of a comparer whose share is 100")
	only  = flag.String("oracle.only", "", "the one comparer to run")
)

// leastForKnown is how many cases a run needs before it can tell that a known difference occurs no more.
const leastForKnown = 1000

func TestOursDecidesAsTheKubelet(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano() % 1_000_000)
	}
	t.Logf("seed %d, %d cases: make oracle SEED=%d CASES=%d repeats this run", *seed, *cases, *seed, *cases)
	seen := map[string]bool{}
	for _, c := range comparers() {
		if *only != "" && *only != c.name {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			tally := run(c)
			t.Log(tally.summary(known))
			for _, text := range tally.news(c, known) {
				t.Error(text)
			}
			for key := range tally.found {
				seen[entryOf(known, c.name+": "+key)] = true
			}
		})
	}
	if *only != "" || *cases < leastForKnown {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(known)) {
		if !seen[key] {
			t.Errorf("the known difference %q does not occur any more: take it out of known.go and of docs/SCOPE.md", key)
		}
	}
}

// run does all cases of a comparer.
func run(c comparer) *tally {
	tally := newTally(c.name)
	if c.kept != nil {
		kept := c.kept()
		for _, name := range slices.Sorted(maps.Keys(kept)) {
			c.do(&testCase{name: name, text: kept[name], tally: tally})
			tally.cases++
		}
	}
	for i := range *cases * c.share / 100 {
		number := uint64(i)
		text := c.make(pods.New(*seed, number))
		c.do(&testCase{name: fmt.Sprintf("%d of seed %d", number, *seed), text: text, tally: tally})
		tally.cases++
	}
	return tally
}
