// Package modules lists the Go modules of this repository.
package modules

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// Module is one of the repository's modules.
type Module struct {
	// Dir is its directory, relative to the repository; "." is the main module's.
	Dir string
	// Patterns name all packages that are built from it, for the go command.
	Patterns []string
	// Tags are the build tags, of the file "tags" beside its go.mod, by which it is built here: without them its packages
	// may need what is not on the machine. Empty: none.
	Tags string
}

// Find returns the modules below root, the main one first.
func Find(root string) ([]Module, error) {
	var out []Module
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.Name() != "go.mod" {
			return nil
		}
		m, err := read(root, filepath.Dir(path))
		out = append(out, m)
		return err
	})
	slices.SortFunc(out, func(a, b Module) int { return strings.Compare(a.Dir, b.Dir) })
	return out, err
}

func read(root, dir string) (Module, error) {
	name := filepath.Join(dir, "go.mod")
	data, err := os.ReadFile(name)
	if err != nil {
		return Module{}, err
	}
	parsed, err := modfile.Parse(name, data, nil)
	if err != nil {
		return Module{}, fmt.Errorf("parse %s: %w", name, err)
	}
	rel, err := filepath.Rel(root, dir)
	if err != nil {
		return Module{}, err
	}
	m := Module{Dir: rel}
	tags, err := os.ReadFile(filepath.Join(dir, "tags"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Module{}, err
	}
	m.Tags = strings.TrimSpace(string(tags))
	if len(parsed.Tool) > 0 {
		m.Patterns = append(m.Patterns, "tool")
	}
	own, err := hasPackages(dir)
	if own {
		m.Patterns = append(m.Patterns, "./...")
	}
	return m, err
}

// hasPackages reports whether a module has Go files of its own.
func hasPackages(dir string) (bool, error) {
	found := errors.New("found")
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			return found
		}
		return err
	})
	if errors.Is(err, found) {
		return true, nil
	}
	return false, err
}
