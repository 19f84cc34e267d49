package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

const usageText = `usage: go run ./test/gate COMMAND [TIER...]

  test      the tiers that every change has to pass
  nightly   everything there is, with fresh seeds and with times; it continues where it was interrupted
            and writes docs/NIGHTLY.md (ALL=1: also the tiers whose inputs did not change)
  half      the tiers of "test" that a slow machine could fail, with half of one CPU for each CPU of the machine
  list      the tiers, with their exit codes

TIER names the only tiers to run. Exit codes: 0, the tier's own, 75 where a download or a lab failed.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usageText)
		return exitUsage
	}
	g, err := newGate(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		return exitEnvironment
	}
	tiers := map[string]func(*packages) []Tier{"test": landing, "half": timed, "nightly": nightly}
	tiersOf, ok := tiers[args[0]]
	switch {
	case args[0] == "list":
		return list(os.Stdout, g.pkgs)
	case !ok:
		fmt.Fprint(os.Stderr, usageText)
		return exitUsage
	}
	chosen, err := choose(tiersOf(g.pkgs), args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		return exitUsage
	}
	switch args[0] {
	case "nightly":
		return g.nightly(ctx, chosen)
	case "half":
		if err := halve(); err != nil {
			fmt.Fprintln(os.Stderr, "gate:", err)
			return exitEnvironment
		}
		g.logs = filepath.Join(g.logs, "half")
	}
	return g.test(ctx, chosen)
}

func newGate(root string) (*gate, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	pkgs, err := findPackages(root)
	if err != nil {
		return nil, err
	}
	g := &gate{root: root, logs: filepath.Join(root, ".lab", "gate"), out: os.Stdout, pkgs: pkgs, pause: pauseOfTry}
	g.open = &openSeeds{g: g, base: baseOf(root)}
	return g, nil
}

func list(out io.Writer, p *packages) int {
	for _, t := range nightly(p) {
		fmt.Fprintf(out, "%-12s %d\n", t.Name, t.Exit)
	}
	return 0
}

// choose returns the tiers that are named, or all.
func choose(tiers []Tier, names []string) (chosen []Tier, err error) {
	if len(names) == 0 {
		return tiers, nil
	}
	for _, name := range names {
		before := len(chosen)
		for _, t := range tiers {
			if t.Name == name {
				chosen = append(chosen, t)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("no tier %q: go run ./test/gate list", name)
		}
	}
	return chosen, nil
}

// test carries out tiers and ends with what failed.
func (g *gate) test(ctx context.Context, tiers []Tier) int {
	if err := os.MkdirAll(g.logs, 0o755); err != nil { //nolint:gosec // below .lab, which others may read
		fmt.Fprintln(os.Stderr, "gate:", err)
		return exitEnvironment
	}
	g.forgives = true
	known := remember()
	var results []Result
	for _, t := range tiers {
		results = append(results, g.unlessSame(ctx, t, known))
		if t.Name == "provide" && results[0].Exit != 0 {
			break // whatever fails behind it fails for this
		}
	}
	if found := g.open.overdue(); len(found) > 0 {
		results = append(results, Result{Tier: "open seeds", Exit: 13, Findings: found})
	}
	g.report(results)
	var codes []int
	for _, r := range results {
		codes = append(codes, r.Exit)
	}
	return exitOf(ctx, codes)
}

// unlessSame carries out a tier, unless it may be skipped and was green with the same inputs.
func (g *gate) unlessSame(ctx context.Context, t Tier, known *memory) Result {
	digest, err := inputs(g.root, t)
	if t.Skips && err == nil && os.Getenv("ALL") == "" && known.Green[t.Name] == digest {
		fmt.Fprintf(g.out, "\n=== %s: its inputs are those of its last green run (ALL=1 runs it)\n", t.Name)
		return Result{Tier: t.Name, Skipped: "inputs as in its last green run"}
	}
	r := g.carryOut(ctx, t)
	if t.Skips && err == nil && r.Exit == 0 && len(r.Findings) == 0 {
		known.green(t.Name, digest)
	}
	return r
}

// exitOf returns the code of the first tier that failed; a lab or a download that failed counts only if no test did.
func exitOf(ctx context.Context, codes []int) (code int) {
	for _, c := range codes {
		if c != 0 && (code == 0 || code == exitEnvironment) {
			code = c
		}
	}
	if ctx.Err() != nil && code == 0 {
		return exitEnvironment
	}
	return code
}

// report ends the output: the last words of the labs, the tiers, then what failed, the most important last.
func (g *gate) report(results []Result) {
	out := g.out
	var unsteady, failed []string
	for _, r := range results {
		for _, f := range r.Findings {
			if f.Unsteady {
				unsteady = append(unsteady, f.text(r.Tier))
			} else {
				failed = append(failed, f.text(r.Tier))
			}
		}
	}
	if len(failed) > 0 {
		g.labs(out)
	}
	fmt.Fprint(out, "\n")
	for _, r := range results {
		if r.Skipped != "" {
			fmt.Fprintf(out, "%-12s %-5s %s\n", r.Tier, r.word(), r.Skipped)
			continue
		}
		fmt.Fprintf(out, "%-12s %-5s %s\n", r.Tier, r.word(), r.Usage)
	}
	fmt.Fprint(out, "\n")
	for _, text := range unsteady {
		fmt.Fprintf(out, "UNSTEADY, succeeded %d times alone: %s\n", timesAgain, text)
	}
	for _, text := range failed {
		fmt.Fprintln(out, text)
	}
	fmt.Fprintf(out, "%d failed, %d unsteady\n", len(failed), len(unsteady))
}

// labs prints the end of what the containerd of each lab logged.
func (g *gate) labs(out io.Writer) {
	logs, _ := filepath.Glob(filepath.Join(g.root, ".lab", "labs", "*", "containerd.log")) // the pattern is valid
	for _, path := range logs {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // a lab that was taken down meanwhile
		}
		name := filepath.Base(filepath.Dir(path))
		fmt.Fprintf(out, "\nthe lab %s:\n  %s\n", name, strings.Join(tail(string(b), linesOfALab), "\n  "))
	}
}

// linesOfALab is how much of containerd's log the end of the output repeats.
const linesOfALab = 20

func (f Finding) text(tier string) string {
	lines := strings.Join(f.Lines, "\n  ")
	return fmt.Sprintf("%s: %s %s %s\n  %s\n  again: %s\n", tier, f.What, f.Test, f.Package, lines, f.Repeat)
}
