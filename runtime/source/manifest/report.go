package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// report gathers the problems of one pod and finds their lines in its tree.
type report struct {
	path     string
	prefix   string // of the field, such as items[2], for a pod in a list
	root     *node
	problems []Problem
	warnings []string
}

func (r *report) full() bool { return len(r.problems) > maxProblems }

func (r *report) add(line int, at string, code Code, message, remedy string) {
	if r.full() {
		return
	}
	r.problems = append(r.problems, Problem{Path: r.path, Line: line, Field: join(r.prefix, at), Code: code,
		Message: message, Remedy: remedy})
}

func (r *report) addAt(at string, code Code, message, remedy string) {
	r.add(r.root.lineOf(at, nil), at, code, message, remedy)
}

func (r *report) warn(at, message string) {
	if len(r.warnings) < maxProblems {
		p := Problem{Path: r.path, Line: r.root.lineOf(at, nil), Field: join(r.prefix, at), Message: message}
		r.warnings = append(r.warnings, p.Error())
	}
}

const (
	notYetMessage = "not carried out by this version"
	notYetRemedy  = "remove it, or run this pod with an agent that carries it out"
)

// serverFields are those that nobody but an API server makes something of: mostly of a pod that was read from one and written into a file.
var serverFields = []string{
	"metadata.generateName", "metadata.selfLink", "metadata.resourceVersion", "metadata.generation", "metadata.deletionTimestamp",
	"metadata.deletionGracePeriodSeconds", "metadata.ownerReferences", "metadata.managedFields", "metadata.finalizers",
}

func (r *report) notYet(at, what string) {
	if slices.Contains(serverFields, at) {
		r.addAt(at, CodeNotYet, "it means something to an API server only", "remove it")
		return
	}
	message := notYetMessage
	if what != "" {
		message = what + " is " + notYetMessage
	}
	r.addAt(at, CodeNotYet, message, notYetRemedy)
}

// invalid takes over what the Kubernetes helpers and our own rules found.
func (r *report) invalid(errs field.ErrorList) {
	for _, e := range errs {
		if r.full() {
			return
		}
		code, remedy := codeOf(e.Type)
		r.add(r.root.lineOf(e.Field, e.BadValue), e.Field, code, e.ErrorBody(), remedy)
	}
}

func codeOf(t field.ErrorType) (Code, string) {
	switch t {
	case field.ErrorTypeRequired:
		return CodeRequired, "add it"
	case field.ErrorTypeDuplicate:
		return CodeDuplicate, "give each its own value"
	case field.ErrorTypeNotSupported:
		return CodeUnsupported, "write one of the supported values"
	case field.ErrorTypeNotFound:
		return CodeNotFound, "add what it refers to, or correct the name"
	}
	return CodeInvalid, "correct the value"
}

// sorted gives the problems in the order of the file, each field and code once.
func (r *report) sorted() []Problem {
	// Maps are validated in any order, so the order must not come from there.
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Field, b.Field),
			cmp.Compare(specificity(a.Code), specificity(b.Code)), cmp.Compare(a.Message, b.Message))
	})
	seen := map[string]bool{}
	kept := r.problems[:0:0]
	for _, p := range r.problems {
		key := p.Field + "\x00" + p.Message
		if p.Code == CodeStaticPod || p.Code == CodeNotYet {
			key = p.Field
		}
		if !seen[key] && !r.insideRefused(p) {
			seen[key] = true
			kept = append(kept, p)
		}
	}
	return kept
}

// insideRefused tells whether a problem is with the value of a field that has to go anyway.
func (r *report) insideRefused(p Problem) bool {
	return p.Code != CodeStaticPod && p.Code != CodeNotYet && p.Code != CodeUnknownField && slices.ContainsFunc(r.problems, func(q Problem) bool {
		return q.Code == CodeNotYet && (strings.HasPrefix(p.Field, q.Field+"[") || strings.HasPrefix(p.Field, q.Field+"."))
	})
}

// specificity puts the static pod rules first, for they say more than the list of what is carried out.
func specificity(c Code) int {
	switch c {
	case CodeStaticPod:
		return 0
	case CodeNotYet:
		return 2
	}
	return 1
}

// limit bounds the problems of a whole manifest.
func limit(path string, problems []Problem) []Problem {
	if len(problems) <= maxProblems {
		return problems
	}
	return append(problems[:maxProblems:maxProblems], Problem{Path: path, Code: CodeTooMany,
		Message: fmt.Sprintf("more than %d problems; the rest is left out", maxProblems), Remedy: "mend these first"})
}
