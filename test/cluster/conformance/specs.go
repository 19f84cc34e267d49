package main

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"os/exec"
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
	out, err := exec.CommandContext(ctx, program, "--list-tests").Output()
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
	specs := labelled(string(out), list)
	for i := range specs {
		specs[i].seconds = seconds[specs[i].text]
	}
	return specs, nil
}

// line is a spec as the test program lists it: the place of its code, and its text.
var line = regexp.MustCompile(`(?m)^\s+\S+:\d+: (.+)$`)

// labelled returns the specs of a list by upstream's label, out of what the test program lists. Those of nodes are not
// for conformance, too.
func labelled(out, list string) []spec {
	var specs []spec
	seen := map[string]bool{} // what a table generates has one text more than once
	for _, m := range line.FindAllStringSubmatch(out, -1) {
		text := m[1]
		if !strings.Contains(text, labels[list]) || list == nodes && strings.Contains(text, labels[conformance]) ||
			seen[text] {
			continue
		}
		seen[text] = true
		specs = append(specs, spec{text: text})
	}
	return specs
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

// focus is the regular expression that matches this spec of a suite and no other: ginkgo matches the suite with a space
// and the text of a spec.
func (s spec) focus(suite string) string { return "^" + suite + " " + regexp.QuoteMeta(s.text) + "$" }
