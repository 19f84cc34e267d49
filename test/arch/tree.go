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

// sourceFile is one parsed Go file.
type sourceFile struct {
	path      string // relative to the root, with slashes
	lines     int
	ast       *ast.File
	test      bool // named _test.go
	generated bool // carries the "Code generated ... DO NOT EDIT." line
	nested    bool // belongs to another module of the repository
}

func (f *sourceFile) dir() string { return path.Dir(f.path) }

// tree is a checkout: its Go files parsed, its other text files by name.
type tree struct {
	root  string // as given to load
	fset  *token.FileSet
	gos   []*sourceFile
	text  []string // documents, scripts and configuration, relative to the root
	data  []string // scenarios: text files of testdata directories, relative to the root
	files []string // all of them, relative to the root
	top   []string // directories right below the root, those starting with a dot left out
}

// load reads the checkout at root, without bin and the directories whose name starts with a dot, except .ci. Of
// testdata it lists the scenarios.
func load(root string) (*tree, error) {
	t := &tree{root: root, fset: token.NewFileSet()}
	var nested []string
	err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if !d.IsDir() {
			return t.add(full, rel, d, &nested)
		}
		if rel == "." || rel == ".ci" {
			return nil
		}
		if rel == "bin" || strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if !strings.Contains(rel, "/") {
			t.top = append(t.top, rel)
		}
		return nil
	})
	for _, f := range t.gos {
		f.nested = slices.ContainsFunc(nested, func(dir string) bool { return within(f.path, dir) })
	}
	slices.SortFunc(t.gos, func(a, b *sourceFile) int { return cmp.Compare(a.path, b.path) })
	return t, err
}

func (t *tree) add(full, rel string, d fs.DirEntry, nested *[]string) error {
	if !d.Type().IsRegular() {
		return nil
	}
	t.files = append(t.files, rel)
	switch {
	case isData(rel):
		if ext := path.Ext(rel); ext == ".txt" || ext == "" {
			t.data = append(t.data, rel)
		}
		return nil
	case d.Name() == "go.mod":
		if rel != "go.mod" {
			*nested = append(*nested, path.Dir(rel))
		}
		return nil
	case path.Ext(rel) == ".go":
		return t.addGo(full, rel)
	case isText(rel):
		t.text = append(t.text, rel)
	}
	return nil
}

func (t *tree) addGo(full, rel string) error {
	src, err := os.ReadFile(full)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed while we walked
	}
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(t.fset, full, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.gos = append(t.gos, &sourceFile{
		path:      rel,
		lines:     strings.Count(string(src), "\n"),
		ast:       f,
		test:      strings.HasSuffix(rel, "_test.go"),
		generated: ast.IsGenerated(f),
	})
	return nil
}

// own returns the files of the main module.
func (t *tree) own() []*sourceFile {
	return slices.DeleteFunc(slices.Clone(t.gos), func(f *sourceFile) bool { return f.nested })
}

func (t *tree) at(f *sourceFile, n ast.Node, text string) finding {
	return finding{path: f.path, line: t.fset.Position(n.Pos()).Line, text: text}
}

func isData(rel string) bool { return slices.Contains(strings.Split(rel, "/"), "testdata") }

func isText(rel string) bool {
	switch path.Ext(rel) {
	case ".md", ".yaml", ".yml", ".toml", ".sh", ".service", ".conf", ".conflist", ".proto":
		return true
	}
	return rel == "Makefile" || rel == ".ci/run" || rel == ".gitignore"
}

// within reports whether p is dir or below it.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, dir+"/")
}
