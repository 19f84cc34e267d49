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
)

// scenarioDir holds the scenarios, which documents name without their directory.
const scenarioDir = "test/scenario/testdata"

var (
	adrs     = regexp.MustCompile(`\bADRs? \d{3}(?:(?:, | and |, and )\d{3})*`)
	number   = regexp.MustCompile(`\d{3}`)
	making   = regexp.MustCompile("`make ([a-z][a-z-]*)")
	targets  = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	files    = regexp.MustCompile(`[\w./-]*\w\.(?:go|md|proto|sh)\b`)
	members  = regexp.MustCompile(`\b([A-Za-z]\w*)\.([A-Z]\w*)\b`)
	compound = regexp.MustCompile(`\b(?:[a-z]+[a-z0-9]*[A-Z]|[A-Z]+[a-z0-9]+[A-Z]|[A-Za-z0-9]+_)\w*`)
	remarks  = regexp.MustCompile(`(?m)(?:^\s*#|//).*$`)
	anyWord  = regexp.MustCompile(`[A-Za-z_]\w*`)
	patterns = regexp.MustCompile(`\S*(?:[*<>{}…$]|\.{3})\S*`) // names of many files, or of none in particular
)

// index is everything that a comment or a document can name.
type index struct {
	tree    *tree
	bases   map[string]bool            // names of files without their directories
	targets map[string]bool            // of make
	words   map[string]bool            // identifiers of all code, declared or used, and words of literals
	members map[string]map[string]bool // of our packages and types, by their names
}

// checkReferences wants every file, decision record, make target, test and function that a comment or a document names
// to be there. What others own, as the kubelet's functions, is in the table theirs, and systemd's settings are its own.
func checkReferences(t *tree) ([]finding, error) {
	ix, err := t.index()
	if err != nil {
		return nil, err
	}
	passages, err := t.passages()
	if err != nil {
		return nil, err
	}
	var out []finding
	for _, p := range passages {
		if (p.kind == comments || p.kind == docs) && path.Ext(p.path) != ".service" {
			out = append(out, ix.references(&p)...)
		}
	}
	return out, nil
}

func (t *tree) index() (*index, error) {
	ix := &index{tree: t, bases: map[string]bool{}, targets: map[string]bool{}, words: map[string]bool{}}
	ix.members = map[string]map[string]bool{}
	for _, name := range t.files {
		ix.bases[path.Base(name)] = true
		for _, w := range anyWord.FindAllString(name, -1) {
			ix.words[w] = true
		}
	}
	for _, f := range t.gos {
		ix.addGo(f)
	}
	for _, name := range slices.Concat(t.text, t.data) {
		if path.Ext(name) == ".md" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(t.root, name))
		if err != nil {
			return nil, err
		}
		if name == "Makefile" {
			for _, m := range targets.FindAllSubmatch(raw, -1) {
				ix.targets[string(m[1])] = true
			}
		}
		for _, w := range anyWord.FindAll(remarks.ReplaceAll(raw, nil), -1) {
			ix.words[string(w)] = true
		}
	}
	return ix, nil
}

func (ix *index) addGo(f *sourceFile) {
	declare := func(of, name string) {
		if ix.members[of] == nil {
			ix.members[of] = map[string]bool{}
		}
		ix.members[of][name] = true
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			ix.words[n.Name] = true
		case *ast.BasicLit:
			if n.Kind == token.STRING && f.dir() != "test/arch" {
				for _, w := range anyWord.FindAllString(n.Value, -1) {
					ix.words[w] = true
				}
			}
		case *ast.TypeSpec:
			for _, name := range fields(n.Type) {
				declare(n.Name.Name, name)
			}
		}
		return true
	})
	for _, d := range f.ast.Decls {
		for _, n := range topNames(d) {
			declare(f.ast.Name.Name, n.id.Name) // host.Stored is said for a method too
			if n.of != nil {
				declare(n.of.Name, n.id.Name)
			}
		}
	}
}

// fields returns the names of a struct's fields or of an interface's methods. What is embedded may have any: "*".
func fields(e ast.Expr) []string {
	var list *ast.FieldList
	switch e := e.(type) {
	case *ast.StructType:
		list = e.Fields
	case *ast.InterfaceType:
		list = e.Methods
	default:
		return nil
	}
	var out []string
	for _, f := range list.List {
		if len(f.Names) == 0 {
			out = append(out, "*")
		}
		for _, id := range f.Names {
			out = append(out, id.Name)
		}
	}
	return out
}

