package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// tries of what comes from outside: a mirror that fails three times within a minute is away.
	tries       = 3
	pauseOfTry  = 20 * time.Second
	timesAgain  = 3                     // a test that failed has to succeed so many times alone to count as unsteady
	mostAgain   = 5                     // tests that failed in one step; more have one cause, and it is not the machine
	keepIn      = "JOURNALET_TEST_KEEP" // see test/node
	endOfAnyLog = 15                    // lines of a command that failed and is no test
)

// A gate carries out tiers in a checkout.
type gate struct {
	root string
	logs string    // directory for the output of each tier
	out  io.Writer // of everything, as it comes
	pkgs *packages
	// forgives says that an unsteady test does not fail its tier.
	forgives bool
	open     *openSeeds
	pause    time.Duration // between two tries of what comes from outside
	keep     string        // directory for the root directories of agents whose test failed; empty: where they are
}

// A Result is what became of a tier.
type Result struct {
	Tier     string
	Exit     int // 0: green
	Skipped  string
	Left     string // what a step left unchecked, as it says itself
	Usage    usage
	Findings []Finding
}

func (r Result) word() string {
	switch {
	case r.Skipped != "":
		return "same"
	case r.Exit == exitEnvironment:
		return "AWAY"
	case r.Exit != 0:
		return "RED"
	case r.Left != "":
		return "left"
	}
	return "green"
}

// carryOut runs all steps of a tier, also the steps after a step that failed.
func (g *gate) carryOut(ctx context.Context, t Tier) Result {
	fmt.Fprintf(g.out, "\n=== %s\n", t.Name)
	l, r := beginLoad(), Result{Tier: t.Name}
	log, err := os.Create(filepath.Join(g.logs, t.Name+".log"))
	if err != nil {
		r.Exit, r.Findings = exitEnvironment, []Finding{{What: "command", Lines: []string{err.Error()}}}
		return r
	}
	defer log.Close()
	for _, s := range t.Steps {
		found, away := g.step(ctx, s, io.MultiWriter(g.out, log))
		r.Findings = append(r.Findings, found...)
		switch {
		case away:
			r.Exit = exitEnvironment
		case r.Exit == 0 && slices.ContainsFunc(found, func(f Finding) bool { return !f.Unsteady || !g.forgives }):
			r.Exit = t.Exit
		}
	}
	r.Left = leftOut(log.Name())
	r.Usage = l.end()
	fmt.Fprintf(g.out, "=== %-12s %-5s %s\n", t.Name, r.word(), r.Usage)
	return r
}

// unchecked is the line of a step that succeeds although it could not check everything.
var unchecked = regexp.MustCompile(`(?m)^(?:\w+: )?NOT CHECKED: (.{1,200})`)

// leftOut returns what the log of a tier says was not checked.
func leftOut(path string) string {
	log, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	if line := unchecked.FindSubmatch(log); line != nil {
		return "not checked: " + string(line[1])
	}
	return ""
}

// step runs one step, and reports whether the environment failed instead of a test.
func (g *gate) step(ctx context.Context, s Step, out io.Writer) (found []Finding, away bool) {
	if s.Lab != "" {
		endpoint, err := g.lab(ctx, s.Lab, out)
		if err != nil {
			f := Finding{What: "command", Lines: []string{"lab " + s.Lab + ": " + err.Error()}}
			f.Repeat = "make lab-up LAB_NAME=" + s.Lab
			return []Finding{f}, true
		}
		s.Env = append(slices.Clone(s.Env), "JOURNALET_TEST_CRI_ENDPOINT="+endpoint)
	}
	if s.Command != nil {
		return g.command(ctx, s, out)
	}
	if len(s.Packages) == 0 {
		f := Finding{What: "command", Lines: []string{"no package carries these tests: this checkout is not whole"}}
		return []Finding{f}, false
	}
	var log bytes.Buffer
	err := g.exec(ctx, s, s.test(s.Packages, ""), io.MultiWriter(out, &log))
	if err == nil {
		return nil, false
	}
	found = findings(log.String())
	if len(found) == 0 {
		found = []Finding{{What: "command", Lines: tail(log.String(), endOfAnyLog)}}
	}
	for i := range found {
		found[i].Repeat = s.repeat(found[i])
	}
	if s.Seeds {
		return g.open.known(ctx, s, found, log.String(), out), false
	}
	if !s.Steady {
		g.tryAgain(ctx, s, found, out)
	}
	return found, false
}

