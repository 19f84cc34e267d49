package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of width, in characters; a tab is one.
const (
	maxColumns    = 120
	maxRowColumns = 600 // of a Markdown table, whose rows cannot be wrapped
)

// urls finds what cannot be wrapped.
var urls = regexp.MustCompile(`(?:https?://|\]\()\S+`)

// checkColumns holds Go, protobuf, scripts and documents to the limits.
func checkColumns(t *tree) ([]finding, error) {
	var out []finding
	check := func(name string, exempt map[int]bool) error {
		raw, err := os.ReadFile(filepath.Join(t.root, name))
		if err != nil {
			return err
		}
		for i, text := range strings.Split(string(raw), "\n") {
			limit := maxColumns
			if path.Ext(name) == ".md" && strings.HasPrefix(strings.TrimSpace(text), "|") {
				limit = maxRowColumns
			}
			width := utf8.RuneCountInString(text)
			if width <= limit || exempt[i+1] || limit == maxColumns && urls.MatchString(text) {
				continue
			}
			out = append(out, finding{path: name, line: i + 1, text: fmt.Sprintf("%d columns, at most %d", width, limit)})
		}
		return nil
	}
	for _, f := range t.gos {
		if f.generated {
			continue
		}
		if err := check(f.path, t.rawLines(f)); err != nil {
			return nil, err
		}
	}
	for _, name := range t.text {
		if !slices.Contains([]string{".md", ".proto", ".sh"}, path.Ext(name)) {
			continue
		}
		if err := check(name, nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// rawLines are the lines of f that begin within a raw string: data, which keeps its own lines. Compiler directives are
// one line too.
func (t *tree) rawLines(f *sourceFile) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && lit.Value[0] == '`' {
			for l := t.fset.Position(lit.Pos()).Line + 1; l <= t.fset.Position(lit.End()).Line; l++ {
				lines[l] = true
			}
		}
		return true
	})
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:") {
				lines[t.fset.Position(c.Pos()).Line] = true
			}
		}
	}
	return lines
}
