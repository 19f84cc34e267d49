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
	seed  = flag.Uint64("oracle.seed", 0, "seed of the generated cases; 0: a new one")
	cases = flag.Int("oracle.cases", 1000, "generated cases of a comparer whose share is 100")
	only  = flag.String("oracle.only", "", "the only comparer to run")
)

// leastForKnown bounds the cases of a run that checks whether each known difference still occurs.
const leastForKnown = 1000

func TestOurDecisionsEqualTheKubelets(t *testing.T) {
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
			for _, text := range tally.unknown(c, known) {
				t.Error(text)
			}
			for key := range tally.found {
				seen[knownEntry(known, c.name+": "+key)] = true
			}
		})
	}
	if *only != "" || *cases < leastForKnown {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(known)) {
		if !seen[key] {
			t.Errorf("the known difference %q no longer occurs: remove it from known.go and from docs/SCOPE.md", key)
		}
	}
}

// run compares all cases of a comparer.
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
		text := c.generate(pods.New(*seed, number))
		c.do(&testCase{name: fmt.Sprintf("%d of seed %d", number, *seed), text: text, tally: tally})
		tally.cases++
	}
	return tally
}
