package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

const nightlyPage = "docs/NIGHTLY.md"

// A night is a nightly run as it is kept in .lab/nightly, so that an interrupted run continues where it stopped.
type night struct {
	mu     sync.Mutex // both lanes add results
	path   string
	order  []string  // the names of all tiers
	ran    []Result  // by this run
	begun  time.Time // this run
	before int       // seconds that earlier runs of this night took

	Commit  string
	Begun   time.Time
	Took    int // seconds of all runs of this night together
	Results []kept
}

// kept is what is kept of a Result.
type kept struct {
	Tier, Word, Note string
	Exit             int
	Seconds          int
	Failed           []string // what failed, a line each
}

// nightly carries out all tiers that this commit's run has not ended yet, and writes the page. Their output goes to the
// log of each tier, since two of them run at once.
func (g *gate) nightly(ctx context.Context, tiers []Tier) int {
	commit, err := commitOf(g.root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		return exitEnvironment
	}
	g.logs = filepath.Join(g.root, ".lab", "nightly", commit)
	n := loadNight(filepath.Join(g.logs, "night.json"), commit)
	for _, t := range nightly(g.pkgs) {
		n.order = append(n.order, t.Name)
	}
	g.keep = filepath.Join(g.logs, "agents")
	if err := os.MkdirAll(g.keep, 0o755); err != nil { //nolint:gosec // below .lab, which others may read
		fmt.Fprintln(os.Stderr, "gate:", err)
		return exitEnvironment
	}
	defer func(out io.Writer) { g.out = out }(g.out)
	g.apart, g.out = true, &lines{out: g.out}
	fmt.Fprintf(g.out, "the output of each tier: %s\n", filepath.Join(g.logs, "TIER.log"))
	known := remember()
	var lanes sync.WaitGroup
	g.lane(ctx, n, known, inLane(tiers, first))
	lanes.Go(func() { g.lane(ctx, n, known, inLane(tiers, waiting)) })
	g.lane(ctx, n, known, inLane(tiers, computing))
	lanes.Wait()
	g.lane(ctx, n, known, inLane(tiers, alone))

	g.report(n.ran)
	var codes []int // of the tries before an interruption too
	for _, k := range n.Results {
		codes = append(codes, k.Exit)
	}
	return exitOf(ctx, codes)
}

// lane carries out tiers one after the other.
func (g *gate) lane(ctx context.Context, n *night, known *memory, tiers []Tier) {
	for _, t := range tiers {
		if ctx.Err() != nil {
			return
		}
		if n.ended(t.Name) {
			fmt.Fprintf(g.out, "=== %s: ended before this run was interrupted\n", t.Name)
			continue
		}
		r := g.unlessSame(ctx, t, known)
		if ctx.Err() != nil {
			return // it is tried again
		}
		if err := g.keepResult(n, r); err != nil {
			fmt.Fprintln(os.Stderr, "gate:", err)
		}
	}
}

// inLane returns the tiers of a lane in their order.
func inLane(tiers []Tier, in lane) []Tier {
	return slices.DeleteFunc(slices.Clone(tiers), func(t Tier) bool { return t.Lane != in })
}

// lines passes what is written to it on, one writer at a time.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(b)
}

// commitOf names what is tried: the commit, and whether files differ from it. The page is no part of what is tried: a
// run that wrote it and was interrupted continues.
func commitOf(root string) (string, error) {
	commit, err := git(root, "describe", "--always", "--abbrev=12")
	if err != nil {
		return "", err
	}
	changed, err := git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!"+nightlyPage)
	if changed != "" {
		commit += "-dirty"
	}
	return commit, err
}

func loadNight(path, commit string) *night {
	n := &night{}
	if b, err := os.ReadFile(path); err != nil || json.Unmarshal(b, n) != nil || n.Commit != commit {
		n = &night{Commit: commit, Begun: time.Now().UTC()}
	}
	n.path, n.begun, n.before = path, time.Now(), n.Took
	return n
}

func (n *night) ended(tier string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.Results, func(k kept) bool { return k.Tier == tier && k.Exit == 0 })
}

// add replaces the result of an earlier try of the same tier, and writes the night.
func (n *night) add(r Result) error {
	k := kept{
		Tier: r.Tier, Word: r.word(), Note: cmp.Or(r.Skipped, r.Left), Exit: r.Exit, Seconds: int(r.Usage.took.Seconds()),
	}
	for _, f := range r.Findings {
		k.Failed = append(k.Failed, strings.TrimSpace(fmt.Sprintf("%s %s: `%s`", f.What, f.Test, f.Repeat)))
	}
	n.ran = append(n.ran, r)
	n.Took = n.before + int(time.Since(n.begun).Seconds())
	n.Results = slices.DeleteFunc(n.Results, func(old kept) bool { return old.Tier == r.Tier })
	n.Results = append(n.Results, k)
	slices.SortStableFunc(n.Results, func(a, b kept) int {
		return slices.Index(n.order, a.Tier) - slices.Index(n.order, b.Tier)
	})
	b, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(n.path, b, 0o600)
}

// resolver is the address of this machine's name server in an error of Go. It is no part of a page for everybody.
var resolver = regexp.MustCompile(` on [0-9a-f.:\[\]]+:53\b`)

// cell returns a text as one of a table, whose lines may be long.
func cell(text string) string {
	return strings.ReplaceAll(resolver.ReplaceAllString(text, ""), "|", `\|`)
}

// keepResult adds the result of a tier to the night and to docs/NIGHTLY.md.
func (g *gate) keepResult(n *night, r Result) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(n.add(r), g.page(n))
}

// page writes docs/NIGHTLY.md.
func (g *gate) page(n *night) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# The last nightly run\n\nWritten by `make nightly`. Commit %s, begun %s, %d CPUs, %s. "+
		"It took %d min; [two lanes](adr/107-a-nightly-run-has-two-lanes.md) of tiers run at once.\n\n",
		n.Commit, n.Begun.Format("2006-01-02 15:04 MST"), runtime.NumCPU(), runtime.Version(), n.Took/60)
	b.WriteString("| tier | result | s | |\n|---|---|---|---|\n")
	for _, k := range n.Results {
		fmt.Fprintf(&b, "| %s | %s | %d | %s |\n", k.Tier, k.Word, k.Seconds, cell(k.Note))
	}
	header := "\n## Failed\n\n| tier | what, and what repeats it |\n|---|---|\n"
	for _, k := range n.Results {
		for _, failed := range k.Failed {
			fmt.Fprintf(&b, "%s| %s | %s |\n", header, k.Tier, cell(failed))
			header = ""
		}
	}
	open, err := g.open.listed()
	if err != nil {
		return err
	}
	b.WriteString("\n## Open seeds\n\n")
	if len(open) == 0 {
		b.WriteString("None.\n")
	} else {
		b.WriteString("| seed, test, commit on which it first failed, invariant |\n|---|\n")
	}
	for _, line := range open {
		fmt.Fprintf(&b, "| %s |\n", cell(line))
	}
	return os.WriteFile(filepath.Join(g.root, nightlyPage), []byte(b.String()), 0o644) //nolint:gosec // a document
}
