package arch

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
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

func (p *passage) add(line int, text string) {
	if p.text != "" {
		p.text += " "
	}
	p.lines = append(p.lines, lineStart{len(p.text), line})
	p.text += strings.TrimSpace(text)
}

// lineAt returns the line of the file that the byte at offset is from.
func (p *passage) lineAt(offset int) int {
	i := sort.Search(len(p.lines), func(i int) bool { return p.lines[i].offset > offset })
	return p.lines[max(i-1, 0)].line
}

// passages returns everything of the tree that is written for a reader, generated code left out.
func (t *tree) passages() ([]passage, error) {
	var out []passage
	for _, f := range t.gos {
		out = append(out, one(f.path, names, 0, pathWords(f.path)))
		if !f.generated {
			out = append(out, t.goPassages(f)...)
		}
	}
	for _, name := range slices.Concat(t.text, t.data) {
		raw, err := os.ReadFile(filepath.Join(t.root, name))
		if err != nil {
			return nil, err
		}
		lines := strings.Split(string(raw), "\n")
		out = append(out, one(name, names, 0, pathWords(name)))
		switch path.Ext(name) {
		case ".md":
			out = append(out, markdownPassages(name, lines)...)
		case ".proto":
			out = append(out, protoPassages(name, lines)...)
		default:
			out = append(out, scriptPassages(name, lines)...)
		}
	}
	return out, nil
}

func one(name string, k kind, line int, text string) passage {
	p := passage{path: name, kind: k}
	p.add(line, text)
	return p
}

// pathWords returns the words of a file's name, and of its directory's where the file stands for it.
func pathWords(name string) string {
	base := path.Base(name)
	if base == "doc.go" || path.Ext(base) == "" {
		base = path.Base(path.Dir(name)) + " " + base
	}
	return strings.NewReplacer("_", " ", "-", " ", ".", " ").Replace(base)
}

func (t *tree) goPassages(f *sourceFile) []passage {
	var out []passage
	for _, group := range f.ast.Comments {
		p := passage{path: f.path, kind: comments}
		for _, c := range group.List {
			line := t.fset.Position(c.Pos()).Line
			for i, text := range strings.Split(c.Text, "\n") {
				p.add(line+i, strings.TrimPrefix(strings.TrimSpace(text), "//"))
			}
		}
		out = append(out, p)
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if _, ok := n.(*ast.ImportSpec); ok {
			return false
		}
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if value, err := strconv.Unquote(lit.Value); err == nil && value != "" {
				p := passage{path: f.path, kind: literals}
				line := t.fset.Position(lit.Pos()).Line
				for i, text := range strings.Split(value, "\n") {
					if lit.Value[0] == '"' {
						i = 0
					}
					p.add(line+i, text)
				}
				out = append(out, p)
			}
		}
		for _, id := range declared(n) {
			if id.Name != "_" {
				out = append(out, one(f.path, names, t.fset.Position(id.Pos()).Line, split(id.Name)))
			}
		}
		return true
	})
	return out
}

// declared returns the names that n itself declares.
func declared(n ast.Node) []*ast.Ident {
	var exprs []ast.Expr
	switch n := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	case *ast.LabeledStmt:
		return []*ast.Ident{n.Label}
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			exprs = n.Lhs
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			exprs = []ast.Expr{n.Key, n.Value}
		}
	}
	var out []*ast.Ident
	for _, e := range exprs {
		if id, ok := e.(*ast.Ident); ok {
			out = append(out, id)
		}
	}
	return out
}

var (
	camel      = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)
	protoNames = regexp.MustCompile(`^\s*(?:message|enum|service|rpc|oneof)\s+(\w+)|(\w+)\s*=\s*\d+`)
)

// split writes an identifier as words: sourceFile and SOURCE_FILE as "source file".
func split(name string) string {
	for range 2 { // matches do not overlap
		name = camel.ReplaceAllString(name, "$1$3 $2$4")
	}
	return strings.TrimSpace(strings.ReplaceAll(name, "_", " "))
}

// markdownPassages reads a paragraph as one, and the lines of a code block as what a program prints.
func markdownPassages(name string, lines []string) []passage {
	var out []passage
	var paragraph passage
	end := func() {
		if paragraph.text != "" {
			out = append(out, paragraph)
		}
		paragraph = passage{path: name, kind: docs}
	}
	code := false
	for i, text := range lines {
		trimmed := strings.TrimSpace(text)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			code = !code
			end()
		case code:
			out = append(out, one(name, literals, i+1, text))
		case trimmed == "":
			end()
		case strings.HasPrefix(trimmed, "|"):
			end()
			out = append(out, one(name, docs, i+1, text))
		default:
			if paragraph.path == "" {
				end()
			}
			paragraph.add(i+1, text)
		}
	}
	end()
	return out
}

func protoPassages(name string, lines []string) []passage {
	var out []passage
	var comment passage
	for i, text := range append(slices.Clone(lines), "") {
		code, text, isComment := strings.Cut(text, "//")
		if comment.text != "" && (!isComment || strings.TrimSpace(code) != "") {
			out, comment = append(out, comment), passage{}
		}
		if isComment {
			comment.path, comment.kind = name, comments
			comment.add(i+1, text)
		}
		for _, m := range protoNames.FindAllStringSubmatch(code, -1) {
			out = append(out, one(name, names, i+1, split(m[1]+m[2])))
		}
	}
	return out
}

// scriptPassages reads what begins with a # as comments, the rest as what a program prints: of scripts, configuration
// and scenarios.
func scriptPassages(name string, lines []string) []passage {
	var out []passage
	var comment passage
	for i, text := range append(slices.Clone(lines), "") {
		rest, isComment := strings.CutPrefix(strings.TrimSpace(text), "#")
		if isComment {
			comment.path, comment.kind = name, comments
			comment.add(i+1, rest)
			continue
		}
		if comment.text != "" {
			out, comment = append(out, comment), passage{}
		}
		if rest != "" {
			out = append(out, one(name, literals, i+1, text))
		}
	}
	return out
}
