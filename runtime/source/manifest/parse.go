package manifest

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
)

// fault is a problem found before a document is known to be a pod.
type fault struct {
	line    int
	code    Code
	message string
	remedy  string
}

func (f *fault) Error() string { return f.message }

// document is one document of a manifest: its tree, or a fault of this document only.
type document struct {
	root  *node
	fault *fault
}

// source is the text of a manifest, and what it may still cost.
type source struct {
	data   []byte
	breaks []int32 // offsets of the newlines; nil: not looked for yet
	values int     // that its documents may still have, aliases expanded
	bytes  int     // the same for bytes
}

// parse splits a manifest into documents, without empty ones. A fault means that the whole manifest is unusable. What
// it costs is bounded by maxFileValues and maxFileBytes, and by the size of the manifest.
func parse(data []byte) ([]document, *fault) {
	s := &source{data: data, values: maxFileValues, bytes: maxFileBytes}
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	if len(trimmed) > 0 && trimmed[0] == '{' {
		// JSON has escapes (surrogate pairs) and long keys that a YAML parser refuses.
		if docs, fault, ok := s.parseJSON(); ok {
			return docs, fault
		}
	}
	return s.parseYAML()
}

// line returns the text of a line, nil if the file has no such line.
func (s *source) line(n int) []byte {
	s.findBreaks()
	if n < 1 || n > len(s.breaks)+1 {
		return nil
	}
	from, to := 0, len(s.data)
	if n > 1 {
		from = int(s.breaks[n-2]) + 1
	}
	if n <= len(s.breaks) {
		to = int(s.breaks[n-1])
	}
	return s.data[from:to]
}

func (s *source) findBreaks() {
	if s.breaks != nil || len(s.data) > math.MaxInt32 {
		return
	}
	s.breaks = slices.Grow([]int32{}, bytes.Count(s.data, []byte("\n")))
	for i, b := range s.data {
		if b == '\n' {
			s.breaks = append(s.breaks, int32(i))
		}
	}
}

// hint improves the message for two frequent mistakes: tabs, and a template without values.
func (s *source) hint(f *fault) *fault {
	if f.code != CodeSyntax {
		return f
	}
	line := s.line(f.line)
	line = line[:min(len(line), maxHintBytes)]
	switch {
	case templateMark(string(line)) != "":
		f.message = "a template without values: " + f.message
		f.remedy = templateRemedy
	case bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("\t")):
		f.remedy = "indent with spaces: this line begins with a tab"
	default:
		if mark := s.documentMark(f.line); mark != "" {
			f.message = "perhaps a template without values, because it has " + mark + ": " + f.message
			f.remedy = templateRemedy + ", or fix the YAML"
		}
	}
	return f
}

const templateRemedy = "render the template, and write the result"

// templateMarks begin what the common template languages replace: Go and Jinja, Jinja's statements, shells and
// envsubst. The last one is what Go writes for a value that is missing.
var templateMarks = []string{"{{", "{%", "${", "<no value>"}

// templateMark returns the first mark of a template in a text, "" if it has none.
func templateMark(text string) string {
	for _, mark := range templateMarks {
		if strings.Contains(text, mark) {
			return mark
		}
	}
	return ""
}

// documentMark returns the mark of a template in the document that has a line, "" if the document has no mark.
func (s *source) documentMark(line int) string {
	begins := func(n int) bool { return bytes.HasPrefix(s.line(n), []byte("---")) }
	from := line
	for from > 1 && !begins(from) {
		from--
	}
	s.findBreaks()
	for n := from; n <= len(s.breaks)+1 && (n == from || !begins(n)); n++ {
		text := s.line(n)
		if mark := templateMark(string(text[:min(len(text), maxHintBytes)])); mark != "" {
			return mark
		}
	}
	return ""
}

// charge returns a document for a tree, if it is within the bounds of one document and of what is left of the file's.
func (s *source) charge(tree *node) document {
	switch {
	case tree.height > maxDepth:
		return document{fault: tooDeep(tree.line)}
	case tree.size > s.values:
		return document{fault: tooMany(tree.line)}
	case tree.bytes > s.bytes:
		return document{fault: &fault{tree.line, CodeTooLarge,
			fmt.Sprintf("more than %d bytes in all documents when aliases are expanded", maxFileBytes), splitRemedy}}
	}
	s.values -= tree.size
	s.bytes -= tree.bytes
	return document{root: tree}
}

const splitRemedy = "split it into several files"

func tooMany(line int) *fault {
	return &fault{line, CodeTooLarge, fmt.Sprintf("more than %d values in all documents when aliases are expanded",
		maxFileValues), splitRemedy}
}

func tooDeep(line int) *fault {
	return &fault{line, CodeTooLarge, fmt.Sprintf("nested deeper than %d levels", maxDepth),
		"no pod is; check the indentation and the aliases"}
}
