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

// comparer compares one kind of decision of both sides.
type comparer struct {
	// name begins the keys of its differences.
	name string
	// share is the percentage of the requested cases that it runs.
	share int
	// generate returns a case, as YAML.
	generate func(*pods.Generator) string
	// compare compares one case, testCase.text. It must accept any text that parses, because shrinking removes parts.
	compare func(*testCase)
	// known is the comparer whose known differences it shares; "": its own.
	known string
	// kept returns hand-written cases, by name, which run before the generated ones. May be nil.
	kept func() map[string]string
}

// testCase is one case of one comparer.
type testCase struct {
	name string
	// text is the pod, and its history where that matters, as YAML.
	text  string
	tally *tally
}

// do compares one case. A panic of either side is a difference, too.
func (c comparer) do(t *testCase) {
	defer func() {
		if r := recover(); r != nil {
			first, _, _ := strings.Cut(fmt.Sprint(r), "\n")
			t.tally.add("the comparison fails",
				difference{subject: t.name, shows: t.text, ours: first, theirs: string(debug.Stack())})
		}
	}()
	c.compare(t)
}

// differs compares two values and reports a difference. key names what differs, without names, numbers and values.
func (c *testCase) differs(key string, ours, theirs any) {
	o, t := fmt.Sprint(ours), fmt.Sprint(theirs)
	if o != t {
		c.tally.add(key, difference{subject: c.name, shows: c.text, ours: o, theirs: t})
	}
}

// count adds to a number of the summary, such as "rejected".
func (c *testCase) count(what string) { c.tally.counts[what]++ }

type difference struct{ subject, shows, ours, theirs string }

// tally collects the differences that a comparer found.
type tally struct {
	comparer string
	// known begins the keys of its known differences.
	known  string
	cases  int
	counts map[string]int
	found  map[string][]difference
}

func newTally(c comparer) *tally {
	return &tally{comparer: c.name, known: cmp.Or(c.known, c.name) + ": ", counts: map[string]int{},
		found: map[string][]difference{}}
}

// maxKept bounds the differences of one key that are kept. Only the shortest is reported.
const maxKept = 64

func (t *tally) add(key string, d difference) {
	t.counts["! "+key]++
	if list := t.found[key]; len(list) < maxKept {
		t.found[key] = append(list, d)
	}
}

// summary describes the comparison in one line.
func (t *tally) summary(known map[string]meant) string {
	same, unknown := 0, 0
	for key := range t.found {
		if _, is := known[t.known+key]; is {
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

// unknown returns the differences that are not in known.go, with the shortest case of each.
func (t *tally) unknown(c comparer, known map[string]meant) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(t.found)) {
		if _, is := known[t.known+key]; is {
			continue
		}
		d := t.shortest(c, key)
		out = append(out, fmt.Sprintf("%s: %s (%d times)\n  ours:    %s\n  kubelet: %s\n  case %s:\n%s", t.comparer, key,
			t.counts["! "+key], indent(d.ours), indent(d.theirs), d.subject, indent("    "+d.shows)))
	}
	return out
}

// shortest returns the shortest difference of a key, as short as possible.
func (t *tally) shortest(c comparer, key string) difference {
	size := func(d difference) int { return len(d.shows) + len(d.ours) + len(d.theirs) }
	d := slices.MinFunc(t.found[key], func(a, b difference) int {
		return cmp.Or(cmp.Compare(size(a), size(b)), cmp.Compare(a.shows, b.shows))
	})
	return shrink(c, key, d)
}

// check panics with an error that no case may cause.
func check(what string, err error) {
	if err != nil {
		panic(fmt.Sprintf("%s: %v", what, err))
	}
}

func indent(s string) string {
	return strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ")
}