func (ix *index) references(p *passage) []finding {
	var out []finding
	text := []byte(p.text)
	blank(text, urls.FindAllIndex(text, -1))
	report := func(at int, name, why string) {
		if why != "" {
			out = append(out, finding{path: p.path, line: p.lineAt(at), text: fmt.Sprintf("names %s: %s", name, why)})
		}
	}
	for _, m := range adrs.FindAllIndex(text, -1) {
		for _, n := range number.FindAll(text[m[0]:m[1]], -1) {
			report(m[0], "ADR "+string(n), ix.adr(string(n)))
		}
	}
	for _, m := range making.FindAllSubmatchIndex(text, -1) {
		if target := string(text[m[2]:m[3]]); !ix.targets[target] {
			report(m[0], "make "+target, "no such target in the Makefile")
		}
	}
	if p.kind == docs {
		for _, m := range spans.FindAllSubmatchIndex(text, -1) {
			name := string(text[m[2]:m[3]])
			if why := ix.span(name); why != "" {
				report(m[0], name, why)
				blank(text, [][]int{m[2:]})
			}
		}
	}
	blank(text, patterns.FindAllIndex(text, -1))
	found := files.FindAllIndex(text, -1)
	for _, m := range found {
		name := string(text[m[0]:m[1]])
		report(m[0], name, ix.file(p.path, name))
	}
	blank(text, found)
	for _, m := range members.FindAllSubmatchIndex(text, -1) {
		of, name := string(text[m[2]:m[3]]), string(text[m[4]:m[5]])
		report(m[0], of+"."+name, ix.member(of, name))
	}
	for _, m := range compound.FindAllIndex(text, -1) {
		name := string(text[m[0]:m[1]])
		report(m[0], name, ix.name(name))
	}
	return out
}

func (ix *index) adr(number string) string {
	if slices.ContainsFunc(ix.tree.files, func(f string) bool { return strings.HasPrefix(f, "docs/adr/"+number+"-") }) {
		return ""
	}
	return "no such decision record in docs/adr"
}

// span returns what is wrong with a name that a document sets as code, "" where nothing is.
func (ix *index) span(name string) string {
	top, _, isPath := strings.Cut(name, "/")
	switch {
	case theirs[name] || theirs[path.Dir(name)] || patterns.MatchString(name):
		return ""
	case testName.MatchString(name) && !ix.words[name]:
		return "no such test: it was renamed, or the claim has lost its proof"
	case !isPath && path.Ext(name) == ".txt" && !ix.bases[name]:
		return "no such scenario in " + scenarioDir
	case isPath && slices.Contains(topDirs, top) && !ix.tree.exists(name):
		return "no such file or directory"
	}
	return ""
}

// file returns what is wrong with the name of a file in a comment or document, "" where nothing is.
func (ix *index) file(from, name string) string {
	clean := strings.TrimPrefix(path.Clean(name), "/")
	switch {
	case theirs[name], strings.HasPrefix(name, "pkg/"), name[0] == '.', name == "_test.go":
		return "" // of Kubernetes, or an ending
	case !strings.Contains(clean, "/") && ix.bases[clean]:
		return ""
	case slices.ContainsFunc(ix.tree.files, func(f string) bool { return strings.HasSuffix("/"+f, "/"+clean) }):
		return ""
	case ix.tree.exists(path.Join(path.Dir(from), name)):
		return ""
	}
	return "no such file"
}

// name returns what is wrong with an identifier, "" where nothing is. A part of a longer one will do, as START_LOST of
// an enum's value, and so will a prefix as of evolve_calls.go.
func (ix *index) name(name string) string {
	if ix.words[name] || theirs[name] || len(name) < 4 {
		return ""
	}
	for w := range ix.words {
		if token.IsExported(name) && len(name) >= 8 && strings.Contains(w, name) ||
			strings.HasSuffix(name, "_") && strings.HasPrefix(w, name) {
			return ""
		}
	}
	return "no code has this name: it was renamed, or belongs into the table theirs"
}

// member returns what is wrong with a name of a package or type of ours, "" where nothing is.
func (ix *index) member(of, name string) string {
	known := ix.members[of]
	if known == nil || known[name] || known["*"] || theirs[of+"."+name] {
		return ""
	}
	return of + " of ours has no " + name
}
