package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Exit codes of the gate, beside the one of each tier.
const (
	exitUsage       = 2
	exitEnvironment = 75 // "temporary failure" of sysexits.h: a download or a lab failed three times, no test did
)

// A Tier is a kind of tests, which is carried out as a whole.
type Tier struct {
	Name  string
	Exit  int // the exit code of the gate if this is the first tier that failed
	Steps []Step
	// Apart lists directories and files that this tier's result does not depend on. Everything else does: an unknown
	// path means that the tier runs.
	Apart []string
	// Skips says that the tier is not run again where none of its inputs changed since it was green on this machine.
	Skips bool
}

// A Step is one command of a tier: either Command, or go test of packages.
type Step struct {
	Dir     string // below the root of the checkout
	Command []string
	Env     []string
	// Environment says that the command provides something, and tests nothing: it is tried three times.
	Environment bool
	// Lab is the lab that has to be up: its endpoint is given to the tests.
	Lab string

	Packages []string
	Flags    []string // before the packages
	Args     []string // for the test binaries
	// Seeds says that a failure names fresh seeds, which are tried on the commit that the change began from. The kept and
	// the constant ones succeed on main, where each change has to pass them.
	Seeds bool
	// Steady says that the same test always ends the same: a failed test is not tried again.
	Steady bool
}

// goTest begins each step of tests. Go's own limit of ten minutes a package is one for a quiet machine.
var goTest = []string{"go", "test", "-timeout", "30m"}

// nightlySeeds are the fresh seeds of a nightly run: with the shares of the other kinds of plans some 2,000 runs. Each
// change is tried with the kept seeds and 40 constant ones, so that it is not refused for a defect of another one.
const nightlySeeds = 800

// landing returns the tiers that each change has to pass. What one of them tests, no other tests again.
func landing(p *packages) []Tier {
	return []Tier{
		provide(p),
		{Name: "check", Exit: 11, Steps: target("check")},
		{Name: "unit", Exit: 12, Steps: unit(p)},
		{Name: "sim", Exit: 13, Steps: []Step{{
			Packages: []string{"./test/simulation"}, Flags: []string{"-count=1"}, Steady: true,
		}}},
		{Name: "race", Exit: 14, Steps: race(p)},
		{Name: "oracle", Exit: 15, Steps: target("oracle-short"), Skips: true, Apart: []string{
			"docs", "README.md", "CONTRIBUTING.md", "deploy", "bus", "test/gate", "test/integration", "test/attack",
			"test/chaos", "test/vm", "test/cluster", "test/simulation", "test/scenario", "test/arch", "test/bench",
			"test/timeline", "test/clients",
		}},
		{Name: "integration", Exit: 16, Steps: []Step{{
			Packages: p.byTag["integration"], Flags: []string{"-tags", "integration", "-count=1"}, Lab: "test",
		}}},
		{Name: "attack", Exit: 17, Steps: attack("-attack.short")},
	}
}

// tags are the build tags of tests that need more than Go.
var tags = []string{"integration", "cluster", "reports", "chaos", "attack", "vm", "clients"}

// provide brings in what the tiers need from outside: Go modules, tools, the programs of the lab.
func provide(p *packages) Tier {
	t := Tier{Name: "provide", Exit: exitEnvironment}
	for _, dir := range append([]string{".", "test/oracle"}, p.programs...) {
		// go mod download would bring in each module of the graph, ten times as many.
		list := []string{"go", "list", "-deps", "-test", "-tags", strings.Join(tags, ","), "-f", `{{""}}`, "./..."}
		t.Steps = append(t.Steps, Step{Dir: dir, Command: list, Environment: true})
	}
	t.Steps = append(t.Steps, Step{Command: []string{"make", "-s", "tools"}, Environment: true})
	return t
}

// unit is every test that needs no root and no runtime, and that race does not carry out.
func unit(p *packages) []Step {
	return append([]Step{
		{Packages: without(p.rest, isRules)},
		{Packages: p.concurrent, Flags: []string{"-run", leftByRace()}},
	}, programs(p)...)
}

// programs is every test of the modules that hold programs of ours.
func programs(p *packages) []Step {
	var steps []Step
	for _, dir := range p.programs {
		steps = append(steps, Step{Dir: dir, Packages: []string{"./..."}})
	}
	return steps
}

// race is what starts goroutines, under the race detector.
func race(p *packages) []Step {
	return []Step{
		{Packages: p.concurrent, Flags: []string{"-race", "-skip", leftByRace()}},
		raceSimulation(3, "^TestNothingBreaksUnderFaults$"),
	}
}

// raceSimulation is so many seeds of tests of the simulation under the race detector.
func raceSimulation(seeds int, tests string) Step {
	return Step{
		Packages: []string{"./test/simulation"}, Steady: true,
		Args:  []string{fmt.Sprintf("-sim.seeds=%d", seeds), "-sim.kept=false"},
		Flags: []string{"-race", "-count=1", "-run", tests},
	}
}

// raceAll is every test that may start a second goroutine, under the race detector. A simulation runs one goroutine at
// a time, and a simulated day takes ten times its memory under the detector: a few seeds are enough.
func raceAll(p *packages) []Step {
	rest := without(p.rest, func(dir string) bool {
		return slices.ContainsFunc(oneGoroutine, func(in string) bool { return within(strings.TrimPrefix(dir, "./"), in) })
	})
	return []Step{
		{Packages: slices.Concat(rest, p.concurrent), Flags: []string{"-race", "-timeout", "1h", "-skip", leftByRace()}},
		raceSimulation(20, "^TestNothingBreaks"),
	}
}

