package arch

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind says what a passage is, so that a word can be banned as a name and allowed in a sentence.
type kind uint8

const (
	names    kind = 1 << iota // identifiers, split into words; names of files
	comments                  // of Go, protobuf, scripts and configuration
	literals                  // string literals, and what programs print
	docs                      // sentences of Markdown
)

// passage is a piece of text that is read as one: a phrase is found although a line ends within it.
type passage struct {
	path  string
	kind  kind
	text  string
	lines []lineStart
}

type lineStart struct{ offset, line int }

// lineAt returns the line of the file that the byte at offset is from.
func (p *passage) lineAt(offset int) int {
	i := sort.Search(len(p.lines), func(i int) bool { return p.lines[i].offset > offset })
	return p.lines[max(i-1, 0)].line
}

// reader cuts a file into passages.
type reader struct {
	path string
	read []passage
	open bool // whether the next line may be of the last passage
}

// more adds a line to the passage that is open, or begins one.
func (r *reader) more(k kind, line int, text string) {
	if !r.open {
		r.read = append(r.read, passage{path: r.path, kind: k})
	}
	r.open = true
	p := &r.read[len(r.read)-1]
	if p.text != "" {
		p.text += " "
	}
	p.lines = append(p.lines, lineStart{len(p.text), line})
	p.text += strings.TrimSpace(text)
}

// one adds a passage of one line.
func (r *reader) one(k kind, line int, text string) {
	r.open = false
	r.more(k, line, text)
	r.open = false
}

// passages returns everything of these kinds that is written for a reader, generated code left out.
func (t *tree) passages(kinds kind) []passage {
	var out []passage
	for _, f := range slices.Concat(t.gos, t.texts) {
		r := &reader{path: f.path}
		r.one(names, 0, pathWords(f.path))
		switch {
		case f.generated:
		case f.ast != nil:
			r.golang(t, f.ast)
		case path.Ext(f.path) == ".md":
			r.markdown(f.lines())
		case path.Ext(f.path) == ".proto":
			r.proto(f.lines())
		default:
			r.script(f.lines())
		}
		out = append(out, r.read...)
	}
	return slices.DeleteFunc(out, func(p passage) bool { return p.kind&kinds == 0 })
}

// pathWords returns the words of a file's name, and of its directory's where the file stands for it.
func pathWords(name string) string {
	base := path.Base(name)
	if base == "doc.go" || path.Ext(base) == "" {
		base = path.Base(path.Dir(name)) + " " + base
	}
	return strings.NewReplacer("_", " ", "-", " ", ".", " ").Replace(base)
}

func (r *reader) golang(t *tree, f *ast.File) {
	for _, group := range f.Comments {
		r.open = false
		for _, c := range group.List {
			for i, text := range strings.Split(c.Text, "\n") {
				r.more(comments, t.line(c.Pos())+i, strings.TrimPrefix(strings.TrimSpace(text), "//"))
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			r.open = false
			value, _ := strconv.Unquote(lit.Value)
			for i, text := range strings.Split(value, "\n") {
				if lit.Value[0] == '"' {
					i = 0
				}
				r.more(literals, t.line(lit.Pos())+i, text)
			}
		}
		for _, e := range declared(n) {
			if id, ok := e.(*ast.Ident); ok && id.Name != "_" {
				r.one(names, t.line(id.Pos()), split(id.Name))
			}
		}
		_, isImport := n.(*ast.ImportSpec)
		return !isImport
	})
}

// declared returns the names that n itself declares; what else it returns is no identifier.
func declared(n ast.Node) (out []ast.Expr) {
	var ids []*ast.Ident
	switch n := n.(type) {
	case *ast.FuncDecl:
		return []ast.Expr{n.Name}
	case *ast.TypeSpec:
		return []ast.Expr{n.Name}
	case *ast.LabeledStmt:
		return []ast.Expr{n.Label}
	case *ast.ValueSpec:
		ids = n.Names
	case *ast.Field:
		ids = n.Names
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			return n.Lhs
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			return []ast.Expr{n.Key, n.Value}
		}
	}
	for _, id := range ids {
		out = append(out, id)
	}
	return out
}

