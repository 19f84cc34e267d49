package simulation

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

// together is the code with many mutants in it, and one mutant is on at a time: a function that mutants change has a
// body for each mutant, chosen by mutantEnv when the program starts. One build so serves all mutants.
type together struct {
	files map[string]string // by path below the repository
	alone []mutant          // mutants that change more than the body of one function: each needs a build of its own
}

// mutantEnv is the variable of the environment with the number of the mutant that is on.
const mutantEnv = "JOURNALET_MUTANT"

// buildTogether puts mutants into the code. Each mutant has to apply to it.
func buildTogether(t *testing.T, all []mutant) together {
	t.Helper()
	to := together{files: map[string]string{}}
	byFile := map[string][]mutant{}
	for _, m := range all {
		byFile[m.file] = append(byFile[m.file], m)
	}
	for file, fileMutants := range byFile {
		code := readCode(t, file)
		bodies := map[int][]body{} // by the function's place among the file's declarations
		for _, m := range fileMutants {
			b, i, ok := m.body(t, code)
			if !ok {
				to.alone = append(to.alone, m)
				continue
			}
			bodies[i] = append(bodies[i], b)
		}
		if len(bodies) == 0 {
			continue
		}
		to.files[file] = withBodies(t, file, code, bodies)
		to.files[filepath.Join(filepath.Dir(file), "mutant_is_on.go")] = mutantIsOn(parse(t, file, code).Name.Name)
	}
	slices.SortFunc(to.alone, func(a, b mutant) int { return cmp.Compare(a.number, b.number) })
	return to
}

func mutantIsOn(pkg string) string {
	return fmt.Sprintf(`package %s

import (
	"os"
	"strconv"
)

var mutantIsOn, _ = strconv.Atoi(os.Getenv(%q))
`, pkg, mutantEnv)
}

// body is what a mutant makes of a function's body, without its braces.
type body struct {
	mutant mutant
	text   string
}

// body returns the body that m gives to a function, and the function's place among the declarations; false if m changes
// anything else, or a function with labels, which no two bodies in one function can have.
func (m mutant) body(t *testing.T, code string) (body, int, bool) {
	t.Helper()
	mutated := m.apply(code)
	was, is := parse(t, m.file, code), parse(t, m.file, mutated)
	if len(was.Decls) != len(is.Decls) {
		return body{}, 0, false
	}
	at := strings.Index(code, m.old)
	for i, d := range was.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || at >= int(f.End())-1 {
			continue
		}
		g, ok := is.Decls[i].(*ast.FuncDecl)
		if !ok || g.Body == nil || hasLabels(f) || hasLabels(g) ||
			code[:f.Body.Lbrace] != mutated[:g.Body.Lbrace] || code[f.Body.Rbrace-1:] != mutated[g.Body.Rbrace-1:] {
			return body{}, 0, false
		}
		return body{mutant: m, text: mutated[g.Body.Lbrace : g.Body.Rbrace-1]}, i, true
	}
	return body{}, 0, false
}

func hasLabels(f *ast.FuncDecl) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		_, label := n.(*ast.LabeledStmt)
		found = found || label
		return !found
	})
	return found
}

// withBodies returns code whose functions each have the mutants' bodies, beside their own.
func withBodies(t *testing.T, file, code string, bodies map[int][]body) string {
	t.Helper()
	decls := parse(t, file, code).Decls
	// From the last to the first, so that the places before stay what they are.
	for _, i := range slices.Backward(slices.Sorted(maps.Keys(bodies))) {
		f := decls[i].(*ast.FuncDecl)
		var b strings.Builder
		b.WriteString("\nswitch mutantIsOn {\n")
		for _, variant := range bodies[i] {
			fmt.Fprintf(&b, "case %d: %s%s\n%s\n", variant.mutant.number, mutantMark, variant.mutant.name, variant.text)
		}
		fmt.Fprintf(&b, "default:\n%s\n}\n", code[f.Body.Lbrace:f.Body.Rbrace-1])
		code = code[:f.Body.Lbrace] + b.String() + code[f.Body.Rbrace-1:]
	}
	return code
}

// mutantMark begins what the name of a mutant is in front of its body.
const mutantMark = "// mutant: "

// parse parses Go code whose first byte is at the place 1 of its positions.
func parse(t *testing.T, file, code string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, code, parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return f
}

// compiles reports each mutant that is no Go, by the types of the code.
func compiles(t *testing.T, all []mutant) {
	t.Helper()
	to := buildTogether(t, all)
	exported := exportedTypes(t, all)
	byPackage := map[string]map[string]string{}
	for file, code := range to.files {
		dir := filepath.Dir(file)
		if byPackage[dir] == nil {
			byPackage[dir] = map[string]string{}
		}
		byPackage[dir][filepath.Base(file)] = code
	}
	for dir, files := range byPackage {
		check(t, exported, dir, files)
	}
	for _, m := range to.alone {
		check(t, exported, filepath.Dir(m.file), map[string]string{filepath.Base(m.file): m.apply(readCode(t, m.file))})
	}
}

// check checks the types of a package with other files, by name, in place of its own, and reports what is wrong in
// them.
func check(t *testing.T, exported types.Importer, dir string, others map[string]string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
	must.OK(t, err)
	codes := maps.Clone(others)
	for _, path := range paths {
		name := filepath.Base(path)
		builds, err := build.Default.MatchFile(filepath.Dir(path), name)
		must.OK(t, err)
		if builds && !strings.HasSuffix(name, "_test.go") && codes[name] == "" {
			codes[name] = readCode(t, filepath.Join(dir, name))
		}
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for name, code := range codes {
		f, err := parser.ParseFile(fset, name, code, parser.SkipObjectResolution)
		must.OK(t, err)
		if others[name] == "" {
			dropBodies(f)
		}
		files = append(files, f)
	}
	conf := types.Config{Importer: exported, Error: func(err error) {
		var e types.Error
		if !errors.As(err, &e) {
			t.Error(err)
			return
		}
		at := e.Fset.Position(e.Pos)
		if code, ok := others[at.Filename]; ok {
			t.Errorf("%s: %s: %s", filepath.Join(dir, at.Filename), markBefore(code, at.Offset), e.Msg)
		}
	}}
	_, _ = conf.Check(dir, fset, files, nil)
}

// dropBodies leaves only the declarations of a file, which is not checked itself.
func dropBodies(f *ast.File) {
	for _, d := range f.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			f.Body = nil
		}
	}
}

// markBefore returns the name of the mutant that a place in code is in.
func markBefore(code string, offset int) string {
	before := code[:offset]
	i := strings.LastIndex(before, mutantMark)
	if i < 0 {
		return "a mutant with a build of its own"
	}
	name, _, _ := strings.Cut(code[i+len(mutantMark):], "\n")
	return name
}

// exportedTypes returns the types of all packages that those with mutants import, as the compiler left them.
func exportedTypes(t *testing.T, all []mutant) types.Importer {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	dirs := map[string]bool{}
	for _, m := range all {
		if dir := "./" + filepath.Dir(m.file); !dirs[dir] {
			dirs[dir] = true
			args = append(args, dir)
		}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	must.OK(t, err)
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, export, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = export
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		b, err := os.ReadFile(exports[path])
		return io.NopCloser(bytes.NewReader(b)), err
	})
}

func readCode(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../..", file))
	must.OK(t, err)
	return string(b)
}
