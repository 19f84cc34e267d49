package arch

import "go/ast"

// checkDeferredWaits refuses a deferred wait for goroutines that nothing deferred stops first. A panic runs what was
// deferred before it ends the process: then it would wait for ever, and the agent would seem to work.
func checkDeferredWaits(t *tree) {
	for _, f := range t.own() {
		if f.test || !within(f.path, "runtime") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			body, ok := n.(*ast.BlockStmt)
			if !ok {
				return true
			}
			for i, s := range body.List {
				if isDeferred(s, "Wait") && !stopsLater(body.List[i+1:]) {
					t.report(f.path, t.line(s.Pos()), "a deferred Wait is followed by a deferred cancel: a panic would wait, too")
				}
			}
			return true
		})
	}
}

// isDeferred reports whether a statement defers a call of a method without arguments.
func isDeferred(s ast.Stmt, method string) bool {
	d, ok := s.(*ast.DeferStmt)
	if !ok || len(d.Call.Args) > 0 {
		return false
	}
	called, ok := d.Call.Fun.(*ast.SelectorExpr)
	return ok && called.Sel.Name == method
}

// stopsLater reports whether one of the statements defers the cancel function of a context.
func stopsLater(rest []ast.Stmt) bool {
	for _, s := range rest {
		d, ok := s.(*ast.DeferStmt)
		if !ok {
			continue
		}
		if id, ok := d.Call.Fun.(*ast.Ident); ok && id.Name == "cancel" {
			return true
		}
	}
	return false
}
