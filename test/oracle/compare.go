package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/journalet/journalet/test/oracle/pods"
)

// comparer puts one kind of decision to both sides.
type comparer struct {
	// name is the beginning of the keys of its differences.
	name string
	// share is how many cases it gets of a hundred that are asked for.
	share int
	// make makes a case up, as YAML.
	make func(*pods.Maker) string
	// compare does one case, which it finds in testCase.text. It must take any text that parses: shrinking cuts pieces out.
	compare func(*testCase)
	// kept are hand-kept cases, by name, which are run before the made-up ones. May be nil.
	kept func() map[string]string
}

// testCase is one case of one comparer.
type testCase struct {
	name string
	// text is the pod, and what happened to it where that counts, as YAML.
	text  string
	tally *tally
}

// do compares one case. A side that fails where it should decide is a difference as well.
func (c comparer) do(t *testCase) {
	defer func() {
		if r := recover(); r != nil {
			first, _, _ := strings.Cut(fmt.Sprint(r), "\n")
			t.tally.add("the comparison fails", difference{of: t.name, shows: t.text, ours: first, theirs: string(debug.Stack())})
		}
	}()
	c.compare(t)
}

// differs reports one difference. key says what differs without names, numbers and values; equal values are no difference.
func (c *testCase) differs(key string, ours, theirs any) {
	o, t := fmt.Sprint(ours), fmt.Sprint(theirs)
	if o != t {
		c.tally.add(key, difference{of: c.name, shows: c.text, ours: o, theirs: t})
	}
}

// count adds to a number that is told at the end, as "refused: not carried out".
func (c *testCase) count(what string) { c.tally.counts[what]++ }

type difference struct{ of, shows, ours, theirs string }

// tally gathers what a comparer found.
type tally struct {
	comparer string
	cases    int
	counts   map[string]int
	found    map[string][]difference
}

func newTally(name string) *tally {
	return &tally{comparer: name, counts: map[string]int{}, found: map[string][]difference{}}
}

// maxKept bounds how many differences of one key are kept; only the shortest are of use.
const maxKept = 64

func (t *tally) add(key string, d difference) {
	t.counts["! "+key]++
	if list := t.found[key]; len(list) < maxKept {
		t.found[key] = append(list, d)
	}
}

// summary is one line of what was compared.
func (t *tally) summary(known map[string]string) string {
	same, unknown := 0, 0
	for key := range t.found {
		if entryOf(known, t.comparer+": "+key) != "" {
			same++
		} else {
			unknown++
		}
	}
	text := fmt.Sprintf("%-10s %6d cases; differences: %d known, %d new", t.comparer, t.cases, same, unknown)
	for _, what := range slices.Sorted(maps.Keys(t.counts)) {
		if !strings.HasPrefix(what, "! ") {
			text += fmt.Sprintf("; %s: %d", what, t.counts[what])
		}
	}
	return text
}

// news are the differences that are not known, the shortest example of each.
func (t *tally) news(c comparer, known map[string]string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(t.found)) {
		if entryOf(known, t.comparer+": "+key) != "" {
			continue
		}
		d := slices.MinFunc(t.found[key], func(a, b difference) int {
			return cmp.Or(cmp.Compare(len(a.shows)+len(a.ours)+len(a.theirs), len(b.shows)+len(b.ours)+len(b.theirs)), cmp.Compare(a.shows, b.shows))
		})
		d = shrink(c, key, d)
		out = append(out, fmt.Sprintf("%s: %s (%d times)\n  ours:    %s\n  kubelet: %s\n  case %s:\n%s", t.comparer, key,
			t.counts["! "+key], indent(d.ours), indent(d.theirs), d.of, indent("    "+d.shows)))
	}
	return out
}

// entryOf is the entry of the list that stands for a key: the key itself, or one that ends in * and begins like it.
func entryOf(known map[string]string, key string) string {
	if known[key] != "" {
		return key
	}
	for _, entry := range slices.Sorted(maps.Keys(known)) {
		if begin, all := strings.CutSuffix(entry, "*"); all && strings.HasPrefix(key, begin) {
			return entry
		}
	}
	return ""
}

func indent(s string) string {
	return strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ")
}
