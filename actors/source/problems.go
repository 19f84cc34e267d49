package source

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Problem is one thing that keeps a pod of a file from running.
type Problem struct {
	Path string `json:"path"`
	Line uint32 `json:"line,omitempty"` // from 1; 0: the whole file
	// Field is empty where no field is wrong, such as for a pod that is ignored for another one.
	Field string `json:"field,omitempty"`
	Code  string `json:"code"`
	// Pod is its namespace and name; empty when the problem is with the whole file or another object.
	Pod     string `json:"pod,omitempty"`
	Message string `json:"message"`
}

// String returns a line for people, such as "web.yaml:3: spec.containers: Required value".
func (p Problem) String() string {
	text := p.Path
	if p.Line > 0 {
		text = fmt.Sprintf("%s:%d", text, p.Line)
	}
	switch {
	case p.Field != "":
		text += ": " + p.Field
	case p.Pod != "":
		text += ": pod " + p.Pod + " is not run"
	}
	return text + ": " + p.Message
}

const (
	// maxKeptOut bounds the pods of PodsKeptOut, so that a record holds them. What runs of more pods ends as orphans do.
	maxKeptOut = 1000
	// maxFullName is the longest namespace/name of Kubernetes: 63 and 253 bytes.
	maxFullName = 63 + 1 + 253
)

// keptOut returns the pods that problems of the source's manifests keep out, sorted.
func keptOut(s *journaletv1.SourceState) []string {
	var all []string
	for _, path := range slices.Sorted(maps.Keys(s.GetFiles())) {
		for _, p := range s.GetFiles()[path].GetProblems() {
			if name := p.GetPod(); name != "" && len(name) <= maxFullName {
				all = append(all, name)
			}
		}
	}
	all = sortedSet(all)
	return all[:min(len(all), maxKeptOut)]
}

// Problems returns what is wrong in the files of a source, by path and line.
func Problems(s *journaletv1.SourceState) (all []Problem) {
	for _, path := range slices.Sorted(maps.Keys(s.GetFiles())) {
		for _, p := range s.GetFiles()[path].GetProblems() {
			all = append(all, Problem{
				Path: path, Line: p.GetLine(), Field: p.GetField(), Code: p.GetCode(), Pod: p.GetPod(), Message: p.GetMessage(),
			})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.GetIgnored())) {
		ignored := s.GetIgnored()[key].GetIgnored()
		all = append(all, Problem{
			Path: ignored.GetPath(), Code: ignored.GetReason(), Message: ignored.GetMessage(), Pod: fullName(ignored.GetPod()),
		})
	}
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return all
}
