//go:build mutants

package simulation

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/journalet/journalet/test/must"
)

var (
	someMutants = flag.Int("mutants", 0, "try only this many of the mutants; 0: all")
	mutantSeeds = flag.Int("mutants.seeds", 500, "how many seeds a mutant has to be found within")
	oneMutant   = flag.String("mutant", "", "try only the mutants whose name contains this")
)

// TestEveryMutantIsFound builds each defect of testdata/mutants.txt into the agent, and has the simulation find it
// within 500 seeds, or as many as the file says, by the invariant that it names, or the scenario that it names. The
// seed that found it on this machine last time is tried first. It ends with a table: the defect, how many seeds it
// took, and the seed and invariant that found it.
func TestEveryMutantIsFound(t *testing.T) {
	all := readMutants(t)
	if *someMutants > 0 {
		// Spread over the list.
		var some []mutant
		for i := range *someMutants {
			some = append(some, all[i*len(all) / *someMutants])
		}
		all = some
	}
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DEFECT\tSEEDS\tAT\tINVARIANT")
	all = slices.DeleteFunc(all, func(m mutant) bool { return !strings.Contains(m.name, *oneMutant) })
	to := buildTogether(t, all)
	most := program(t, ".", to.files)
	scenarios := "" // the program of the scenarios, if a mutant needs it
	if slices.ContainsFunc(all, func(m mutant) bool { return m.scenario != "" }) {
		scenarios = program(t, scenarioDir, to.files)
	}
	last := lastFound()
	for _, m := range all {
		seeds, at, by := "", "", "NOT FOUND"
		t.Run(m.name, func(t *testing.T) {
			alone := slices.ContainsFunc(to.alone, func(a mutant) bool { return a.number == m.number })
			own := map[string]string{m.file: m.apply(readCode(t, m.file))}
			switch {
			case m.pkg != "":
				by = fails(t, program(t, m.pkg, own), m.pkg, m.run, 0)
			case m.scenario != "" && alone:
				by = fails(t, program(t, scenarioDir, own), scenarioDir, "TestScenarios/"+m.scenario, 0)
			case m.scenario != "":
				by = fails(t, scenarios, scenarioDir, "TestScenarios/"+m.scenario, m.number)
			case alone:
				seeds, at, by = m.find(t, program(t, ".", own), 0, last[m.name])
			default:
				seeds, at, by = m.find(t, most, m.number, last[m.name])
			}
		})
		if at != "" {
			last[m.name] = at
			keepFound(t, last)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", m.name, seeds, at, by)
	}
	t.Logf("%d of %d mutants needed a build of their own", len(to.alone), len(all))
	_ = w.Flush()
	t.Logf("\n%s", table.String())
}

var (
	foundBy   = regexp.MustCompile(`seed (\d+): (.*)`)
	seedsDone = regexp.MustCompile(`(\d+) seeds, `)
)

// find has the simulation of a program with the defect, if number says so, find it: by the seed last, if it still does,
// or by the seeds from the first one on. It returns how many seeds it took, and the seed and invariant that found it.
func (m mutant) find(t *testing.T, program string, number int, last string) (seeds, seed, by string) {
	if last != "" {
		if _, _, by, _ := m.simulate(program, number, "-sim.kept=false", "-sim.seeds=1", "-sim.first="+last); by != "" {
			t.Logf("found, by the seed of last time, by %q", by)
			return "last time's", last, by
		}
	}
	within := max(m.seeds, *mutantSeeds)
	seeds, seed, by, err := m.simulate(program, number, fmt.Sprintf("-sim.seeds=%d", within), "-sim.first=1")
	if by == "" {
		t.Errorf("not found within %d seeds: %v", within, err)
		return fmt.Sprint(within), "", "NOT FOUND"
	}
	t.Logf("found, %s seeds, by %q", seeds, by)
	return seeds, seed, by
}

// simulate tries seeds, and returns how many it took, and the seed and invariant that found the defect: "" and the
// output as an error if none did.
func (m mutant) simulate(program string, number int, which ...string) (seeds, seed, by string, err error) {
	cmd := exec.Command(program, append(which, "-test.timeout=1h",
		"-test.run=^"+cmp.Or(m.run, "TestNothingBreaksUnderFaults")+"$", "-sim.stop", "-sim.shrink=false",
		"-sim.clustered", "-sim.claimed", "-sim.attached", "-sim.hostile", "-sim.tenant=30m", "-sim.pressed",
		"-sim.exclusive", "-sim.sized", "-sim.only="+m.by)...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", mutantEnv, number))
	out, err := cmd.CombinedOutput()
	found, done := foundBy.FindSubmatch(out), seedsDone.FindSubmatch(out)
	if err == nil || found == nil || done == nil {
		return "", "", "", fmt.Errorf("%v\n%s", err, tailOf(out))
	}
	return string(done[1]), string(found[1]), string(found[2]), nil
}

// foundPath is the file that keeps the seeds between runs: "" where the user has no cache.
func foundPath() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "journalet", "mutants.json")
}

// lastFound returns, by the name of a mutant, the seed that found it last time.
func lastFound() map[string]string {
	last := map[string]string{}
	if b, err := os.ReadFile(foundPath()); err == nil {
		_ = json.Unmarshal(b, &last) // what cannot be read is searched for
	}
	return last
}

func keepFound(t *testing.T, last map[string]string) {
	t.Helper()
	path := foundPath()
	if path == "" {
		return
	}
	b, err := json.MarshalIndent(last, "", "  ")
	must.OK(t, err)
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o750))
	must.OK(t, os.WriteFile(path, b, 0o600))
}

// scenarioDir is the package of the scenarios.
const scenarioDir = "../scenario"

// fails has a test of a package fail, of a program with the defect that number says, or with its only one.
func fails(t *testing.T, program, pkg, test string, number int) string {
	t.Helper()
	cmd := exec.Command(program, "-test.run=^"+strings.ReplaceAll(test, "/", "$/^")+"$")
	cmd.Dir = pkg
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", mutantEnv, number))
	if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("--- FAIL: "+test+" ")) {
		t.Errorf("%s does not fail: %v\n%s", test, err, tailOf(out))
		return "NOT FOUND"
	}
	t.Logf("found, by %s", test)
	return test
}

// program builds the tests of a package with other files, by path below the repository, and returns its path.
func program(t *testing.T, pkg string, files map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program.test")
	out, err := exec.Command("go", "test", "-c", "-overlay", overlay(t, files), "-o", path, pkg).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, tailOf(out))
	}
	return path
}

// overlay writes files, by path below the repository, and the file that has the go command take them in place of what
// is there, and returns its path.
func overlay(t *testing.T, files map[string]string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	must.OK(t, err)
	dir := t.TempDir()
	replace := map[string]string{}
	for file, code := range files {
		path := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		must.OK(t, os.WriteFile(path, []byte(code), 0o600))
		replace[filepath.Join(root, file)] = path
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	must.OK(t, err)
	path := filepath.Join(dir, "overlay.json")
	must.OK(t, os.WriteFile(path, b, 0o600))
	return path
}

func tailOf(b []byte) []byte { return b[max(0, len(b)-2000):] }
