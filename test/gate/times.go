package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// testsWithTimes returns the names of a package's tests that hold something to a time: tests that reach a call of
// package strict through functions of their own package.
func testsWithTimes(dir string) ([]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	uses := map[string][]string{} // by function: the functions that it names
	timed := map[string]bool{}    // functions that reach package strict
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, f.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if name, ok := n.(*ast.Ident); ok {
					uses[fn.Name.Name] = append(uses[fn.Name.Name], name.Name)
					timed[fn.Name.Name] = timed[fn.Name.Name] || name.Name == "strict"
				}
				return true
			})
		}
	}
	for more := true; more; {
		more = false
		for fn, names := range uses {
			if !timed[fn] && slices.ContainsFunc(names, func(name string) bool { return timed[name] }) {
				timed[fn], more = true, true
			}
		}
	}
	var tests []string
	for fn, is := range timed {
		if is && strings.HasPrefix(fn, "Test") {
			tests = append(tests, fn)
		}
	}
	slices.Sort(tests)
	return tests, nil
}
