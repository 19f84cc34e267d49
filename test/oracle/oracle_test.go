package oracle

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/test/oracle/pods"
)

var (
	seed  = flag.Uint64("oracle.seed", 0, "seed of the generated cases; 0: a new one")
	cases = flag.Int("oracle.cases", 1000, "generated cases of a comparer whose share is 100")
	keep  = flag.Bool("oracle.keep", false, "keep a case in testdata of each known difference that none shows")
	only  = flag.String("oracle.only", "", "the only comparer to run")
)

func TestOurDecisionsEqualTheKubelets(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano() % 1_000_000)
	}
	t.Logf("seed %d, %d cases: make oracle SEED=%d CASES=%d repeats this run", *seed, *cases, *seed, *cases)
	shown := map[string]bool{}
	for _, c := range comparers() {
		if *only != "" && *only != c.name {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			tally := newTally(c)
			runKept(c, tally)
			for key := range tally.found {
				shown[tally.known+key] = true
			}
			runGenerated(c, tally)
			t.Log(tally.summary(known))
			for _, text := range tally.unknown(c, known) {
				t.Error(text)
			}
			if *keep {
				must(t, keepKnown(c, tally, shown))
			}
		})
	}
	if *only != "" {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(known)) {
		if !shown[key] {
			t.Errorf("no kept case shows the known difference %q: remove it from known.go and from docs/SCOPE.md, "+
				"or keep a case of it (-oracle.keep)", key)
		}
	}
}

// TestKnownDifferenceIsInScope holds docs/SCOPE.md to known.go.
func TestKnownDifferenceIsInScope(t *testing.T) {
	data, err := os.ReadFile("../../docs/SCOPE.md")
	must(t, err)
	_, text, found := strings.Cut(string(data), "## Differs from the kubelet on purpose")
	text, _, _ = strings.Cut(text, "\n## ")
	if !found {
		t.Fatal("docs/SCOPE.md has no section of differences on purpose")
	}
	for _, key := range slices.Sorted(maps.Keys(known)) {
		if k := known[key]; k.why == "" || k.scope == "" || !strings.Contains(text, "\n| "+k.scope) {
			t.Errorf("the known difference %q has no reason, or docs/SCOPE.md has no row that begins with %q", key, k.scope)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// runKept compares the kept cases of a comparer.
func runKept(c comparer, tally *tally) {
	if c.kept == nil {
		return
	}
	kept := c.kept()
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		c.do(&testCase{name: name, text: kept[name], tally: tally})
		tally.cases++
	}
}

// runGenerated compares generated cases.
func runGenerated(c comparer, tally *tally) {
	for i := range *cases * c.share / 100 {
		number := uint64(i)
		text := c.generate(pods.New(*seed, number))
		c.do(&testCase{name: fmt.Sprintf("%d of seed %d", number, *seed), text: text, tally: tally})
		tally.cases++
	}
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// keepKnown writes the shortest case of each known difference that no kept case shows.
func keepKnown(c comparer, tally *tally, shown map[string]bool) error {
	for _, key := range slices.Sorted(maps.Keys(tally.found)) {
		if _, is := known[tally.known+key]; !is || shown[tally.known+key] {
			continue
		}
		dir := filepath.Join("testdata", c.name)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
		name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(key), "-"), "-") + ".yaml"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(tally.shortest(c, key).shows), 0o600); err != nil {
			return err
		}
		shown[tally.known+key] = true
	}
	return nil
}
