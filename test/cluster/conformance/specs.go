package main

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// lists are the selections of specs of CSI drivers, and what specs took with a kubelet: a line each with the text of a
// spec and its seconds, - if they are not known.
//
//go:embed kubelet.tsv storage.tsv hostpath.tsv
var lists embed.FS

// labels are what upstream labels the specs of a list with.
var labels = map[string]string{
	conformance: "[Conformance]", nodes: "[NodeConformance]", e2eNode: "[NodeConformance]",
}

// unknownSeconds is what a spec without a known time counts for.
const unknownSeconds = 20

// spec is one test of upstream by its full text, without labels.
type spec struct {
	text    string
	seconds float64 // of a kubelet; 0: not known
	// ordered are the texts of all specs of its ordered container, its own among them: upstream runs them in one process,
	// one after the other, and the first prepares what the others look at. nil: it is in no such container.
	ordered []string
}

// serial reports whether upstream says that no other spec may run beside this one.
func (s spec) serial() bool {
	return strings.Contains(s.text, "[Serial]") || strings.Contains(s.text, "[Disruptive]")
}

// selected returns the specs of a list, the longest first: each spec that matches the option only and does not match
// the option skip.
func selected(ctx context.Context, program string, o options) ([]spec, error) {
	specs, err := listed(ctx, program, o.list)
	if err != nil {
		return nil, err
	}
	take, err := regexp.Compile(o.only)
	if err != nil {
		return nil, err
	}
	leave, err := regexp.Compile(cmp.Or(o.skip, "^$"))
	if err != nil {
		return nil, err
	}
	specs = slices.DeleteFunc(specs, func(s spec) bool {
		return !take.MatchString(s.text) || leave.MatchString(s.text)
	})
	if len(specs) == 0 {
		return nil, fmt.Errorf("no spec matches %q", o.only)
	}
	slices.SortStableFunc(specs, func(a, b spec) int {
		return cmp.Compare(cmp.Or(b.seconds, unknownSeconds), cmp.Or(a.seconds, unknownSeconds))
	})
	return specs, nil
}

// listed returns the specs of a list.
func listed(ctx context.Context, program, list string) ([]spec, error) {
	if _, isLabel := labels[list]; !isLabel {
		return readList(list)
	}
	reports, err := dryRun(ctx, program)
	if err != nil {
		return nil, fmt.Errorf("list the specs: %w", err)
	}
	known, err := readList(kubelet)
	if err != nil {
		return nil, err
	}
	seconds := map[string]float64{}
	for _, s := range known {
		seconds[s.text] = s.seconds
	}
	specs, err := labelled(reports, list)
	for i := range specs {
		specs[i].seconds = seconds[specs[i].text]
	}
	return specs, err
}

// dryRun returns what the test program reports of all its specs, without running them.
func dryRun(ctx context.Context, program string) ([]specReport, error) {
	dir, err := os.MkdirTemp("", "jl-specs-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "report.json")
	args := []string{"--ginkgo.dry-run", "--ginkgo.json-report=" + file}
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // ours
	cmd.Dir = dir                                     // specs of a node leave a directory where they are
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return readReport(file)
}

// labelled returns the specs of a list by upstream's label. Those of nodes are not for conformance, too.
func labelled(reports []specReport, list string) ([]spec, error) {
	var specs []spec
	seen := map[string]bool{} // what a table generates has one text more than once
	containers, members, code := map[string]string{}, map[string][]string{}, sources{}
	for i := range reports {
		text := reports[i].text()
		if reports[i].LeafNodeType != "It" || seen[text] {
			continue
		}
		seen[text] = true
		container, err := code.ordered(reports[i].ContainerHierarchyLocations)
		if err != nil {
			return nil, err
		}
		if container != "" {
			containers[text], members[container] = container, append(members[container], text)
		}
		if strings.Contains(text, labels[list]) && !(list == nodes && strings.Contains(text, labels[conformance])) {
			specs = append(specs, spec{text: text})
		}
	}
	for i := range specs {
		specs[i].ordered = members[containers[specs[i].text]]
	}
	return specs, nil
}

// location is a place in upstream's code.
type location struct {
	FileName   string
	LineNumber int
}

// sources are files of upstream's code by name, line by line.
type sources map[string][]string

// ordered returns which of the containers around a spec, the outermost first, is the first that upstream declares
// Ordered; empty if none is. Reports of ginkgo do not say so, but the line of the declaration does.
func (s sources) ordered(containers []location) (string, error) {
	for _, at := range containers {
		if s[at.FileName] == nil {
			b, err := os.ReadFile(at.FileName)
			if err != nil {
				return "", fmt.Errorf("the code of the specs: %w", err)
			}
			s[at.FileName] = strings.Split(string(b), "\n")
		}
		lines := s[at.FileName]
		if at.LineNumber < 1 || at.LineNumber > len(lines) {
			return "", fmt.Errorf("%s has no line %d: the test program is of other code", at.FileName, at.LineNumber)
		}
		if strings.Contains(lines[at.LineNumber-1], "ginkgo.Ordered") {
			return fmt.Sprintf("%s:%d", at.FileName, at.LineNumber), nil
		}
	}
	return "", nil
}

// readList reads a file of lists.
func readList(list string) ([]spec, error) {
	selection, err := lists.ReadFile(list + ".tsv")
	if err != nil {
		return nil, fmt.Errorf("-list %s: %w; there are conformance, node, e2e-node, storage and hostpath", list, err)
	}
	var specs []spec
	for line := range strings.Lines(string(selection)) {
		text, seconds, _ := strings.Cut(strings.TrimSpace(line), "\t")
		s := spec{text: text}
		if seconds != "-" {
			if s.seconds, err = strconv.ParseFloat(seconds, 64); err != nil {
				return nil, fmt.Errorf("%s.tsv: %s: %w", list, text, err)
			}
		}
		specs = append(specs, s)
	}
	return specs, nil
}

// The names that upstream gives all specs of its program for clusters, and of its program for one node.
const (
	clusterSuite = "Kubernetes e2e suite"
	nodeSuite    = "E2eNode Suite"
)

// focus is the regular expression that matches what one process of a suite runs for this spec, and no other: ginkgo
// matches the suite with a space and the text of a spec.
func (s spec) focus(suite string) string {
	if s.ordered == nil {
		return "^" + suite + " " + regexp.QuoteMeta(s.text) + "$"
	}
	texts := make([]string, len(s.ordered))
	for i, text := range s.ordered {
		texts[i] = regexp.QuoteMeta(text)
	}
	return "^" + suite + " (" + strings.Join(texts, "|") + ")$"
}

// inOneProcess returns specs by the process that runs them, in the order of the first of each.
func inOneProcess(specs []spec) [][]spec {
	var all [][]spec
	places := map[string]int{} // by the first spec of an ordered container
	for _, s := range specs {
		if s.ordered == nil {
			all = append(all, []spec{s})
			continue
		}
		at, known := places[s.ordered[0]]
		if !known {
			at, all = len(all), append(all, nil)
			places[s.ordered[0]] = at
		}
		all[at] = append(all[at], s)
	}
	return all
}