// command runs what is no test of Go by itself: a target of make, or what provides the environment.
func (g *gate) command(ctx context.Context, s Step, out io.Writer) (found []Finding, away bool) {
	var log bytes.Buffer
	for try := 1; ; try++ {
		log.Reset()
		err := g.exec(ctx, s, s.Command, io.MultiWriter(out, &log))
		if err == nil {
			return nil, false
		}
		if !s.Environment || try == tries || ctx.Err() != nil {
			break
		}
		fmt.Fprintf(out, "gate: %s failed, trying again in %s: %v\n", strings.Join(s.Command, " "), g.pause, err)
		select {
		case <-ctx.Done():
		case <-time.After(g.pause):
		}
	}
	found = findings(log.String())
	if len(found) == 0 {
		found = []Finding{{What: "command", Lines: tail(log.String(), endOfAnyLog)}}
	}
	for i := range found {
		found[i].Repeat = s.shell(s.Command)
	}
	return found, s.Environment
}

// tryAgain runs each failed test again, alone, three times, and marks the tests that succeed: they are unsteady. A data
// race, a panic and a package that does not build are not: if there is one, no test runs again.
func (g *gate) tryAgain(ctx context.Context, s Step, found []Finding, out io.Writer) {
	isSteady := func(f Finding) bool { return f.What != "FAIL" || f.Test == "" }
	if len(found) > mostAgain || slices.ContainsFunc(found, isSteady) {
		return
	}
	for i := range found {
		f := &found[i]
		fmt.Fprintf(out, "gate: %s of %s again, alone, %d times\n", f.Test, f.Package, timesAgain)
		args := append(s.test([]string{f.Package}, f.Test), fmt.Sprintf("-test.count=%d", timesAgain))
		f.Unsteady = g.exec(ctx, s, args, out) == nil
	}
}

// test returns the command line of go test for packages, of one of their tests if it is named.
func (s Step) test(packages []string, test string) []string {
	args := append(slices.Clone(goTest), s.Flags...)
	if test != "" {
		args = append(args, "-run", "^"+test+"$")
	}
	return append(append(args, packages...), s.Args...)
}

// repeat returns the command line that repeats what failed alone.
func (s Step) repeat(f Finding) string {
	if f.Package == "" {
		return s.shell(s.test(s.Packages, f.Test))
	}
	return s.shell(s.test([]string{f.Package}, f.Test))
}

// shell returns a command as a person would type it in the root of the checkout.
func (s Step) shell(args []string) string {
	var b strings.Builder
	if s.Dir != "" && s.Dir != "." {
		fmt.Fprintf(&b, "cd %s && ", s.Dir)
	}
	if s.Lab != "" {
		fmt.Fprintf(&b, "JOURNALET_TEST_CRI_ENDPOINT=$(LAB_NAME=%s deploy/lab/lab.sh endpoint) ", s.Lab)
	}
	for _, e := range s.Env {
		if !strings.HasPrefix(e, "JOURNALET_TEST_CRI_ENDPOINT=") {
			b.WriteString(e + " ")
		}
	}
	for i, a := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		if strings.ContainsAny(a, "^$|()* ") {
			a = "'" + a + "'"
		}
		b.WriteString(a)
	}
	return b.String()
}

// lab brings a lab up, and returns the endpoint of its containerd.
func (g *gate) lab(ctx context.Context, name string, out io.Writer) (string, error) {
	up := Step{Command: []string{"deploy/lab/lab.sh", "up"}, Env: []string{"LAB_NAME=" + name}, Environment: true}
	if found, _ := g.command(ctx, up, out); found != nil {
		return "", errors.New(strings.Join(found[0].Lines, "\n"))
	}
	var endpoint bytes.Buffer
	err := g.exec(ctx, up, []string{"deploy/lab/lab.sh", "endpoint"}, &endpoint)
	return strings.TrimSpace(endpoint.String()), err
}

// exec runs a command with its children in a group of their own: they end with it if the gate is interrupted.
func (g *gate) exec(ctx context.Context, s Step, args []string, out io.Writer) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // of tiers.go
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join(g.root, s.Dir), out, out
	cmd.Env = append(append(os.Environ(), "LAB_CONTAINERD="+cmp.Or(os.Getenv("LAB_CONTAINERD"), "built")), s.Env...)
	if g.keep != "" {
		cmd.Env = append(cmd.Env, keepIn+"="+g.keep)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	return cmd.Run()
}

func tail(log string, most int) []string {
	lines := strings.Split(strings.TrimRight(log, "\n"), "\n")
	return lines[max(0, len(lines)-most):]
}
