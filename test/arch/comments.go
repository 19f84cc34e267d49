package arch

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// checkComments wants the comment of an exported top-level name or method to be there and to begin with the name. No
// comment may begin with the name of another declaration of the package: such a comment was left behind when a
// declaration moved. In a group of constants or variables the group's comment is enough. Only the second rule applies
// to tests.
func checkComments(t *tree) {
	known := map[string]map[string]bool{} // by directory
	each := func(f *file, do func(topName)) {
		for _, d := range f.ast.Decls {
			for _, n := range topNames(d) {
				do(n)
			}
		}
	}
	for _, f := range t.gos {
		if known[f.dir()] == nil {
			known[f.dir()] = map[string]bool{}
		}
		each(f, func(n topName) { known[f.dir()][n.id.Name] = true })
	}
	for _, f := range t.gos {
		each(f, func(n topName) {
			if why := n.complain(f, known[f.dir()]); why != "" && !f.generated {
				t.report(f.path, t.line(n.id.Pos()), "%s", why)
			}
		})
	}
}

// topName is a declared name with its comment.
type topName struct {
	id       *ast.Ident
	doc      *ast.CommentGroup
	group    bool // in a group, whose comment speaks for it
	receiver *ast.Ident
	typ      bool
}

func topNames(d ast.Decl) []topName {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return []topName{{id: d.Name, doc: d.Doc, receiver: receiver(d)}}
	case *ast.GenDecl:
		var out []topName
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				doc := s.Doc
				if doc == nil && !d.Lparen.IsValid() {
					doc = d.Doc
				}
				out = append(out, topName{id: s.Name, doc: doc, typ: true})
			case *ast.ValueSpec:
				for _, id := range s.Names {
					out = append(out, topName{id: id, doc: d.Doc, group: d.Lparen.IsValid() || len(s.Names) > 1})
				}
			}
		}
		return out
	}
	return nil
}

// receiver returns the name of d's receiver type, nil if d is not a method.
func receiver(d *ast.FuncDecl) *ast.Ident {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return nil
	}
	e := d.Recv.List[0].Type
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	switch x := e.(type) { // of a generic type
	case *ast.IndexExpr:
		e = x.X
	case *ast.IndexListExpr:
		e = x.X
	}
	id, _ := e.(*ast.Ident)
	return id
}

// complain returns what is wrong with the name's comment, in a package that declares the known names.
func (n topName) complain(f *file, known map[string]bool) string {
	name, words := n.id.Name, strings.Fields(n.doc.Text())
	if n.typ && len(words) > 1 && slices.Contains([]string{"A", "An", "The"}, words[0]) {
		words = words[1:]
	}
	first := ""
	if len(words) > 0 {
		first = strings.TrimRight(words[0], ".,:;'")
	}
	exported := n.id.IsExported() && !f.test && (n.receiver == nil || n.receiver.IsExported()) &&
		path.Base(f.dir()) != "main"
	switch {
	case first == name || n.group:
		return ""
	case exported && first == "" && n.receiver == nil:
		return name + " is exported and has no comment"
	case exported && first != "":
		return "the comment of " + name + " begins with " + words[0] + ": begin with the name"
	case known[first] && split(first) != first:
		return "the comment of " + name + " begins with " + first + ", another name of the package"
	}
	return ""
}
