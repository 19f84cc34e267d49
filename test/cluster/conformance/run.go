package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// specTimeout is ginkgo's bound for one spec: the longest takes some ten minutes.
	specTimeout = "30m"
	// endTimeout is how long an interrupted spec may take to delete its namespaces.
	endTimeout = time.Minute
)

// result is what became of one spec.
type result struct {
	spec
	state string // passed, failed, ...: ginkgo's words; "not run" if there is no report of it
	took  float64
	why   string // the first line of a failure's message
}

// runner runs the test program of upstream, once for each spec or ordered container of specs.
type runner struct {
	program, suite string   // suite is upstream's name of all specs of the program
	args, env      []string // for all specs
	dir            string   // the working directory
	out            string
	workers        int
}

// report is the part of ginkgo's JSON report that we read.
type report struct{ SpecReports []specReport }

type specReport struct {
	ContainerHierarchyTexts     []string
	ContainerHierarchyLocations []location
	LeafNodeText                string
	LeafNodeType                string
	State                       string
	RunTime                     time.Duration
	Failure                     struct{ Message string }
}

// text is the full text of a spec, as ginkgo matches it: a container without a text adds nothing.
func (s *specReport) text() string {
	texts := append(slices.Clone(s.ContainerHierarchyTexts), s.LeafNodeText)
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), " ")
}

// runAll runs the specs without a result, several at a time and then the serial ones, and stores their results as they
// come. After an interrupt it starts no further one.
func (r runner) runAll(ctx context.Context, specs []spec, stored *results) error {
	missing := stored.missing(specs)
	if n := len(specs) - len(missing); n > 0 {
		progress("%d of %d specs have passed in a run before: -again runs them again", n, len(specs))
	}
	var beside errgroup.Group
	beside.SetLimit(r.workers)
	var serial [][]spec
	for _, specs := range inOneProcess(missing) {
		switch {
		case ctx.Err() != nil:
		case slices.ContainsFunc(specs, spec.serial):
			serial = append(serial, specs)
		default:
			beside.Go(func() error { return stored.add(r.run(ctx, specs)) })
		}
	}
	failed := beside.Wait()
	for _, specs := range serial {
		if ctx.Err() == nil {
			failed = errors.Join(failed, stored.add(r.run(ctx, specs)))
		}
	}
	return failed
}

// run runs the specs of one process. A spec that the report lacks has not run.
func (r runner) run(ctx context.Context, specs []spec) []result {
	name := fileName(specs[0].text)
	file := filepath.Join(r.out, "specs", name+".json")
	err := r.e2e(ctx, filepath.Join(r.out, "specs", name+".log"), file, specs[0].focus(r.suite))
	reports, readErr := read(file)
	all := make([]result, len(specs))
	for i, s := range specs {
		got, ok := reports[s.text]
		if got.spec = s; !ok {
			got.state = "not run"
			if err := errors.Join(err, readErr); err != nil {
				got.why = firstLine(err.Error())
			}
		}
		all[i] = got
	}
	return all
}

// maxFileName is the length of names of files with logs and reports: with an ending, it is below the 255 bytes of
// Linux.
const maxFileName = 200

// fileName returns the text of a spec as a name for files, which no other spec has.
func fileName(text string) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-", r) {
			return r
		}
		return '_'
	}, text)
	sum := sha256.Sum256([]byte(text))
	end := "-" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), maxFileName-len(end))] + end
}

func (r runner) e2e(ctx context.Context, log, file, focus string) error {
	if err := os.MkdirAll(filepath.Dir(log), 0o750); err != nil {
		return err
	}
	f, err := os.Create(log)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := os.RemoveAll(file); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, r.program, append(slices.Clone(r.args), //nolint:gosec // ours
		"--ginkgo.focus="+focus, "--ginkgo.v", "--ginkgo.no-color", "--ginkgo.timeout="+specTimeout,
		"--ginkgo.json-report="+file)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = r.dir, r.env, f, f
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = endTimeout
	return cmd.Run()
}

// read returns the results of a report by the full text of their specs.
func read(file string) (map[string]result, error) {
	reports, err := readReport(file)
	all := map[string]result{}
	for i := range reports {
		s := &reports[i]
		if s.LeafNodeType != "It" || s.State == "skipped" && s.Failure.Message == "" {
			continue // it is not in focus
		}
		all[s.text()] = result{state: s.State, took: s.RunTime.Seconds(), why: firstLine(s.Failure.Message)}
	}
	return all, err
}

// readReport reads a report of ginkgo.
func readReport(file string) ([]specReport, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var suites []report
	if err := json.Unmarshal(b, &suites); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var all []specReport
	for _, s := range suites {
		all = append(all, s.SpecReports...)
	}
	return all, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
