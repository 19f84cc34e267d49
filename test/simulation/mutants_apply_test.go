package simulation

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

// mutant is a deliberate defect: lines of code that are replaced, the invariant that has to find it, alone, or with ""
// whichever does, and the test that has to, in place of TestNothingBreaksUnderFaults, or a scenario, or a test of a
// package.
type mutant struct {
	name, file, old, new, by, run string
	scenario, pkg                 string // "" if the simulation has to find it; of pkg, its test run does
	seeds                         int    // 0: the usual number
	number                        int    // its place in the list, from 1
}

// apply puts m into code, which has the lines to replace once, and returns the result.
func (m mutant) apply(code string) string { return strings.Replace(code, m.old, m.new, 1) }

func readMutants(t *testing.T) []mutant {
	t.Helper()
	b, err := os.ReadFile("testdata/mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []mutant
	for _, block := range strings.Split(string(b), "\n== ")[1:] {
		name, rest, _ := strings.Cut(block, "\n")
		file, rest, _ := strings.Cut(rest, "\n")
		m := mutant{name: name, file: file, number: len(all) + 1}
		for _, line := range strings.Split(rest, "\n") {
			switch {
			case strings.HasPrefix(line, "-"):
				m.old += line[1:] + "\n"
			case strings.HasPrefix(line, "+"):
				m.new += line[1:] + "\n"
			case strings.HasPrefix(line, runPrefix):
				m.run = strings.TrimPrefix(line, runPrefix)
			case strings.HasPrefix(line, scenarioPrefix):
				m.scenario = strings.TrimPrefix(line, scenarioPrefix)
				_, err := os.Stat("../scenario/testdata/" + m.scenario + ".txt")
				must.OK(t, err)
			case strings.HasPrefix(line, pkgPrefix):
				m.pkg = filepath.Join("../..", strings.TrimPrefix(line, pkgPrefix))
				_, err := os.Stat(m.pkg)
				must.OK(t, err)
			case strings.HasPrefix(line, seedsPrefix):
				n, err := strconv.Atoi(strings.TrimPrefix(line, seedsPrefix))
				must.OK(t, err)
				m.seeds = n
			case strings.HasPrefix(line, byPrefix):
				m.by = strings.TrimPrefix(line, byPrefix)
				mustBeInvariant(t, m)
			}
		}
		all = append(all, m)
	}
	return all
}

// byPrefix begins a line of mutants.txt that names an invariant.
const byPrefix = "by: "

// runPrefix begins a line that names a test.
const runPrefix = "run: "

// scenarioPrefix begins a line that names a file of scenarios: a defect that takes so many things at once that no seed
// has them.
const scenarioPrefix = "scenario: "

// pkgPrefix begins a line that names the package whose test, named by run:, has to find a mutant that neither a seed
// nor a scenario finds.
const pkgPrefix = "package: "

// seedsPrefix begins a line with the number of seeds of a mutant that is found within, where the usual number is too
// small: what it needs is rare in the plans of all.
const seedsPrefix = "seeds: "

// mustBeInvariant fails the test if no constant of this package has the text of the invariant that m names.
func mustBeInvariant(t *testing.T, m mutant) {
	t.Helper()
	files, err := filepath.Glob("judge*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if code, err := os.ReadFile(file); err == nil && strings.Contains(string(code), fmt.Sprintf("= %q\n", m.by)) {
			return
		}
	}
	t.Fatalf("%s: no invariant %q", m.name, m.by)
}

// TestEveryMutantApplies: a change of the code that a mutant replaces has to change the mutant too. That the simulation
// finds each is what `make mutants` tests.
func TestEveryMutantApplies(t *testing.T) {
	all := readMutants(t)
	if len(all) < 100 {
		t.Fatalf("only %d mutants could be read", len(all))
	}
	for _, m := range all {
		if n := strings.Count(readCode(t, m.file), m.old); n != 1 {
			t.Errorf("%s: the lines to replace occur %d times in %s, want 1:\n%s", m.name, n, m.file, m.old)
		}
	}
	if !t.Failed() {
		compiles(t, all)
	}
}
