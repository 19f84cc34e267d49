package main

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

// checkout is a module with one package, whose test file is given, in a repository of its own.
func checkout(t *testing.T, test string) *gate {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26.0\n", "a/a_test.go": "package a\n\n" + test, ".gitignore": "/.lab/\n",
	} {
		must.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o750))
		must.OK(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	commit(t, root)
	g, err := newGate(root)
	must.OK(t, err)
	g.out = &bytes.Buffer{}
	t.Setenv("GOCACHE", goEnv(t, "GOCACHE")) // before the next line moves it: an empty one takes half a minute to fill
	t.Setenv("XDG_CACHE_HOME", filepath.Join(root, ".lab", "cache"))
	t.Setenv("GOFLAGS", "")
	return g
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	must.OK(t, err)
	return strings.TrimSpace(string(out))
}

func commit(t *testing.T, root string) {
	t.Helper()
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "-A"},
		{"-c", "user.name=n", "-c", "user.email=n@example.com", "commit", "-q", "--allow-empty", "-m", "m"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}

func (g *gate) output() string { return g.out.(*bytes.Buffer).String() }

// failsOnce is a test that fails the first time that it runs, and then never again.
const failsOnce = `import ("os"; "testing")

func TestA(t *testing.T) {
	if _, err := os.Stat("ran"); err != nil {
		_ = os.WriteFile("ran", nil, 0o600)
		t.Error("the first time")
	}
}
`

const failsAlways = "import \"testing\"\n\nfunc TestA(t *testing.T) { t.Error(\"each time\") }\n"

func oneTier() []Tier {
	return []Tier{{Name: "unit", Exit: 12, Steps: []Step{{Packages: []string{"./a"}, Flags: []string{"-count=1"}}}}}
}

func TestUnsteadyTestIsNamedAndRefusesNoChange(t *testing.T) {
	g := checkout(t, failsOnce)
	if code := g.test(t.Context(), oneTier()); code != 0 {
		t.Errorf("exit code %d, want 0\n%s", code, g.output())
	}
	if out := g.output(); !strings.Contains(out, "UNSTEADY") || !strings.HasSuffix(out, "0 failed, 1 unsteady\n") {
		t.Errorf("the output does not end with the unsteady test:\n%s", out)
	}
}

func TestNightlyRunForgivesNoUnsteadyTest(t *testing.T) {
	g := checkout(t, failsOnce)
	must.OK(t, os.Mkdir(filepath.Join(g.root, "docs"), 0o750))
	if code := g.nightly(t.Context(), oneTier()); code != 12 {
		t.Errorf("exit code %d, want 12\n%s", code, g.output())
	}
	page, err := os.ReadFile(filepath.Join(g.root, nightlyPage))
	must.OK(t, err)
	if !strings.Contains(string(page), "| unit | RED |") || !strings.Contains(string(page), "-run '^TestA$'") {
		t.Errorf("the page does not say what failed:\n%s", page)
	}
}

func TestFailureEndsTheOutputWithItsLinesAndItsCommand(t *testing.T) {
	g := checkout(t, failsAlways)
	if code := g.test(t.Context(), oneTier()); code != 12 {
		t.Errorf("exit code %d, want 12", code)
	}
	out := g.output()
	end := out[max(0, len(out)-400):]
	again := "go test -timeout 30m -count=1 -run '^TestA$' example.com/m/a"
	for _, want := range []string{"each time", again, "1 failed, 0 unsteady"} {
		if !strings.Contains(end, want) {
			t.Errorf("the end of the output lacks %q:\n%s", want, end)
		}
	}
}

func TestLaterTiersRunAfterAFailure(t *testing.T) {
	g := checkout(t, failsAlways)
	after := Tier{Name: "after", Exit: 13, Steps: []Step{{Command: []string{"touch", "after"}}}}
	g.test(t.Context(), append(oneTier(), after))
	if _, err := os.Stat(filepath.Join(g.root, "after")); err != nil {
		t.Errorf("%v\n%s", err, g.output())
	}
}

func TestTierSaysWhatItLeftUnchecked(t *testing.T) {
	g := checkout(t, "")
	must.OK(t, os.MkdirAll(g.logs, 0o750))
	for text, want := range map[string]string{
		"vulns: NOT CHECKED: no route to it": "not checked: no route to it", "all is CHECKED": "",
	} {
		r := g.carryOut(t.Context(), Tier{Name: "vulns", Exit: 27, Steps: []Step{{Command: []string{"echo", text}}}})
		if r.Left != want || r.Exit != 0 || (r.word() == "green") != (want == "") {
			t.Errorf("%q: %q is left, the tier is %s", text, r.Left, r.word())
		}
	}
}

// What was green is kept by the name of its tier, and of two tiers of one name one is short.
func TestOfTwoTiersOfOneNameOneIsNeverSkipped(t *testing.T) {
	kept := map[string]bool{}
	for _, tiers := range [][]Tier{landing(&packages{}), nightly(&packages{})} {
		for _, tier := range tiers {
			if tier.Skips && kept[tier.Name] {
				t.Errorf("two tiers %s are skipped where one of them was green", tier.Name)
			}
			kept[tier.Name] = kept[tier.Name] || tier.Skips
		}
	}
}

