package arch

import (
	"go/ast"
	"go/token"
	"strings"
)

// checkElapsed refuses an assertion on an elapsed time in a test: on a busy machine it fails for no fault of the agent.
// A time is compared by strict.Within, beside strict.Time(), on virtual time (testing/synctest), in a benchmark, or as
// the condition of a loop that polls.
func checkElapsed(t *tree) {
	for _, f := range t.own() {
		if !f.test || within(f.path, "test/strict") {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || strings.HasPrefix(fn.Name.Name, "Benchmark") {
				continue
			}
			ast.Walk(elapsed{t: t, f: f, times: elapsedNames(fn.Body)}, fn.Body)
		}
	}
}

// elapsed walks a function, except the parts that may compare a time.
type elapsed struct {
	t     *tree
	f     *file
	times map[string]bool // variables that hold an elapsed time
}

func (e elapsed) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.ForStmt:
		if n.Init != nil {
			ast.Walk(e, n.Init)
		}
		ast.Walk(e, n.Body) // a loop polls until its condition says otherwise
		return nil
	case *ast.CallExpr:
		if isOf(n, "synctest", "Test") {
			return nil
		}
	case *ast.IfStmt:
		if callsStrictTime(n.Cond) {
			return nil
		}
	case *ast.BinaryExpr:
		if isOrder(n.Op) && (e.isElapsed(n.X) || e.isElapsed(n.Y)) {
			e.t.report(e.f.path, e.t.line(n.Pos()), "a test asserts no elapsed time: use strict.Within, or count the work")
			return nil
		}
	}
	return e
}

func isOrder(op token.Token) bool {
	return op == token.LSS || op == token.GTR || op == token.LEQ || op == token.GEQ
}

// isElapsed reports whether an expression measures a time, or uses a variable that does.
func (e elapsed) isElapsed(x ast.Expr) (found bool) {
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			found = found || e.times[n.Name]
		case *ast.CallExpr:
			found = found || measuresTime(n)
		case *ast.SelectorExpr:
			ast.Inspect(n.X, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				found = found || ok && e.times[id.Name]
				return true
			})
			_, isCall := n.X.(*ast.CallExpr)
			return isCall // a field of the same name is another thing
		}
		return !found
	})
	return found
}

// elapsedNames returns the variables of a function that are given an elapsed time.
func elapsedNames(body *ast.BlockStmt) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || len(a.Lhs) != len(a.Rhs) {
			return true
		}
		for i, value := range a.Rhs {
			call, isCall := value.(*ast.CallExpr)
			if id, isName := a.Lhs[i].(*ast.Ident); isName && isCall && measuresTime(call) {
				names[id.Name] = true
			}
		}
		return true
	})
	return names
}

// measuresTime reports whether a call is time.Since(...) or time.Now().Sub(...), or a method of their results.
func measuresTime(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if inner, ok := sel.X.(*ast.CallExpr); ok {
		return measuresTime(inner) || sel.Sel.Name == "Sub" && isOf(inner, "time", "Now")
	}
	return isOf(call, "time", "Since")
}

// isOf reports whether a call is of a function of a package.
func isOf(call *ast.CallExpr, pkg, name string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == pkg
}

func callsStrictTime(cond ast.Expr) (found bool) {
	ast.Inspect(cond, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		found = found || ok && isOf(call, "strict", "Time")
		return !found
	})
	return found
}
