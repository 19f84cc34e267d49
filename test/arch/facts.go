package arch

import (
	"go/ast"
	"slices"
)

// doors are the names that lead around clean.Fact (ADR 077): by package and name the files and directories that may use
// them, and what to do elsewhere.
var doors = []struct {
	pkg, name string
	in        []string
	instead   string
}{
	// The appender cleans what it encodes. The others read journals, or keep the start of a run in a snapshot.
	{module + "/messages", "Encode", []string{
		"bus/appender.go", "runtime/history", "runtime/fold/cells.go", "runtime/host/recover.go",
	}, "a record is stored by bus.Journal alone, which cleans facts: append it there"},
	{module + "/messages/journaletv1", "Record_Fact", []string{
		"bus/appender.go", "bus/repairapply.go", "runtime/fold/core.go", "runtime/host/host.go",
	}, "a fact is appended by host.Fact or host.Outcome"},
	{"strings", "ToValidUTF8", nil, "the journal cleans a fact's strings (messages/clean): cut others with plain.Cut"},
	{"bytes", "ToValidUTF8", nil, "the journal cleans a fact's strings (messages/clean): cut others with plain.Cut"},
}

// checkFacts keeps the agent from storing a fact whose strings nobody has checked, and from checks of its own.
func checkFacts(t *tree) {
	for _, f := range t.own() {
		if f.test || f.generated || within(f.path, "test") || within(f.path, "messages") {
			continue
		}
		names := imported(f)
		t.inspect(f, func(n ast.Node) string {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return ""
			}
			id, _ := sel.X.(*ast.Ident)
			for _, d := range doors {
				if names[nameOf(id)] == d.pkg && sel.Sel.Name == d.name &&
					!slices.ContainsFunc(d.in, func(in string) bool { return within(f.path, in) }) {
					return d.name + ": " + d.instead
				}
			}
			return ""
		})
	}
}