// timed returns the tiers of landing whose tests a slow machine could fail, without the race detector: at full speed it
// makes a test slower than half of the speed does, so the tier race has tried the slower machine. Nothing is taken from
// Go's cache: a test that succeeded at full speed has yet to do so at half of it.
func timed(p *packages) []Tier {
	var tiers []Tier
	for _, t := range landing(p) {
		switch t.Name {
		case "unit":
			t.Steps = append([]Step{{Packages: slices.Concat(without(p.rest, isRules), p.concurrent)}}, programs(p)...)
			for i := range t.Steps {
				t.Steps[i].Flags = []string{"-count=1"}
			}
			tiers = append(tiers, t)
		case "integration", "attack":
			tiers = append(tiers, t)
		}
	}
	return tiers
}

// without returns the directories that are not to drop, and leaves dirs as it is.
func without(dirs []string, drop func(dir string) bool) []string {
	return slices.DeleteFunc(slices.Clone(dirs), drop)
}

func isRules(dir string) bool { return dir == rules }

// target is a target of the Makefile.
func target(args ...string) []Step { return []Step{{Command: append([]string{"make"}, args...)}} }

func attack(args ...string) []Step {
	return []Step{{
		Packages: []string{"./test/attack"}, Flags: []string{"-tags", "attack", "-count=1"}, Args: args,
		Env: []string{"LAB_NAME=attack"},
	}}
}

// nightly returns everything there is, with fresh seeds and with times, what most often fails first. What tries fresh
// seeds is never skipped.
func nightly(p *packages) []Tier {
	seed := rand.Uint64N(1_000_000_000_000)
	fresh := Step{
		Packages: []string{"./test/simulation"}, Flags: []string{"-count=1", "-timeout", "4h"},
		Args:  []string{fmt.Sprintf("-sim.first=%d", seed), fmt.Sprintf("-sim.seeds=%d", nightlySeeds)},
		Seeds: true, Steady: true,
	}
	tiers := landing(p)
	for i := range tiers {
		t := &tiers[i]
		t.Skips = true
		switch t.Name {
		case "provide":
			t.Skips = false
		case "race":
			t.Steps, t.Apart = raceAll(p), besides("test/integration")
		case "oracle":
			t.Skips, t.Steps = false, target("oracle", fmt.Sprintf("SEED=%d", seed))
		case "integration":
			t.Steps = append(t.Steps, onTime(p, t.Steps[0]))
			t.Apart = besides("test/attack", "docs", "README.md", "CONTRIBUTING.md")
		case "attack":
			t.Steps = attack("-strict.time") // one after the other by themselves
			t.Steps[0].Flags = append(t.Steps[0].Flags, "-timeout", "1h")
			t.Apart = besides("test/integration", "docs", "README.md", "CONTRIBUTING.md")
		}
	}
	others := []string{
		"docs", "README.md", "CONTRIBUTING.md", "test/simulation", "test/oracle", "test/scenario", "test/arch", "test/gate",
	}
	return append(tiers,
		Tier{Name: "sim-fresh", Exit: 21, Steps: []Step{fresh}},
		Tier{Name: "strict-time", Exit: 22, Skips: true, Apart: besides("test/integration"), Steps: []Step{{
			Packages: p.strict[""], Flags: []string{"-count=1", "-p", "1"}, Args: []string{"-strict.time"},
		}}},
		Tier{Name: "bench-guard", Exit: 32, Skips: true, Steps: target("bench-guard"), Apart: slices.Concat(others, []string{
			"CHANGELOG.md", "test/integration", "test/attack", "test/chaos", "test/vm", "test/cluster", "test/timeline",
			"test/clients", "test/reports",
		})},
		Tier{Name: "chaos", Exit: 23, Skips: true, Apart: others, Steps: []Step{{
			Packages: []string{"./test/chaos"}, Flags: []string{"-tags", "chaos", "-count=1"}, Env: []string{"LAB_NAME=chaos"},
			Args: []string{fmt.Sprintf("-chaos.seed=%d", seed)},
		}}},
		Tier{Name: "clients", Exit: 24, Skips: true, Apart: others, Steps: target("clients")},
		Tier{Name: "timeline", Exit: 25, Skips: true, Apart: others, Steps: target("timeline-test", "ARGS=-strict.time")},
		Tier{Name: "vm", Exit: 26, Skips: true, Apart: others, Steps: target("vm-short")},
		Tier{Name: "vulns", Exit: 27, Steps: target("vulns")},
		Tier{Name: "dist", Exit: 30, Skips: true, Steps: target("dist-test")},
		Tier{Name: "emulated", Exit: 31, Skips: true, Steps: target("emulated"),
			Apart: []string{"docs", "README.md", "CONTRIBUTING.md", "test/gate", "test/arch", "deploy"}},
		Tier{Name: "mutants", Exit: 28, Skips: true, Steps: target("mutants"),
			Apart: []string{"docs", "README.md", "CONTRIBUTING.md", "test/gate", "test/arch"}},
		Tier{Name: "half", Exit: 29, Skips: true, Steps: []Step{{Command: []string{"go", "run", "./test/gate", "half"}}}},
	)
}

// besides lists the tests that only their own tiers carry out, and more that a tier does not depend on.
func besides(more ...string) []string {
	return append([]string{"test/oracle", "test/timeline", "test/chaos", "test/vm", "test/reports"}, more...)
}

// onTime returns the tests of the step integration that hold something to a time, one after the other and with the
// times: beside another test the machine is not quiet.
func onTime(p *packages, s Step) Step {
	s.Packages = p.strict["integration"]
	s.Flags = append(slices.Clone(s.Flags), "-parallel", "1", "-run", "^("+strings.Join(p.timed, "|")+")$")
	s.Args = append([]string{"-strict.time"}, s.Args...)
	return s
}
