package arch

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// module is the path of the main module; the rules name directories below it.
const module = "github.com/journalet/journalet"

// finding is one broken rule, placed so that an editor can jump to it.
type finding struct {
	path string // relative to the root, with slashes
	line int    // 1-based; 0 where the whole file or directory is meant
	text string // what is wrong and what to do instead
}

func (f finding) String() string {
	if f.line == 0 {
		return f.path + ": " + f.text
	}
	return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.text)
}

// file is one file that rules read.
type file struct {
	path      string // relative to the root, with slashes
	text      string
	data      bool      // below a testdata directory
	ast       *ast.File // of Go, nil of others; so are the rest
	test      bool      // named _test.go
	generated bool      // carries the "Code generated ... DO NOT EDIT." line
	nested    bool      // belongs to another module of the repository
}

func (f *file) dir() string { return path.Dir(f.path) }

func (f *file) lines() []string { return strings.Split(f.text, "\n") }

// tree is a checkout with what a rule has found in it.
type tree struct {
	root  string // as given to load
	fset  *token.FileSet
	gos   []*file
	texts []*file  // documents, scripts, configuration, and text files of testdata directories: scenarios
	names []string // of all files, relative to the root
	top   []string // directories right below the root, those starting with a dot left out
	found []finding
}

// load reads the checkout at root, without bin and the directories whose name starts with a dot, except .ci.
func load(root string) (*tree, error) {
	t := &tree{root: root, fset: token.NewFileSet()}
	var modules []string
	err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, full)
		rel = filepath.ToSlash(rel)
		switch {
		case err != nil || rel == "." || rel == ".ci":
			return err
		case d.IsDir() && (rel == "bin" || d.Name()[0] == '.'):
			return fs.SkipDir
		case d.IsDir() && !strings.Contains(rel, "/"):
			t.top = append(t.top, rel)
		case d.Type().IsRegular():
			t.names = append(t.names, rel)
			if d.Name() == "go.mod" && rel != "go.mod" {
				modules = append(modules, path.Dir(rel))
			}
			return t.add(full, rel)
		}
		return nil
	})
	for _, f := range t.gos {
		f.nested = slices.ContainsFunc(modules, func(dir string) bool { return within(f.path, dir) })
	}
	slices.SortFunc(t.gos, func(a, b *file) int { return cmp.Compare(a.path, b.path) })
	return t, err
}

func (t *tree) add(full, rel string) error {
	f := &file{path: rel, data: slices.Contains(strings.Split(rel, "/"), "testdata")}
	isGo := path.Ext(rel) == ".go" && !f.data
	if !isGo && !f.isText() {
		return nil
	}
	src, err := os.ReadFile(full)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed while we walked
	}
	f.text = string(src)
	if err != nil || !isGo {
		t.texts = append(t.texts, f)
		return err
	}
	f.ast, err = parser.ParseFile(t.fset, rel, src, parser.ParseComments|parser.SkipObjectResolution)
	if err == nil {
		f.test, f.generated = strings.HasSuffix(rel, "_test.go"), ast.IsGenerated(f.ast)
		t.gos = append(t.gos, f)
	}
	return err
}

func (f *file) isText() bool {
	switch path.Ext(f.path) {
	case ".txt", "":
		return f.data || f.path == "Makefile" || f.path == ".ci/run"
	case ".md", ".yaml", ".yml", ".toml", ".sh", ".service", ".conf", ".conflist", ".proto":
		return !f.data
	}
	return f.path == ".gitignore"
}

// own returns the files of the main module.
func (t *tree) own() []*file {
	return slices.DeleteFunc(slices.Clone(t.gos), func(f *file) bool { return f.nested })
}

func (t *tree) line(pos token.Pos) int { return t.fset.Position(pos).Line }

// report notes a finding at a line of a file, 0 for all of it.
func (t *tree) report(path string, line int, format string, args ...any) {
	t.found = append(t.found, finding{path, line, fmt.Sprintf(format, args...)})
}

// inspect gives each node of f to check, and reports what check returns unless it is empty.
func (t *tree) inspect(f *file, check func(ast.Node) string) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if why := check(n); why != "" {
			t.report(f.path, t.line(n.Pos()), "%s", why)
		}
		return true
	})
}

func (t *tree) exists(rel string) bool {
	_, err := os.Stat(filepath.Join(t.root, filepath.FromSlash(rel)))
	return err == nil
}

// within reports whether p is dir or below it.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, dir+"/")
}
