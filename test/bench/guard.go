package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/journalet/journalet/test/measure"
)

const (
	// guardRounds is how often `make bench-guard` measures each of the two programs.
	guardRounds = 5
	// guardLimit is what a figure may be of the base's. Runs on one machine differ by a tenth.
	guardLimit = 1.15
)

// The agents of `make bench-guard`.
const (
	thisName = "this"
	baseName = "base"
)

// guardRows are what `make bench-guard` compares: figures of the benchmarks of test/load, all of them better if
// smaller. The name of a benchmark is without "Benchmark".
var guardRows = []row{
	{label: "burst of 300 pods: last container started, s", scenario: "BurstBesideObservers/observers=0",
		figure: "s-burst"},
	{label: "kill -9 and start: states of 150 pods served, s", scenario: "Recovery", figure: "s-served"},
	{label: "kill -9 and start: a new pod's container started, s", scenario: "Recovery", figure: "s-new-pod"},
	{label: "exit of a container to its status, p50, ms", scenario: "Exit", figure: "ms-exit"},
	{label: "idle with 150 pods, millicores", scenario: "Idle", figure: "millicores"},
	{label: "RSS after the restart, MiB", scenario: "Recovery", figure: "MiB-RSS"},
	{label: "program, MiB", scenario: "Command", figure: "MiB-program"},
	{label: "journalet version, least of 21, ms", scenario: "Command", figure: "ms-version"},
	{label: "journalet --help, least of 21, ms", scenario: "Command", figure: "ms-help"},
}

// benchmarkLine is the result of a benchmark behind the name of the agent that it measured: "this BenchmarkIdle-2  1
// 2.4 millicores". Go adds the number of CPUs to a name, unless it is 1.
var benchmarkLine = regexp.MustCompile(`^(\w+) Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

// readBenchmarks groups the results of Go benchmarks by agent. Other lines are what benchmarks print besides.
func readBenchmarks(r io.Reader) (*block, error) {
	b := &block{values: map[string][]float64{}}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		m := benchmarkLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		for f := strings.Fields(m[3]); len(f) >= 2; f = f[2:] {
			if x, err := strconv.ParseFloat(f[0], 64); err == nil {
				k := key(m[1], m[2], f[1])
				b.values[k] = append(b.values[k], x)
			}
		}
	}
	return b, lines.Err()
}

// guard compares the two programs' results in a file and prints them side by side. It is an error if a figure is
// larger than the limit allows, or missing.
func guard(path string, w io.Writer) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := readBenchmarks(f)
	if err != nil {
		return err
	}
	if failed := writeGuard(w, b); len(failed) > 0 {
		return fmt.Errorf("bench-guard: %s", strings.Join(failed, "\nbench-guard: "))
	}
	return nil
}

// writeGuard prints a line for each row, and returns what is wrong with the rows that fail.
func writeGuard(w io.Writer, b *block) (failed []string) {
	lines := [][]string{{"figure", thisName, baseName, "ratio", "of the best", "limit", "met"}}
	for _, r := range guardRows {
		r.spread = true
		line := []string{r.label, r.cell(b, thisName), r.cell(b, baseName), "", "", number(guardLimit), "yes"}
		ratio, best, err := ratioOf(b, r)
		switch {
		case err != nil:
			line[6], failed = "MISSING", append(failed, fmt.Sprintf("%s: %v", r.label, err))
		case min(ratio, best) > guardLimit:
			failed = append(failed, fmt.Sprintf("%s: %.2f times the base's, %.2f in the best rounds, at most %.2f", r.label,
				ratio, best, guardLimit))
			line[6] = "MISSED"
		}
		if err == nil {
			line[3], line[4] = fmt.Sprintf("%.2f", ratio), fmt.Sprintf("%.2f", best)
		}
		lines = append(lines, line)
	}
	writeMarkdown(w, lines)
	return failed
}

// ratioOf returns the median of the rounds' ratios, this commit's figure over the base's, and the ratio of the best
// rounds of both. A round measures both at about the same time, so that what neighbours of the machine do for minutes
// is in both. What they do for seconds only makes a figure larger: a program that takes more takes more in its best
// round, too. A round that lacks a figure is an error: nobody knows what it would have been.
func ratioOf(b *block, r row) (ratio, best float64, err error) {
	these, bases := b.values[key(thisName, r.scenario, r.figure)], b.values[key(baseName, r.scenario, r.figure)]
	if len(these) != guardRounds || len(bases) != guardRounds {
		return 0, 0, fmt.Errorf("measured %d times, and %d of the base, want %d: see above what Benchmark%s printed",
			len(these), len(bases), guardRounds, r.scenario)
	}
	var ratios []float64
	for i, x := range these {
		if !(x > 0 && bases[i] > 0) { // nor not a number
			return 0, 0, fmt.Errorf("round %d measured %v, and %v of the base: neither is a figure of a program that ran",
				i+1, x, bases[i])
		}
		ratios = append(ratios, x/bases[i])
	}
	ratio, _ = measure.Median(ratios) // there are rounds
	return ratio, slices.Min(these) / slices.Min(bases), nil
}
