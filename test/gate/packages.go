package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// slowUnderRace are tests of concurrent packages. The race detector makes them five to twenty times as long and finds
// nothing: they work on one goroutine (damaged journals by the hundred, a node with 1000 pods, hostile manifests and
// trees), or move bytes by the hundred MiB over connections that other tests open too. The tier unit carries them out.
var slowUnderRace = []string{
	"TestVerifyReportsDamageOfStoredJournal", "TestStartCopiesDamagedBlocksBeforeRecovery", "TestReportedLossIsNoProblem",
	"TestCostOfAnEventDoesNotDependOnTheNumberOfPods", "TestManifestsCostWhatTheirBytesJustify",
	"TestIdentifiersBeyondTheirLimitsAreRefusedByName", "TestLargestPodFitsTheJournal",
	"TestDeepTreeIsRemovedWithFewDescriptorsAndLittleMemory", "TestWideAndBushyTreesAreRemoved",
	"TestRepairSetsAsideWhatIsDamaged", "TestRepairSetsAsideRecordsBehindALoss",
	"TestPruneStoredJournalCutsBehindSnapshots", "TestThousandPatchesOfALargePodTakeLittleOfTheDisk",
	"TestEveryPodHasAnAnswer", "TestAnswersAreBounded", "TestAWatchWithoutAnEndToItsEventFails",
	"TestFloodOfLargeMessagesLeavesTheServicesConnected", "TestFindPassesTheRecordsThatReadPasses",
	"TestFindLeavesOutWhatIsDamaged", "TestOpenReportsMissingBlock", "TestStoredJournalReportsWhatRunningAgentReports",
	"TestManyLargePodsKeepOutNoOther", "TestAnnotationsOfOtherServicesKeepOutNone", "TestDamagedRecordsAreReportsOrErrors",
	"FuzzRecord", "TestReaderAgreesWithTheSimplestOne", "TestHugeLineTakesConstantMemory",
	"TestPicturesEndInTheStatesOfThePods",
	"TestAnEventBeyondItsBoundIsLeftOutByItself", "TestAnItemBeyondItsBoundIsLeftOutByItself", "TestAListEnds",
	"TestWhatAWatchListsEnds",
}

// leftByRace returns slowUnderRace as an argument of -run or -skip.
func leftByRace() string { return "^(" + strings.Join(slowUnderRace, "|") + ")$" }

// packages are what there is to test in a checkout.
type packages struct {
	root       string
	concurrent []string            // what starts goroutines
	rest       []string            // the other packages with tests, but the simulation
	modules    []string            // every directory with a go.mod, the root as "."
	programs   []string            // the modules that hold programs of ours
	byTag      map[string][]string // the packages with tests of a build tag
	strict     map[string][]string // the packages with time limits for -strict.time, by build tag, "" for none
	timed      []string            // the tests of the tag integration that have one
}

// runsConcurrently are the directories whose tests the race detector carries out: see Tier race.
var runsConcurrently = []string{"bus", "cmd", "runtime"}

// oneGoroutine are the directories whose tests the race detector does not carry out, nightly either: deciders, which
// start no goroutine (test/arch), and readers of the checkout.
var oneGoroutine = []string{"actors", "test/arch", "test/events", "test/gate", "test/promises", "test/scenario"}

// rules is the package whose tests "make check" carries out, and so no tier of tests.
const rules = "./test/arch"

// findPackages reads the test files of a checkout.
func findPackages(root string) (*packages, error) {
	p := &packages{root: root, byTag: map[string][]string{}, strict: map[string][]string{}}
	ours := map[string]bool{} // directories of the main module
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path) // both are of this walk
		switch {
		case err != nil:
			return err
		case d.IsDir() && rel != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.Name() == "go.mod":
			p.modules = append(p.modules, filepath.Dir(rel))
		case strings.HasSuffix(d.Name(), "_test.go"):
			return p.add(path, "./"+filepath.Dir(rel), ours)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, tagged := range []map[string][]string{p.byTag, p.strict} {
		for tag, dirs := range tagged {
			tagged[tag] = slices.DeleteFunc(dirs, func(dir string) bool { return p.module(dir) != "." })
		}
	}
	for dir := range ours {
		if p.module(dir) != "." {
			continue
		}
		in := func(parent string) bool { return within(strings.TrimPrefix(dir, "./"), parent) }
		switch {
		case slices.ContainsFunc(runsConcurrently, in):
			p.concurrent = append(p.concurrent, dir)
		case !in("test/simulation"):
			p.rest = append(p.rest, dir)
		}
	}
	for _, m := range p.modules {
		if _, err := os.Stat(filepath.Join(root, m, "main.go")); (err == nil || m == "test/tools/supply") && m != "." {
			p.programs = append(p.programs, m)
		}
	}
	slices.Sort(p.concurrent)
	slices.Sort(p.rest)
	for _, dir := range p.strict["integration"] {
		tests, err := testsWithTimes(filepath.Join(root, dir))
		if err != nil {
			return nil, err
		}
		p.timed = append(p.timed, tests...)
	}
	return p, nil
}

// add sorts one file of tests.
func (p *packages) add(path, dir string, ours map[string]bool) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	tag := tagOf(b)
	times := bytes.Contains(b, []byte("/test/strict\""))
	if tag == "" {
		ours[dir] = true
	} else {
		p.byTag[tag] = addOnce(p.byTag[tag], dir)
	}
	if times {
		p.strict[tag] = addOnce(p.strict[tag], dir)
	}
	return nil
}

// tagOf returns the build tag of a test file if it is one word.
func tagOf(file []byte) string {
	for in := bufio.NewScanner(bytes.NewReader(file)); in.Scan(); {
		if tag, ok := strings.CutPrefix(in.Text(), "//go:build "); ok && !strings.ContainsAny(tag, " !") && tag != "linux" {
			return tag
		}
		if strings.HasPrefix(in.Text(), "package ") {
			break
		}
	}
	return ""
}

// module returns the directory of the module that a directory belongs to.
func (p *packages) module(dir string) string {
	dir = strings.TrimPrefix(dir, "./")
	for ; dir != "." && !slices.Contains(p.modules, dir); dir = filepath.Dir(dir) {
	}
	return dir
}

// within reports whether a path is a directory or below it.
func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func addOnce(all []string, one string) []string {
	if slices.Contains(all, one) {
		return all
	}
	return append(all, one)
}

// git returns the output of a command of git in the checkout.
func git(root string, args ...string) (string, error) {
	cmd := exec.Command("git", args...) //nolint:gosec // of this program
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
