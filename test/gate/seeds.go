package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// openFile lists the seeds that fail and are not explained yet: seed, test, commit that it first failed on, invariant.
const openFile = "test/simulation/testdata/open.txt"

// mostCommitsOpen is how long a seed may stay open: then it refuses every change until it is explained.
const mostCommitsOpen = 30

// reproduced is the line of a failure of the simulation that names its seed, and the line before that names the
// invariant.
var (
	reproduced = regexp.MustCompile(`reproduce: make sim SEED=(\d+)(?: TEST=(\w+))?`)
	violated   = regexp.MustCompile(`seed (\d+): (.*)`)
)

// openSeeds tries a seed that failed on the commit that a change began from. A seed that fails there too is no reason
// to refuse the change, and is written down.
type openSeeds struct {
	g     *gate
	base  string // commit; empty: no earlier one is here
	Added []string
}

type seed struct{ number, test, invariant string }

func seedsOf(log string) (all []seed) {
	invariants := map[string]string{}
	for _, m := range violated.FindAllStringSubmatch(log, -1) {
		invariants[m[1]] = m[2]
	}
	for _, m := range reproduced.FindAllStringSubmatch(log, -1) {
		s := seed{number: m[1], test: cmp.Or(m[2], "TestNothingBreaksUnderFaults"), invariant: invariants[m[1]]}
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// known returns what of a failed run of the simulation is the change's own.
func (o *openSeeds) known(ctx context.Context, s Step, found []Finding, log string, out io.Writer) []Finding {
	seeds := seedsOf(log)
	if len(seeds) == 0 || o.base == "" {
		return found // it failed in something else, or there is nothing to compare with
	}
	var own []Finding
	for _, one := range seeds {
		f := Finding{
			What: "seed " + one.number, Package: "./test/simulation", Test: one.test, Lines: []string{one.invariant},
			Repeat: fmt.Sprintf("make sim SEED=%s TEST=%s", one.number, one.test),
		}
		fails, err := o.failsBefore(ctx, s, one, out)
		switch {
		case err != nil:
			f.Lines = append(f.Lines, "could not be tried on "+o.base+": "+err.Error())
			own = append(own, f)
		case !fails:
			f.Lines = append(f.Lines, "it does not fail on "+o.base+", which this change began from")
			own = append(own, f)
		default:
			fmt.Fprintf(out, "gate: seed %s fails on %s too: it goes into %s\n", one.number, o.base, openFile)
			if err := o.write(one); err != nil {
				f.Lines = append(f.Lines, err.Error())
				own = append(own, f)
			}
		}
	}
	return own
}

// failsBefore reports whether a seed fails on the commit that the change began from.
func (o *openSeeds) failsBefore(ctx context.Context, s Step, one seed, out io.Writer) (bool, error) {
	dir := filepath.Join(o.g.logs, "base")
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		if _, err := git(o.g.root, "worktree", "add", "--force", "--detach", dir, o.base); err != nil {
			return false, err
		}
	}
	before := *o.g
	before.root = dir
	s.Flags, s.Args = []string{"-count=1"}, []string{"-sim.seed=" + one.number, "-sim.shrink=false"}
	return before.exec(ctx, s, s.test([]string{"./test/simulation"}, one.test), out) != nil, ctx.Err()
}

func (o *openSeeds) write(one seed) error {
	line := fmt.Sprintf("%s %s %s # %s\n", one.number, one.test, o.base, one.invariant)
	o.Added = append(o.Added, strings.TrimSpace(line))
	path := filepath.Join(o.g.root, openFile)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // a file of the checkout
	if err != nil {
		return err
	}
	if _, err := f.WriteString(line); err != nil {
		_ = f.Close() // the first error is the one to know
		return err
	}
	return f.Close()
}

// listed returns the lines of the file of open seeds, without lines that are comments alone.
func (o *openSeeds) listed() (lines []string, err error) {
	b, err := os.ReadFile(filepath.Join(o.g.root, openFile))
	if os.IsNotExist(err) {
		return nil, nil
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines, err
}

// overdue returns a finding for each seed that has been open for too long. A commit that this checkout does not hold is
// one of a history that was cut off, and says nothing.
func (o *openSeeds) overdue() (found []Finding) {
	lines, err := o.listed()
	if err != nil {
		return []Finding{{What: "open seeds", Lines: []string{err.Error()}}}
	}
	for _, line := range lines {
		f := strings.Fields(line)
		if len(f) < 3 {
			text := openFile + ": want seed, test, commit: " + line
			found = append(found, Finding{What: "open seeds", Lines: []string{text}})
			continue
		}
		count, err := git(o.g.root, "rev-list", "--count", f[2]+"..HEAD")
		if n, _ := strconv.Atoi(count); err == nil && n > mostCommitsOpen { // an error leaves n at 0
			found = append(found, Finding{
				What: "seed " + f[0], Test: f[1], Repeat: fmt.Sprintf("make sim SEED=%s TEST=%s", f[0], f[1]),
				Lines: []string{fmt.Sprintf("open for %d commits, at most %d: explain it", n, mostCommitsOpen)},
			})
		}
	}
	return found
}

// nightOf names the commit of a nightly run on its page.
var nightOf = regexp.MustCompile(`(?m)^Written by .* Commit ([0-9a-f]{7,40})[,.]`)

// baseOf returns the commit that a change began from: where the branch left main. On main itself, it is the commit of
// the last nightly run, by its page at HEAD: what failed there was found or missed by that run, and what does not
// fail there came since. Without such a page it is the commit before. BREAKING_BASE names another one.
func baseOf(root string) string {
	head, err := git(root, "rev-parse", "HEAD")
	if err != nil {
		return ""
	}
	if named := os.Getenv("BREAKING_BASE"); named != "" {
		return named
	}
	for _, ref := range []string{"origin/main", "main"} {
		if b, err := git(root, "merge-base", ref, "HEAD"); err == nil && b != head {
			return b
		}
	}
	if page, err := git(root, "show", "HEAD:"+nightlyPage); err == nil {
		if m := nightOf.FindStringSubmatch(page); m != nil {
			// A page may name a commit of another history.
			if b, err := git(root, "merge-base", m[1], "HEAD"); err == nil && b != head && strings.HasPrefix(b, m[1]) {
				return b
			}
		}
	}
	before, _ := git(root, "rev-parse", "HEAD^") // "": a checkout without history
	return before
}
