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
	"strings"
	"testing"
	"text/tabwriter"
)

var (
	someMutants = flag.Int("mutants", 0, "try only this many of the mutants; 0: all")
	mutantSeeds = flag.Int("mutants.seeds", 500, "how many seeds a mutant has to be found within")
	oneMutant   = flag.String("mutant", "", "try only the mutants whose name contains this")
)

// TestEveryMutantIsFound builds each defect of testdata/mutants.txt into the agent, and has the simulation find it
// within 500 seeds, or as many as the file says, by the invariant that it names. It ends with a table: the defect,
// how many seeds it took, and the seed and invariant that found it.
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
	for _, m := range all {
		if !strings.Contains(m.name, *oneMutant) {
			continue
		}
		seeds, at, by := "", "", "NOT FOUND"
		t.Run(m.name, func(t *testing.T) { seeds, at, by = m.find(t) })
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", m.name, seeds, at, by)
	}
	_ = w.Flush()
	t.Logf("\n%s", table.String())
}

var (
	foundBy   = regexp.MustCompile(`seed (\d+): (.*)`)
	seedsDone = regexp.MustCompile(`(\d+) seeds, `)
)

// find returns how many seeds it took to find the defect, and the seed and invariant that found it.
func (m mutant) find(t *testing.T) (seeds, seed, by string) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, m.file)
	code, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(code), m.old); n != 1 {
		t.Fatalf("%s: the lines to replace occur %d times, want 1: update testdata/mutants.txt:\n%s", m.file, n, m.old)
	}
	dir := t.TempDir()
	changed := filepath.Join(dir, "changed.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(code), m.old, m.new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	within := max(m.seeds, *mutantSeeds)
	cmd := exec.Command("go", "test", "-overlay", filepath.Join(dir, "overlay.json"), "-count=1", "-run",
		"^"+cmp.Or(m.run, "TestNothingBreaksUnderFaults")+"$",
		".", fmt.Sprintf("-sim.seeds=%d", within), "-sim.first=1", "-sim.stop", "-sim.shrink=false",
		"-sim.clustered", "-sim.hostile", "-sim.tenant=30m", "-sim.pressed", "-sim.exclusive", "-sim.sized",
		"-sim.only="+m.by)
	out, err := cmd.CombinedOutput()
	found, done := foundBy.FindSubmatch(out), seedsDone.FindSubmatch(out)
	if err == nil || found == nil || done == nil {
		t.Errorf("not found within %d seeds: %v\n%s", within, err, tailOf(out))
		return fmt.Sprint(within), "", "NOT FOUND"
	}
	t.Logf("found, %s seeds, by %q", done[1], found[2])
	return string(done[1]), string(found[1]), string(found[2])
}

func tailOf(b []byte) []byte { return b[max(0, len(b)-2000):] }
