package corpus

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/source/manifest"
)

// nodeName is the node of every verdict.
const nodeName = "node-1"

// Verdict is what a node without a cluster decides about a file.
type Verdict struct {
	File
	// Decoded are the pods that it has on a node with a token file for each service account.
	Decoded  []*corev1.Pod
	Problems []manifest.Problem
	Warnings int
	// WithToken reports whether it is accepted on a node that has a token file for each service account.
	WithToken bool
}

// Accepted reports whether the node takes the whole file.
func (v *Verdict) Accepted() bool { return len(v.Problems) == 0 }

// Judge decides about a file. It reads nothing.
func Judge(f File) Verdict {
	v := Verdict{File: f}
	parsed, problems := manifest.Decode(f.Name, f.Text, manifest.Options{NodeName: nodeName})
	v.Problems = problems
	for _, p := range parsed {
		v.Warnings += len(p.Warnings)
	}
	parsed, problems = manifest.Decode(f.Name, f.Text, manifest.Options{NodeName: nodeName, HasToken: anyToken})
	v.WithToken = len(problems) == 0
	for _, p := range parsed {
		v.Decoded = append(v.Decoded, p.Pod)
	}
	return v
}

func anyToken(string, string) bool { return true }

// Report describes the verdicts: how many files are accepted, and what keeps the others out, most first.
func Report(all []Verdict) string {
	var out strings.Builder
	var pods, others, accepted, token, warned, skipped int
	for i := range all {
		switch v := &all[i]; {
		case len(v.Text) == 0:
			skipped++
		case v.Accepted():
			accepted++
			if len(v.Decoded) > 0 {
				pods++
			} else {
				others++
			}
			if v.Warnings > 0 {
				warned++
			}
		case v.WithToken:
			token++
		}
	}
	fmt.Fprintf(&out, "files                          %4d\n", len(all))
	fmt.Fprintf(&out, "  nothing for a node           %4d\n", skipped)
	fmt.Fprintf(&out, "  accepted                     %4d (%d with pods, %d with objects only; %d with warnings)\n",
		accepted, pods, others, warned)
	fmt.Fprintf(&out, "  with a token file, too       %4d\n", token)
	fmt.Fprintf(&out, "  refused                      %4d\n", len(all)-skipped-accepted)
	reasons(&out, all)
	return out.String()
}

// reason is a kind of problem, and the files that have it.
type reason struct {
	key     string
	files   []string
	alone   int // of those, files without another kind
	example manifest.Problem
}

var indexes = regexp.MustCompile(`\[[0-9]+\]`)

// keyOf returns the code and the field of a problem, without indexes. Init containers count as containers.
func keyOf(p *manifest.Problem) string {
	at := strings.Replace(indexes.ReplaceAllString(p.Field, "[]"), "spec.initContainers[]", "spec.containers[]", 1)
	return fmt.Sprintf("%-13s %s", p.Code, cmp.Or(at, "(file)"))
}

func reasons(out *strings.Builder, all []Verdict) {
	by := map[string]*reason{}
	for i := range all {
		v := &all[i]
		keys := map[string]bool{}
		for j := range v.Problems {
			key := keyOf(&v.Problems[j])
			if keys[key] {
				continue
			}
			keys[key] = true
			r := by[key]
			if r == nil {
				r = &reason{key: key, example: v.Problems[j]}
				by[key] = r
			}
			r.files = append(r.files, v.Name)
		}
		if len(keys) == 1 {
			for key := range keys {
				by[key].alone++
			}
		}
	}
	sorted := slices.SortedFunc(maps.Values(by), func(a, b *reason) int {
		return cmp.Or(cmp.Compare(len(b.files), len(a.files)), cmp.Compare(a.key, b.key))
	})
	fmt.Fprintf(out, "what keeps files out: files, of those for this alone, code, field\n")
	for _, r := range sorted {
		fmt.Fprintf(out, "  %4d %4d %s\n            %s\n", len(r.files), r.alone, r.key, r.example.Error())
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