func TestTierIsSkippedOnlyWhileItsInputsAreTheSame(t *testing.T) {
	g := checkout(t, "")
	tier := Tier{Name: "oracle", Exit: 15, Skips: true, Apart: []string{"man"}, Steps: []Step{{
		Command: []string{"sh", "-c", "echo x >>.lab/runs"},
	}}}
	runs := func() int {
		must.OK(t, os.MkdirAll(filepath.Join(g.root, ".lab"), 0o750))
		if code := g.test(t.Context(), []Tier{tier}); code != 0 {
			t.Fatalf("exit code %d\n%s", code, g.output())
		}
		b, err := os.ReadFile(filepath.Join(g.root, ".lab", "runs"))
		must.OK(t, err)
		return strings.Count(string(b), "x")
	}
	write := func(name string) {
		must.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(g.root, name)), 0o750))
		must.OK(t, os.WriteFile(filepath.Join(g.root, name), []byte("text"), 0o600))
	}
	for _, step := range []struct {
		change string
		want   int
	}{{"", 1}, {"", 1}, {"man/PAGE.md", 1}, {nightlyPage, 1}, {"a/unknown", 2}, {"", 2}} {
		if step.change != "" {
			write(step.change)
		}
		if n := runs(); n != step.want {
			t.Errorf("after a change of %q: %d runs, want %d", step.change, n, step.want)
		}
	}
}

func TestEnvironmentIsTriedThreeTimesAndHasItsOwnCode(t *testing.T) {
	g := checkout(t, "")
	g.pause = 0
	away := []Tier{{Name: "provide", Exit: 75, Steps: []Step{{
		Environment: true, Command: []string{"sh", "-c", "echo x >>.lab/tries; exit 1"},
	}}}}
	must.OK(t, os.MkdirAll(filepath.Join(g.root, ".lab"), 0o750))
	if code := g.test(t.Context(), append(away, oneTier()...)); code != exitEnvironment {
		t.Errorf("exit code %d, want %d", code, exitEnvironment)
	}
	b, err := os.ReadFile(filepath.Join(g.root, ".lab", "tries"))
	must.OK(t, err)
	if n := strings.Count(string(b), "x"); n != tries {
		t.Errorf("%d tries, want %d", n, tries)
	}
}

// interrupter is an output that interrupts the run when the tier "second" begins.
type interrupter func()

func (i interrupter) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "=== second") {
		i()
	}
	return len(b), nil
}

func TestFailedTestCountsBeforeAFailedDownload(t *testing.T) {
	for want, codes := range map[int][]int{0: {0, 0}, 75: {0, 75}, 12: {75, 12, 13}, 13: {13, 75, 12}} {
		if got := exitOf(t.Context(), codes); got != want {
			t.Errorf("%v: exit code %d, want %d", codes, got, want)
		}
	}
}

func TestNightThatWasInterruptedContinues(t *testing.T) {
	g := checkout(t, "")
	must.OK(t, os.Mkdir(filepath.Join(g.root, "docs"), 0o750))
	must.OK(t, os.MkdirAll(filepath.Join(g.root, ".lab"), 0o750))
	ctx, interrupt := context.WithCancel(t.Context())
	first := Tier{Name: "first", Exit: 11, Steps: []Step{{Command: []string{"sh", "-c", "echo x >>.lab/first"}}}}
	second := Tier{Name: "second", Exit: 12, Steps: []Step{{Command: []string{"sh", "-c", "echo x >>.lab/second"}}}}
	stopped := second
	stopped.Steps = []Step{{Command: []string{"sleep", "60"}}}
	// The page is a file of the repository, and changes after the first tier.
	must.OK(t, os.WriteFile(filepath.Join(g.root, nightlyPage), []byte("# The last nightly run\n"), 0o600))
	commit(t, g.root)
	interrupted := *g
	interrupted.out = interrupter(interrupt)
	interrupted.nightly(ctx, []Tier{first, stopped})
	if code := g.nightly(t.Context(), []Tier{first, second}); code != 0 {
		t.Errorf("exit code %d\n%s", code, g.output())
	}
	for _, name := range []string{"first", "second"} {
		b, err := os.ReadFile(filepath.Join(g.root, ".lab", name))
		must.OK(t, err)
		if n := strings.Count(string(b), "x"); n != 1 {
			t.Errorf("the tier %s ran %d times, want once", name, n)
		}
	}
}

