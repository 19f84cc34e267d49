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
	prefix   string // of fields, such as items[2] for a pod in a list
	root     *node
	problems []Problem
	warnings []Problem
}

func (r *report) full() bool { return len(r.problems) > MaxProblems }

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
	if len(r.warnings) < MaxProblems {
		p := Problem{Path: r.path, Line: r.root.lineOf(at, nil), Field: join(r.prefix, at), Message: message}
		r.warnings = append(r.warnings, p)
	}
}

// invalid adds the errors of the Kubernetes helpers and of this package's rules.
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

// sorted returns the problems in the order of the file, each field and code once.
func (r *report) sorted() []Problem {
	// Maps are validated in random order.
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
	return r.unrendered(kept)
}

// unrendered reports the values that are parts of a template as one problem, because they have one cause. The first of
// them keeps its place and its message.
func (r *report) unrendered(all []Problem) []Problem {
	kept, found := all[:0:0], -1
	for _, p := range all {
		mark := ""
		if p.Code != CodeDuplicate {
			mark = r.markAt(p.Field)
		}
		switch {
		case mark == "":
			kept = append(kept, p)
		case found < 0:
			found = len(kept)
			p.Message, p.Remedy = "a template without values: "+p.Message, templateRemedy
			kept = append(kept, p)
		}
	}
	return kept
}

// markAt returns the mark of a template in the name or the value of a field, "" if it has none.
func (r *report) markAt(at string) string {
	path := strings.TrimPrefix(strings.TrimPrefix(at, r.prefix), ".")
	if mark := templateMark(path); mark != "" {
		return mark
	}
	n := r.root
	for path != "" && n != nil {
		var step string
		step, path = nextStep(path)
		n, _ = n.step(step)
	}
	text, _ := n.text()
	return templateMark(text)
}

// insideRefused reports whether a problem is inside an unsupported field, which must be removed anyway.
func (r *report) insideRefused(p Problem) bool {
	if p.Code == CodeStaticPod || p.Code == CodeNotYet || p.Code == CodeUnknownField {
		return false
	}
	return slices.ContainsFunc(r.problems, func(q Problem) bool {
		return q.Code == CodeNotYet && (strings.HasPrefix(p.Field, q.Field+"[") || strings.HasPrefix(p.Field, q.Field+"."))
	})
}

// specificity orders the static pod rules before unsupported fields, because their messages are more specific.
func specificity(c Code) int {
	switch c {
	case CodeStaticPod:
		return 0
	case CodeNotYet:
		return 2
	}
	return 1
}

// problems are the first problems of a manifest, and how many more there are.
type problems struct {
	kept []Problem
	more int
}

func (p *problems) add(all ...Problem) {
	room := min(len(all), MaxProblems-len(p.kept))
	p.kept = append(p.kept, all[:room]...)
	p.more += len(all) - room
}

// limited returns the problems, with one more for the omitted problems.
func (p *problems) limited(path string) []Problem {
	if p.more == 0 {
		return p.kept
	}
	return append(p.kept, Problem{Path: path, Code: CodeTooMany,
		Message: fmt.Sprintf("at least %d more problems", p.more), Remedy: "fix these first"})
}
