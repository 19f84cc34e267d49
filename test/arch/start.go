package arch

import (
	"go/ast"
	"go/token"
)

// checkStart refuses a regular expression that is compiled when the program starts: each of its commands would wait for
// it.
func checkStart(t *tree) {
	for _, f := range t.own() {
		if f.test || within(f.path, "test") {
			continue
		}
		for _, d := range f.ast.Decls {
			vars, ok := d.(*ast.GenDecl)
			if !ok || vars.Tok != token.VAR {
				continue
			}
			ast.Inspect(vars, func(n ast.Node) bool {
				if _, later := n.(*ast.FuncLit); later {
					return false
				}
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "MustCompile" {
					t.report(f.path, t.line(s.Pos()), "every command compiles this regular expression: use pattern.Lazy")
				}
				return true
			})
		}
	}
}
