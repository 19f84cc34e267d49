package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

const nightlyPage = "docs/NIGHTLY.md"

// A night is a nightly run as it is kept in .lab/nightly, so that an interrupted run continues where it stopped.
type night struct {
	path    string
	Commit  string
	Begun   time.Time
	Results []kept
}

// kept is what is kept of a Result.
type kept struct {
	Tier, Word, Note string
	Exit             int
	Seconds          int
	Failed           []string // what failed, a line each
}

// nightly carries out all tiers that this commit's run has not ended yet, and writes the page.
func (g *gate) nightly(ctx context.Context, tiers []Tier) int {
	commit, err := commitOf(g.root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		return exitEnvironment
	}
	g.logs = filepath.Join(g.root, ".lab", "nightly", commit)
	n := loadNight(filepath.Join(g.logs, "night.json"), commit)
	g.keep = filepath.Join(g.logs, "agents")
	if err := os.MkdirAll(g.keep, 0o755); err != nil { //nolint:gosec // below .lab, which others may read
		fmt.Fprintln(os.Stderr, "gate:", err)
		return exitEnvironment
	}
	known := remember()
	var results []Result
	for _, t := range tiers {
		if n.ended(t.Name) {
			fmt.Fprintf(g.out, "\n=== %s: ended before this run was interrupted\n", t.Name)
			continue
		}
		r := g.unlessSame(ctx, t, known)
		if ctx.Err() != nil {
			break // it is tried again
		}
		results = append(results, r)
		n.add(r)
		if err := n.write(); err != nil {
			fmt.Fprintln(os.Stderr, "gate:", err)
		}
		if err := g.page(n); err != nil {
			fmt.Fprintln(os.Stderr, "gate:", err)
		}
	}
	g.report(results)
	var codes []int // of the tries before an interruption too
	for _, k := range n.Results {
		codes = append(codes, k.Exit)
	}
	return exitOf(ctx, codes)
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
	n := &night{path: path}
	if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, n) == nil && n.Commit == commit {
		return n
	}
	return &night{path: path, Commit: commit, Begun: time.Now().UTC()}
}

func (n *night) ended(tier string) bool {
	return slices.ContainsFunc(n.Results, func(k kept) bool { return k.Tier == tier && k.Exit == 0 })
}

// add replaces what an earlier try of the same tier left.
func (n *night) add(r Result) {
	k := kept{
		Tier: r.Tier, Word: r.word(), Note: cmp.Or(r.Skipped, r.Left), Exit: r.Exit, Seconds: int(r.Usage.took.Seconds()),
	}
	for _, f := range r.Findings {
		k.Failed = append(k.Failed, strings.TrimSpace(fmt.Sprintf("%s %s: `%s`", f.What, f.Test, f.Repeat)))
	}
	n.Results = slices.DeleteFunc(n.Results, func(old kept) bool { return old.Tier == r.Tier })
	n.Results = append(n.Results, k)
}

func (n *night) write() error {
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

// page writes docs/NIGHTLY.md.
func (g *gate) page(n *night) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# The last nightly run\n\nWritten by `make nightly`. Commit %s, begun %s, %d CPUs, %s.\n\n",
		n.Commit, n.Begun.Format("2006-01-02 15:04 MST"), runtime.NumCPU(), runtime.Version())
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
