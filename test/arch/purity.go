package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
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
func checkPurity(t *tree) ([]finding, error) {
	packages := map[string][]*sourceFile{}
	var dirs []string
	for _, f := range t.own() {
		if within(f.path, "actors") && !f.test {
			if packages[f.dir()] == nil {
				dirs = append(dirs, f.dir())
			}
			packages[f.dir()] = append(packages[f.dir()], f)
		}
	}
	if len(dirs) == 0 {
		return nil, nil
	}
	deps, err := actorDeps(t)
	if err != nil {
		return nil, err
	}
	out := checkReach(deps)
	imp := exportImporter(t.fset, deps)
	for _, dir := range dirs {
		p := &purity{tree: t, info: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{},
			Uses:  map[*ast.Ident]types.Object{},
		}}
		conf := types.Config{Importer: imp, Error: p.typeError}
		var asts []*ast.File
		for _, f := range packages[dir] {
			asts = append(asts, f.ast)
		}
		_, _ = conf.Check(module+"/"+dir, t.fset, asts, p.info) // its error is the first of those typeError was given
		for _, f := range packages[dir] {
			if !f.generated {
				p.file(f)
			}
		}
		out = append(out, p.out...)
	}
	return out, nil
}

// actorDeps maps every package that actors/ is built from, the standard library's too, to its compiled export data in
// the build cache ("" where it does not compile).
func actorDeps(t *tree) (map[string]string, error) {
	cmd := exec.Command("go", "list", "-e", "-export", "-deps", "-json=ImportPath,Export", "./actors/...")
	cmd.Dir = t.root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list of actors/: %w: %s", err, stderr.Bytes())
	}
	deps := map[string]string{}
	dec := json.NewDecoder(bytes.NewReader(stdout))
	for {
		var p struct{ ImportPath, Export string }
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return deps, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list of actors/: %w", err)
		}
		deps[p.ImportPath] = p.Export
	}
}

// outOfReach may not be built into a decider even by way of somebody else's package. The standard library is not in
// the list: the API types that deciders work on pull in most of it.
var outOfReach = []string{
	"github.com/asynkron/protoactor-go", "github.com/nats-io", "google.golang.org/grpc",
	"k8s.io/client-go", "k8s.io/kubernetes", module + "/bus", module + "/runtime",
}

func checkReach(deps map[string]string) []finding {
	var out []finding
	for _, pkg := range slices.Sorted(maps.Keys(deps)) {
		if slices.ContainsFunc(outOfReach, func(p string) bool { return within(pkg, p) }) {
			out = append(out, finding{path: "actors", text: "is built from " + pkg +
				", by way of another package: `go mod why` and `go list -deps` name it"})
		}
	}
	return out
}

func exportImporter(fset *token.FileSet, exports map[string]string) types.Importer {
	return importer.ForCompiler(fset, "gc", func(pkg string) (io.ReadCloser, error) {
		if exports[pkg] == "" {
			return nil, fmt.Errorf("%s does not compile", pkg)
		}
		return os.Open(exports[pkg])
	})
}

// purity checks one package.
type purity struct {
	tree *tree
	info *types.Info
	out  []finding
}

func (p *purity) typeError(err error) {
	f := finding{path: "actors", text: err.Error()}
	if te := (types.Error{}); errors.As(err, &te) {
		f = finding{path: p.relative(te.Pos), line: te.Fset.Position(te.Pos).Line, text: "does not compile: " + te.Msg}
	}
	p.out = append(p.out, f)
}

func (p *purity) relative(pos token.Pos) string {
	name := p.tree.fset.Position(pos).Filename
	for _, f := range p.tree.gos {
		if p.tree.fset.Position(f.ast.Pos()).Filename == name {
			return f.path
		}
	}
	return name
}

func (p *purity) file(f *sourceFile) {
	sorted := map[ast.Node]bool{} // map walks that are sorted at once
	ast.Inspect(f.ast, func(n ast.Node) bool {
		why := ""
		switch n := n.(type) {
		case *ast.GoStmt:
			why = "a decider starts no goroutine: emit an intent"
		case *ast.SelectStmt, *ast.ChanType, *ast.SendStmt:
			why = "a decider has no channels: it is handed one event and returns its decisions"
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				why = "a decider has no channels: it is handed one event and returns its decisions"
			}
		case *ast.RangeStmt:
			if p.isMap(n.X) {
				why = "ranges over a map, whose order differs from run to run: range over slices.Sorted(maps.Keys(m))"
			}
		case *ast.CallExpr:
			if pkg, name := p.callee(n.Fun); pkg == "slices" && slices.Contains(sorters, name) && len(n.Args) > 0 {
				sorted[n.Args[0]] = true
			} else if pkg == "maps" && slices.Contains(mapWalks, name) && !sorted[n] {
				why = "maps." + name + " has no order: wrap it in slices.Sorted"
			} else if pkg == "fmt" && slices.ContainsFunc(n.Args, p.isMessage) {
				why = "the text of a message differs from build to build: print its fields"
			}
		case *ast.SelectorExpr:
			if pkg, name := p.callee(n); pkg != "" && (name == "Now" || pkg == "time" && slices.Contains(clockFuncs, name)) {
				why = name + " of " + pkg + " reads the clock: take the event's time, or decide a TimerSet"
			} else if pkg == "time" && slices.Contains(zoneFuncs, name) {
				why = name + " of time is of the machine's zone: take AsTime of the event's time"
			} else if n.Sel.Name == "String" && p.isMessage(n.X) {
				why = "the text of a message differs from build to build: print its fields"
			}
		}
		if why != "" {
			p.out = append(p.out, p.tree.at(f, n, why))
		}
		return true
	})
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
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	imported, ok := p.info.Uses[id].(*types.PkgName)
	if !ok {
		return "", ""
	}
	return imported.Imported().Path(), sel.Sel.Name
}

// isMessage reports whether e is a protobuf message.
func (p *purity) isMessage(e ast.Expr) bool {
	tv, ok := p.info.Types[e]
	if !ok || tv.Type == nil {
		return false
	}
	method, _, _ := types.LookupFieldOrMethod(tv.Type, true, nil, "ProtoReflect")
	_, ok = method.(*types.Func)
	return ok
}

func (p *purity) isMap(e ast.Expr) bool {
	tv, ok := p.info.Types[e]
	if !ok || tv.Type == nil {
		return false
	}
	under := tv.Type.Underlying()
	if _, ok := under.(*types.Map); ok {
		return true
	}
	// A type parameter: refused where any of its types is a map.
	iface, ok := under.(*types.Interface)
	if !ok {
		return false
	}
	for t := range iface.EmbeddedTypes() {
		if union, ok := t.(*types.Union); ok {
			for term := range union.Terms() {
				if _, ok := term.Type().Underlying().(*types.Map); ok {
					return true
				}
			}
		} else if _, ok := t.Underlying().(*types.Map); ok {
			return true
		}
	}
	return false
}
