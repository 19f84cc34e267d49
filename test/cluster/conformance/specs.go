package main

import (
	"cmp"
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// lists are the selections, a file each.
//
//go:embed specs.tsv storage.tsv hostpath.tsv
var lists embed.FS

// unknownSeconds is what a spec without a known time counts for.
const unknownSeconds = 20

// spec is one test of upstream by its full text, without labels.
type spec struct {
	text    string
	seconds float64 // of kubelet 1.36.3; 0: not known
}

// weight is what a spec costs a shard: each also takes its time for a namespace of its own.
func (s spec) weight() float64 { return cmp.Or(s.seconds, unknownSeconds) + 1 }

// selected returns the specs of a list that match only, and not skip.
func selected(list, only, skip string) ([]spec, error) {
	selection, err := lists.ReadFile(list + ".tsv")
	if err != nil {
		return nil, fmt.Errorf("-list %s: %w; there are specs, storage and hostpath", list, err)
	}
	take, err := pattern(cmp.Or(only, "."))
	if err != nil {
		return nil, err
	}
	leave, err := pattern(skip)
	if err != nil {
		return nil, err
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
		if take(text) && !leave(text) {
			specs = append(specs, s)
		}
	}
	if len(specs) == 0 {
		return nil, fmt.Errorf("no spec matches %q", only)
	}
	return specs, nil
}

// shard deals specs out to n shards, the longest first and each to the shard that has least.
func shard(specs []spec, n int) [][]spec {
	n = max(1, min(n, len(specs)))
	shards, loads := make([][]spec, n), make([]float64, n)
	for _, s := range slices.SortedStableFunc(slices.Values(specs), func(a, b spec) int {
		return cmp.Compare(b.weight(), a.weight())
	}) {
		least := slices.Index(loads, slices.Min(loads))
		shards[least] = append(shards[least], s)
		loads[least] += s.weight()
	}
	return shards
}

// suite is upstream's name of all its specs. ginkgo matches it with a space and the text of a spec.
const suite = "Kubernetes e2e suite"

// focus is the regular expression that matches these specs and no others.
func focus(specs []spec) string {
	texts := make([]string, len(specs))
	for i, s := range specs {
		texts[i] = regexp.QuoteMeta(s.text)
	}
	return "^" + suite + " (" + strings.Join(texts, "|") + ")$"
}
