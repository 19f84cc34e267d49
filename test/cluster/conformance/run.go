package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// shardTimeout is ginkgo's bound for one shard.
	shardTimeout = "3h"
	// endTimeout is how long an interrupted shard may take to delete its namespaces.
	endTimeout = time.Minute
)

// result is what became of one spec.
type result struct {
	spec
	state string // passed, failed, ...: ginkgo's words; "not run" if there is no report of it
	took  float64
	why   string // the first line of a failure's message
}

// runner runs the test program of upstream.
type runner struct{ program, kubeconfig, out, root string }

// report is the part of ginkgo's JSON report that we read.
type report struct{ SpecReports []specReport }

type specReport struct {
	ContainerHierarchyTexts []string
	LeafNodeText            string
	LeafNodeType            string
	State                   string
	RunTime                 time.Duration
	Failure                 struct{ Message string }
}

// runShards runs the shards side by side and returns the results of all specs by name.
func runShards(ctx context.Context, shards [][]spec, r runner) []result {
	found := make([][]result, len(shards))
	var wg sync.WaitGroup
	for i, specs := range shards {
		wg.Go(func() { found[i] = r.run(ctx, i, specs) })
	}
	wg.Wait()
	all := slices.Concat(found...)
	slices.SortFunc(all, func(a, b result) int { return strings.Compare(a.text, b.text) })
	return all
}

// run runs one shard. A spec that the shard's report lacks has not run; this includes specs that this release does not
// have.
func (r runner) run(ctx context.Context, i int, specs []spec) []result {
	file := filepath.Join(r.out, fmt.Sprintf("shard-%d.json", i))
	err := r.e2e(ctx, i, file, focus(specs))
	reports, readErr := read(file)
	results := make([]result, len(specs))
	for j, s := range specs {
		results[j] = result{spec: s, state: "not run"}
		if got, ok := reports[s.text]; ok {
			got.spec = s
			results[j] = got
		} else if err = errors.Join(err, readErr); err != nil {
			results[j].why = firstLine(err.Error())
		}
	}
	return results
}

func (r runner) e2e(ctx context.Context, i int, file, focus string) error {
	log, err := os.Create(filepath.Join(r.out, fmt.Sprintf("shard-%d.log", i)))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	if err := os.RemoveAll(file); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, r.program, "--provider=local", "--kubeconfig="+r.kubeconfig, //nolint:gosec // ours
		"--num-nodes=1", "--ginkgo.focus="+focus, "--ginkgo.v", "--ginkgo.no-color", "--ginkgo.timeout="+shardTimeout,
		"--ginkgo.json-report="+file, "--disable-log-dump", "--kubelet-root-dir="+r.root)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.out, log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = endTimeout
	return cmd.Run()
}

// read returns the results of a report by the full text of their specs.
func read(file string) (map[string]result, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var reports []report
	if err := json.Unmarshal(b, &reports); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	all := map[string]result{}
	for _, r := range reports {
		for _, s := range r.SpecReports {
			if s.LeafNodeType != "It" || s.State == "skipped" && s.Failure.Message == "" {
				continue // it is not in focus
			}
			text := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
			all[text] = result{state: s.State, took: s.RunTime.Seconds(), why: firstLine(s.Failure.Message)}
		}
	}
	return all, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
