package arch

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// clockFuncs of package time read or wait for the clock. Any package's Now is refused besides: timestamppb.Now and
// metav1.Now are the same clock under another name.
var clockFuncs = []string{"Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Sleep"}

// zoneFuncs of package time give a time in the machine's zone, whose text differs from machine to machine.
var zoneFuncs = []string{"Local", "LoadLocation", "Unix", "UnixMilli", "UnixMicro"}

// mapWalks of package maps yield in an order that differs from run to run.
var mapWalks = []string{"All", "Keys", "Values"}

// sorters of package slices make an order of such a walk.
var sorters = []string{"Sorted", "SortedFunc", "SortedStableFunc"}

// checkPurity refuses in actors/ what would make a replay decide otherwise: the clock, goroutines and channels, and the
// order of a map. It needs types to know a map, so the packages must compile; a type error is a finding.
func checkPurity(t *tree) {
	packages := map[string][]*file{}
	for _, f := range t.own() {
		if within(f.path, "actors") && !f.test {
			packages[f.dir()] = append(packages[f.dir()], f)
		}
	}
	if len(packages) == 0 {
		return
	}
	deps, err := actorDeps(t)
	if err != nil {
		t.report("actors", 0, "go list: %v", err)
		return
	}
	checkReach(t, deps)
	conf := types.Config{Importer: exportImporter(t.fset, deps), Error: func(err error) {
		if te := (types.Error{}); errors.As(err, &te) {
			t.report(t.fset.Position(te.Pos).Filename, t.line(te.Pos), "does not compile: %s", te.Msg)
		}
	}}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		var asts []*ast.File
		for _, f := range packages[dir] {
			asts = append(asts, f.ast)
		}
		p := purity{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
		_, _ = conf.Check(module+"/"+dir, t.fset, asts, (*types.Info)(&p)) // conf.Error is given its errors
		for _, f := range packages[dir] {
			if !f.generated {
				t.inspect(f, p.impure(dir))
			}
		}
	}
}

// actorDeps maps every package that actors/ is built from, the standard library's too, to its compiled export data in
// the build cache ("" where it does not compile).
func actorDeps(t *tree) (map[string]string, error) {
	const format = "{{.ImportPath}} {{.Export}}"
	stdout, err := t.command("go", "list", "-e", "-export", "-deps", "-f", format, "./actors/...")
	deps := map[string]string{}
	for line := range strings.Lines(string(stdout)) {
		pkg, export, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		deps[pkg] = export
	}
	return deps, err
}

// outOfReach may not be built into a decider even by way of somebody else's package. The standard library is not in
// the list: the API types that deciders work on pull in most of it.
var outOfReach = []string{
	"github.com/asynkron/protoactor-go", "github.com/nats-io", "google.golang.org/grpc",
	"k8s.io/client-go", "k8s.io/kubernetes", module + "/bus", module + "/runtime",
}

func checkReach(t *tree, deps map[string]string) {
	for _, pkg := range slices.Sorted(maps.Keys(deps)) {
		if slices.ContainsFunc(outOfReach, func(p string) bool { return within(pkg, p) }) {
			t.report("actors", 0, "is built from %s, by way of another package: `go mod why` and `go list -deps` name it", pkg)
		}
	}
}

func exportImporter(fset *token.FileSet, exports map[string]string) types.Importer {
	return importer.ForCompiler(fset, "gc", func(pkg string) (io.ReadCloser, error) {
		if exports[pkg] == "" {
			return nil, fmt.Errorf("%s does not compile", pkg)
		}
		return os.Open(exports[pkg])
	})
}

// purity is what is known of the types of one package.
type purity types.Info

const (
	noChannels = "a decider has no channels: it is handed one event and returns its decisions"
	noText     = "the text of a message differs from build to build: print its fields"
)

// impure returns a function that returns what is wrong with a node of a file of a package, "" where nothing is.
func (p *purity) impure(dir string) func(ast.Node) string {
	sorted := map[ast.Node]bool{} // map walks that are sorted at once
	return func(n ast.Node) string {
		switch n := n.(type) {
		case *ast.GoStmt:
			return "a decider starts no goroutine: emit an intent"
		case *ast.DeferStmt:
			if dir != "actors" { // actors.Decide recovers
				return "a decider defers nothing: it would run after a refused decision (ADR 089)"
			}
		case *ast.SelectStmt, *ast.ChanType, *ast.SendStmt:
			return noChannels
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				return noChannels
			}
		case *ast.RangeStmt:
			if p.isMap(n.X) {
				return "ranges over a map, whose order differs from run to run: range over slices.Sorted(maps.Keys(m))"
			}
		case *ast.CallExpr:
			if pkg, name := p.callee(n.Fun); pkg == "slices" && slices.Contains(sorters, name) && len(n.Args) > 0 {
				sorted[n.Args[0]] = true
			} else if pkg == "maps" && slices.Contains(mapWalks, name) && !sorted[n] {
				return "maps." + name + " has no order: wrap it in slices.Sorted"
			} else if pkg == "fmt" && slices.ContainsFunc(n.Args, p.isMessage) {
				return noText
			}
		case *ast.SelectorExpr:
			if pkg, name := p.callee(n); pkg != "" && (name == "Now" || pkg == "time" && slices.Contains(clockFuncs, name)) {
				return name + " of " + pkg + " reads the clock: take the event's time, or decide a TimerSet"
			} else if pkg == "time" && slices.Contains(zoneFuncs, name) {
				return name + " of time is of the machine's zone: take AsTime of the event's time"
			} else if n.Sel.Name == "String" && p.isMessage(n.X) {
				return noText
			}
		}
		return ""
	}
}

// callee names the package and the function that e selects, "" where e is anything else, such as a method.
func (p *purity) callee(e ast.Expr) (pkg, name string) {
	if index, ok := e.(*ast.IndexExpr); ok {
		e = index.X
	}
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	id, _ := sel.X.(*ast.Ident)
	imported, ok := p.Uses[id].(*types.PkgName)
	if !ok {
		return "", ""
	}
	return imported.Imported().Path(), sel.Sel.Name
}

// isMessage reports whether e is a protobuf message.
func (p *purity) isMessage(e ast.Expr) bool {
	t := p.Types[e].Type
	if t == nil {
		return false
	}
	method, _, _ := types.LookupFieldOrMethod(t, true, nil, "ProtoReflect")
	_, ok := method.(*types.Func)
	return ok
}

// isMap reports whether e is a map, or of a type parameter that may be one.
func (p *purity) isMap(e ast.Expr) bool {
	t := p.Types[e].Type
	return t != nil && anyMap(t)
}

func anyMap(t types.Type) bool {
	if union, ok := t.(*types.Union); ok {
		return slices.ContainsFunc(slices.Collect(union.Terms()), func(t *types.Term) bool { return anyMap(t.Type()) })
	}
	switch t := t.Underlying().(type) {
	case *types.Map:
		return true
	case *types.Interface:
		return slices.ContainsFunc(slices.Collect(t.EmbeddedTypes()), anyMap)
	}
	return false
}
