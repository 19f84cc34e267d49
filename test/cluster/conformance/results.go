package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// results are what became of specs, in a file: a run that was interrupted goes on where it was.
type results struct {
	path string

	mutex sync.Mutex
	// Programs is a sum of the agent's program and the tests': what others have passed counts for nothing.
	Programs string
	Specs    map[string]storedResult // by their text
	// added of due results of this run are there.
	added, due int
}

type storedResult struct {
	State string
	Took  float64
	Why   string
}

// openResults reads the results of an earlier run with the same program of the nodes and the same program of the tests,
// e2e. With -only or -again, there are none.
func openResults(o options, e2e string) (*results, error) {
	sum, err := sumOf(o.program, e2e)
	if err != nil {
		return nil, fmt.Errorf("the programs of the nodes and the tests: %w; run `make build`", err)
	}
	r := &results{path: filepath.Join(o.out, "results-"+o.agent+".json"), Programs: sum, Specs: map[string]storedResult{}}
	if o.only != "" {
		r.path = filepath.Join(o.out, "results-only.json")
		return r, nil
	}
	b, err := os.ReadFile(r.path)
	if errors.Is(err, fs.ErrNotExist) || o.again {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	var earlier results
	if err := json.Unmarshal(b, &earlier); err != nil {
		return nil, fmt.Errorf("%s: %w; -again begins anew", r.path, err)
	}
	if earlier.Programs == sum {
		r.Specs = earlier.Specs
	}
	return r, nil
}

func sumOf(programs ...string) (string, error) {
	h := sha256.New()
	for _, program := range programs {
		f, err := os.Open(program)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(h, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// missing returns the specs that have not passed yet, and the specs that one process runs with them. The results of all
// these specs are due now.
func (r *results) missing(specs []spec) []spec {
	var missing []spec
	for _, together := range inOneProcess(specs) {
		if slices.ContainsFunc(together, func(s spec) bool { return r.Specs[s.text].State != passed }) {
			missing = append(missing, together...)
		}
	}
	r.added, r.due = 0, len(missing)
	return missing
}

// add stores results and prints them.
func (r *results) add(all []result) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, got := range all {
		r.added++
		fmt.Printf("%4d/%d  %-8s %6.1f s  %s\n", r.added, r.due, got.state, got.took, got.text)
		if got.state != passed {
			fmt.Printf("      %s\n", short(got.why))
		}
		r.Specs[got.text] = storedResult{State: got.state, Took: got.took, Why: got.why}
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	part := r.path + ".part"
	if err := os.WriteFile(part, b, 0o600); err != nil {
		return err
	}
	return os.Rename(part, r.path)
}

// all returns the results of specs by name.
func (r *results) all(specs []spec) []result {
	found := make([]result, len(specs))
	for i, s := range specs {
		found[i] = result{spec: s, state: "not run"}
		if got, ran := r.Specs[s.text]; ran {
			found[i] = result{spec: s, state: got.State, took: got.Took, why: got.Why}
		}
	}
	slices.SortFunc(found, func(a, b result) int { return strings.Compare(a.text, b.text) })
	return found
}

// writeTimes stores what each spec took in a file of such times, - for a spec that did not pass.
func writeTimes(path string, all []result) error {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	times := map[string]string{}
	for line := range strings.Lines(string(b)) {
		text, seconds, _ := strings.Cut(strings.TrimSpace(line), "\t")
		times[text] = seconds
	}
	for _, r := range all {
		times[r.text] = "-"
		if r.state == passed {
			times[r.text] = fmt.Sprintf("%.1f", max(r.took, 0.1)) // 0 is a time that nobody knows
		}
	}
	var text strings.Builder
	for _, spec := range slices.Sorted(maps.Keys(times)) {
		fmt.Fprintf(&text, "%s\t%s\n", spec, times[spec])
	}
	return os.WriteFile(path, []byte(text.String()), 0o644) //nolint:gosec // a part of the checkout
}