func TestAtHalfOfTheSpeedNoResultIsTakenFromTheCache(t *testing.T) {
	p, err := findPackages("../..")
	must.OK(t, err)
	var names []string
	for _, tier := range timed(p) {
		names = append(names, tier.Name)
		for _, s := range tier.Steps {
			if !slices.Contains(s.Flags, "-count=1") {
				t.Errorf("%s: go test of %v may take its result from the cache", tier.Name, s.Packages)
			}
		}
	}
	if want := []string{"unit", "integration", "attack"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

func TestSeedThatIsOpenForLongRefusesEachChange(t *testing.T) {
	g := checkout(t, "")
	base, err := git(g.root, "rev-parse", "HEAD")
	must.OK(t, err)
	must.OK(t, os.MkdirAll(filepath.Join(g.root, filepath.Dir(openFile)), 0o750))
	g.open.base = base
	must.OK(t, g.open.write(seed{number: "7", test: "TestNothingBreaks", invariant: "nothing is lost"}))
	if found := g.open.overdue(); len(found) != 0 {
		t.Errorf("overdue at once: %v", found)
	}
	for range mostCommitsOpen + 1 {
		commit(t, g.root)
	}
	if found := g.open.overdue(); len(found) != 1 || found[0].What != "seed 7" {
		t.Errorf("after %d commits: %v, want seed 7", mostCommitsOpen+1, found)
	}
}

// In a fresh clone of main, no branch shows where a change of many commits began.
func TestOnMainAChangeBeganAtTheLastNightlyRun(t *testing.T) {
	t.Setenv("BREAKING_BASE", "")
	g := checkout(t, "")
	head := func() string {
		out, err := git(g.root, "rev-parse", "HEAD")
		must.OK(t, err)
		return out
	}
	night := head()
	commit(t, g.root)
	page := filepath.Join(g.root, nightlyPage)
	must.OK(t, os.Mkdir(filepath.Dir(page), 0o750))
	for _, c := range []struct{ named, want string }{
		{night[:12], night},
		{"0123456789ab", ""},
		{night[:12] + "-dirty", ""},
	} {
		before := head()
		must.OK(t, os.WriteFile(page, []byte("# Night\n\nWritten by `make nightly`. Commit "+c.named+", begun.\n"), 0o600))
		commit(t, g.root)
		// The page that this run writes does not count.
		must.OK(t, os.WriteFile(page, []byte("Written by `make nightly`. Commit "+head()[:12]+", begun.\n"), 0o600))
		if got, want := baseOf(g.root), cmp.Or(c.want, before); got != want {
			t.Errorf("the page names %s: the change began from %s, want %s", c.named, got, want)
		}
	}
}

func TestEachTestOfTheCheckoutBelongsToATier(t *testing.T) {
	p, err := findPackages("../..")
	must.OK(t, err)
	tested := []string{rules}
	for _, tier := range landing(p) {
		for _, s := range tier.Steps {
			if s.Dir == "" {
				tested = append(tested, s.Packages...)
			}
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f",
		"{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "../../...").Output()
	must.OK(t, err)
	for _, pkg := range strings.Fields(string(out)) {
		dir := "." + strings.TrimPrefix(pkg, "github.com/journalet/journalet")
		if !slices.Contains(tested, dir) {
			t.Errorf("no tier of make test carries out the tests of %s", dir)
		}
	}
	for _, tag := range []string{"integration", "attack", "chaos", "vm", "clients"} {
		if len(p.byTag[tag]) == 0 {
			t.Errorf("no package has tests with the build tag %s", tag)
		}
		args := append([]string{"list", "-tags", tag}, p.byTag[tag]...)
		list := exec.CommandContext(t.Context(), "go", args...)
		list.Dir = p.root
		if out, err := list.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", tag, err, out)
		}
	}
}

// A flag that a test binary does not have is an error.
func TestNightlyRunHoldsEachStrictPackageToItsTimes(t *testing.T) {
	p, err := findPackages("../..")
	must.OK(t, err)
	var strict, held []string
	for _, dirs := range p.strict {
		strict = append(strict, dirs...)
	}
	for _, tier := range nightly(p) {
		for _, s := range tier.Steps {
			if slices.Contains(s.Args, "-strict.time") {
				held = append(held, s.Packages...)
			}
		}
	}
	slices.Sort(strict)
	slices.Sort(held)
	if !slices.Equal(strict, held) {
		t.Errorf("held to times are %v, want %v", held, strict)
	}
}

// A test that was renamed would be carried out under the race detector again, and one that was moved nowhere.
func TestTestsThatRaceLeavesExist(t *testing.T) {
	p, err := findPackages("../..")
	must.OK(t, err)
	var text strings.Builder
	for _, dir := range p.concurrent {
		files, err := filepath.Glob(filepath.Join(p.root, dir, "*_test.go"))
		must.OK(t, err)
		for _, file := range files {
			b, err := os.ReadFile(file)
			must.OK(t, err)
			text.Write(b)
		}
	}
	for _, name := range slowUnderRace {
		if !strings.Contains(text.String(), "\nfunc "+name+"(") {
			t.Errorf("%s is no test of a package that the race detector tries", name)
		}
	}
}

func TestPageNamesNoNameServer(t *testing.T) {
	const lookup = "dial tcp: lookup vuln.go.dev on 192.0.2.53:53: no such host | a"
	if got, want := cell(lookup), `dial tcp: lookup vuln.go.dev: no such host \| a`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
