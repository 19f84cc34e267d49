package main

import (
	"fmt"
	"strings"
	"testing"
)

// rounds returns the output of five rounds. It has 10 for each figure of the base, and for this commit what ours
// returns, by row and round; "" leaves the figure out.
func rounds(ours func(r row, round int) string) string {
	var out strings.Builder
	for i := range guardRounds {
		for _, name := range []string{thisName, baseName} {
			fmt.Fprintf(&out, "%s goos: linux\n%s cpu: a machine\n", name, name)
			for _, r := range guardRows {
				x := "10"
				if name == thisName {
					x = ours(r, i)
				}
				if x != "" {
					fmt.Fprintf(&out, "%s Benchmark%s-2         \t       1\t         0 ns/op\t %s %s\t        99 other\n",
						name, r.scenario, x, r.figure)
				}
			}
		}
	}
	return out.String()
}

// guarded returns the table's cells by label, and what fails.
func guarded(t *testing.T, results string) (map[string][]string, []string) {
	t.Helper()
	b, err := readBenchmarks(strings.NewReader(results))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	failed := writeGuard(&out, b)
	cells := map[string][]string{}
	for line := range strings.Lines(out.String()) {
		f := strings.Split(strings.Trim(line, "|\n"), "|")
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		cells[f[0]] = f[1:]
	}
	return cells, failed
}

func TestGuardTakesTheMedianOfTheRoundsRatios(t *testing.T) {
	// In two rounds something else kept the machine busy, and the figures are in no order.
	inTurn := []string{"30", "11", "9", "11.4", "40"}
	cells, failed := guarded(t, rounds(func(_ row, i int) string { return inTurn[i] }))
	if len(failed) != 0 {
		t.Errorf("failed: %q", failed)
	}
	for _, r := range guardRows {
		wantCells(t, r.label, cells[r.label], "11.4 (9 to 40)", "10 (10 to 10)", "1.14", "0.90", "1.15", "yes")
	}
}

func TestGuardPairsTheFiguresOfARound(t *testing.T) {
	// Both slow down together. Of the medians alone, 5 to 4, the ratio would be 1.25.
	var out strings.Builder
	for i, this := range []float64{2, 4, 5, 8, 16} {
		for name, x := range map[string]float64{thisName: this, baseName: []float64{2, 4, 10, 8, 1}[i]} {
			fmt.Fprintf(&out, "%s BenchmarkIdle 1 %g millicores\n", name, x)
		}
	}
	cells, _ := guarded(t, out.String())
	wantCells(t, "idle", cells["idle with 150 pods, millicores"], "5 (2 to 16)", "4 (1 to 10)", "1.00", "2.00", "1.15",
		"yes")
}

// Something else was there in most rounds of this commit, and in none of the base.
func TestGuardPassesWhatIsAsGoodInItsBestRound(t *testing.T) {
	inTurn := []string{"12", "15", "11", "14", "12"}
	cells, failed := guarded(t, rounds(func(_ row, i int) string { return inTurn[i] }))
	if len(failed) != 0 {
		t.Errorf("failed: %q", failed)
	}
	for _, r := range guardRows {
		wantCells(t, r.label, cells[r.label], "12 (11 to 15)", "10 (10 to 10)", "1.20", "1.10", "1.15", "yes")
	}
}

func TestGuardNamesTheRowThatFails(t *testing.T) {
	slow := guardRows[4]
	cells, failed := guarded(t, rounds(func(r row, _ int) string {
		if r.label == slow.label {
			return "11.6"
		}
		return "11.5"
	}))
	want := slow.label + ": 1.16 times the base's, 1.16 in the best rounds, at most 1.15"
	if len(failed) != 1 || failed[0] != want {
		t.Errorf("failed: %q, want %q", failed, want)
	}
	wantCells(t, slow.label, cells[slow.label], "11.6 (11.6 to 11.6)", "10 (10 to 10)", "1.16", "1.16", "1.15", "MISSED")
}

func TestFigureThatIsMissingFailsTheGuard(t *testing.T) {
	for name, missing := range map[string]string{"left out": "", "zero": "0", "none": "NaN"} {
		for _, guardRow := range guardRows {
			_, failed := guarded(t, rounds(func(r row, i int) string {
				if r.label == guardRow.label && i == 3 {
					return missing
				}
				return "10"
			}))
			if len(failed) != 1 || !strings.HasPrefix(failed[0], guardRow.label+": ") {
				t.Errorf("%s in one round: %s: failed: %q", guardRow.label, name, failed)
			}
		}
	}
	if _, failed := guarded(t, ""); len(failed) != len(guardRows) {
		t.Errorf("nothing was measured, and only %d of %d rows fail", len(failed), len(guardRows))
	}
}
