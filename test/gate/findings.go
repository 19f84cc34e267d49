package main

import (
	"regexp"
	"strings"
)

// linesOfAFinding is how much of what a failed test printed the end of the output repeats.
const linesOfAFinding = 15

// A Finding is one thing that failed in a step: a test, or a panic, a race or a build of a package, or the step itself.
type Finding struct {
	What     string // "FAIL", "panic", "race", "build", "command"
	Package  string // import path; empty if it is not known
	Test     string // name of the whole test; empty if the package failed
	Lines    []string
	Repeat   string // the command that repeats it alone
	Unsteady bool   // it failed, but succeeded each time when it was tried again: see docs/adr/073
}

var (
	failedTest    = regexp.MustCompile(`^--- FAIL: (\S+)`)
	failedPackage = regexp.MustCompile(`^FAIL\t(\S+)`)
)

// findings reads the output of go test: what failed, in order.
func findings(log string) []Finding {
	lines := strings.Split(log, "\n")
	var all, open []Finding // open: of the package whose end has not come
	crashed := false
	for i, line := range lines {
		switch {
		case failedTest.MatchString(line):
			name := failedTest.FindStringSubmatch(line)[1]
			open = append(open, Finding{What: "FAIL", Test: name, Lines: around(lines, i)})
		case strings.HasPrefix(line, "WARNING: DATA RACE"):
			open = append(open, Finding{What: "race", Lines: from(lines, i)})
		case (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")) && !crashed:
			crashed = true // a panic in a test is printed twice
			open = append(open, Finding{What: "panic", Lines: from(lines, i)})
		case failedPackage.MatchString(line):
			pkg := failedPackage.FindStringSubmatch(line)[1]
			if strings.Contains(line, "[build failed]") || strings.Contains(line, "[setup failed]") {
				open = append(open, Finding{What: "build", Lines: before(lines, i)})
			}
			if len(open) == 0 {
				open = append(open, Finding{What: "FAIL", Lines: before(lines, i)})
			}
			for j := range open {
				open[j].Package = pkg
			}
			all, open, crashed = append(all, open...), nil, false
		}
	}
	return append(all, open...)
}

// around returns what a failed test printed: it follows its line, or stands before it with -v.
func around(lines []string, i int) []string {
	if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "    ") {
		return from(lines, i)
	}
	return before(lines, i)
}

func from(lines []string, i int) []string { return lines[i:min(len(lines), i+linesOfAFinding)] }

func before(lines []string, i int) []string { return lines[max(0, i+1-linesOfAFinding) : i+1] }