var (
	camel      = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)
	protoNames = regexp.MustCompile(`^\s*(?:message|enum|service|rpc|oneof)\s+(\w+)|(\w+)\s*=\s*\d+`)
)

// split writes an identifier as words: startLost and START_LOST as "start lost".
func split(name string) string {
	for range 2 { // matches do not overlap
		name = camel.ReplaceAllString(name, "$1$3 $2$4")
	}
	return strings.TrimSpace(strings.ReplaceAll(name, "_", " "))
}

// markdown reads a paragraph as one, and the lines of a code block as what a program prints.
func (r *reader) markdown(lines []string) {
	code := false
	for i, text := range lines {
		trimmed := strings.TrimSpace(text)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			code, r.open = !code, false
		case code:
			r.one(literals, i+1, text)
		case trimmed == "":
			r.open = false
		case trimmed[0] == '|':
			r.one(docs, i+1, text)
		default:
			r.more(docs, i+1, text)
		}
	}
}

func (r *reader) proto(lines []string) {
	for i, text := range lines {
		code, comment, isComment := strings.Cut(text, "//")
		r.open = r.open && isComment && strings.TrimSpace(code) == ""
		for _, m := range protoNames.FindAllStringSubmatch(code, -1) {
			r.one(names, i+1, split(m[1]+m[2]))
		}
		if isComment {
			r.more(comments, i+1, comment)
		}
	}
}

// script reads what begins with a # as comments, the rest as what a program prints: of scripts, configuration and
// scenarios.
func (r *reader) script(lines []string) {
	for i, text := range lines {
		if rest, isComment := strings.CutPrefix(strings.TrimSpace(text), "#"); isComment {
			r.more(comments, i+1, rest)
		} else {
			r.one(literals, i+1, text)
		}
	}
}

// Limits of width, in characters; a tab is one.
const (
	maxColumns    = 120
	maxRowColumns = 900 // of a Markdown table, whose rows cannot be wrapped
)

// urls finds what cannot be wrapped, and names no file: URLs, and hosts that end like one.
var urls = regexp.MustCompile(`(?:https?://|\]\()\S+|\b(?:[a-z0-9-]+\.)+dev\b`)

// checkColumns holds Go, protobuf, scripts and documents to the limits.
func checkColumns(t *tree) {
	for _, f := range slices.Concat(t.gos, t.texts) {
		if f.generated || !slices.Contains([]string{".go", ".md", ".proto", ".sh"}, path.Ext(f.path)) {
			continue
		}
		raw := t.rawLines(f.ast)
		if path.Ext(f.path) == ".md" {
			raw = printedLines(f.lines())
		}
		for i, text := range f.lines() {
			limit := maxColumns
			if path.Ext(f.path) == ".md" && strings.HasPrefix(strings.TrimSpace(text), "|") {
				limit = maxRowColumns
			}
			width := utf8.RuneCountInString(text)
			if width > limit && !raw[i+1] && (limit == maxRowColumns || !urls.MatchString(text)) {
				t.report(f.path, i+1, "%d columns, at most %d", width, limit)
			}
		}
	}
}

// printedLines returns the lines of a document that a command prints: the lines of its console and json blocks.
func printedLines(text []string) map[int]bool {
	lines, in := map[int]bool{}, false
	for i, l := range text {
		switch l {
		case "```console", "```json":
			in = true
		case "```":
			in = false
		}
		lines[i+1] = in
	}
	return lines
}

// rawLines are the lines of f that begin within a raw string: data, which keeps its own lines. Compiler directives are
// one line too.
func (t *tree) rawLines(f *ast.File) map[int]bool {
	lines := map[int]bool{}
	if f == nil {
		return nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Value[0] == '`' {
			for l := t.line(lit.Pos()) + 1; l <= t.line(lit.End()); l++ {
				lines[l] = true
			}
		}
		return true
	})
	for _, group := range f.Comments {
		for _, c := range group.List {
			lines[t.line(c.Pos())] = strings.HasPrefix(c.Text, "//go:")
		}
	}
	return lines
}
