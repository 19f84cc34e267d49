// Command licences writes docs/third-party.txt: every module that is built into journalet, or into what tests it, with
// its version and licence. With -check it compares the file instead, and with -texts it prints the licences and notices
// that have to go with the binary, in full. It fails for a module in journalet itself whose licence is not in allowed,
// or that it does not know.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/licensecheck"

	"github.com/journalet/journalet/test/tools/supply/modules"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	check := flag.Bool("check", false, "only report whether the file is current")
	full := flag.Bool("texts", false, "only print the texts of the licences of what is built into journalet")
	flag.Parse()
	do := func() error { return run(*root, *check) }
	if *full {
		do = func() error { return printTexts(*root, os.Stdout) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

const (
	file    = "docs/third-party.txt"
	shipped = "./cmd/journalet"
)

// allowed are the licences of what is built into journalet: none asks for more than its text, and changes to its own
// files, to be published.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0"}

// dependency is a module that is not ours.
type dependency struct{ path, version, dir string }

func run(root string, check bool) error {
	text, err := list(root)
	if err != nil {
		return err
	}
	path := filepath.Join(root, file)
	if !check {
		return os.WriteFile(path, text, 0o644) //nolint:gosec // a document
	}
	have, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, text) {
		return errors.New(file + " does not list the modules that are built: run make licences")
	}
	return nil
}

// list returns the document.
func list(root string) ([]byte, error) {
	inside, err := dependencies(root, shipped)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString("Third-party modules with version and licence, one a line. Written by `make licences`.\n\n" +
		"Built into journalet:\n\n")
	if err := table(&out, inside, allowed); err != nil {
		return nil, err
	}
	others := map[string]dependency{}
	all, err := modules.Find(root)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		found, err := dependencies(filepath.Join(root, m.Dir), append([]string{"-test", "-tags", m.Tags}, m.Patterns...)...)
		if err != nil {
			return nil, err
		}
		maps.Copy(others, found)
	}
	maps.DeleteFunc(others, func(key string, _ dependency) bool { _, is := inside[key]; return is })
	out.WriteString("\nBuilt into tests, tools and the lab only:\n\n")
	err = table(&out, others, nil)
	return out.Bytes(), err
}

// dependencies returns the modules of the packages that patterns need, by path and version. It fixes the platform, so
// that the list is the same on every machine.
func dependencies(dir string, patterns ...string) (map[string]dependency, error) {
	const form = `{{with .Module}}{{if not .Main}}{{with .Replace}}{{.Path}} {{.Version}} {{.Dir}}{{else}}` +
		`{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}{{end}}`
	cmd := exec.Command("go", append([]string{"list", "-mod=readonly", "-deps", "-f", form}, patterns...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1", "GOWORK=off")
	var problems bytes.Buffer
	cmd.Stderr = &problems
	data, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages of %s: %w: %s", dir, err, problems.String())
	}
	out := map[string]dependency{}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 {
			out[f[0]+" "+f[1]] = dependency{path: f[0], version: f[1], dir: f[2]}
		}
	}
	return out, nil
}

func table(out *bytes.Buffer, list map[string]dependency, allowed []string) error {
	var problems []error
	for _, key := range slices.Sorted(maps.Keys(list)) {
		d := list[key]
		found, err := licencesOf(d)
		switch {
		case err == nil:
		case allowed != nil:
			problems = append(problems, err)
		default:
			found = []string{"none found"}
		}
		for _, id := range found {
			if allowed != nil && !slices.Contains(allowed, id) {
				problems = append(problems, fmt.Errorf("%s has the licence %s, which journalet may not contain", key, id))
			}
		}
		fmt.Fprintf(out, "%s %s %s\n", d.path, d.version, strings.Join(found, ", "))
	}
	return errors.Join(problems...)
}

// licencesOf returns the licences of a module's root directory, as SPDX identifiers, sorted.
func licencesOf(d dependency) ([]string, error) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, e := range entries {
		if !isLicence(e) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(d.dir, e.Name()))
		if err != nil {
			return nil, err
		}
		for _, m := range licensecheck.Scan(text).Match {
			found[m.ID] = found[m.ID] || !m.IsURL
		}
	}
	maps.DeleteFunc(found, func(_ string, is bool) bool { return !is })
	if len(found) == 0 {
		return nil, fmt.Errorf("%s %s has no licence that licensecheck knows: read %s", d.path, d.version, d.dir)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// isLicence reports whether a file is the licence of what is built in.
func isLicence(e os.DirEntry) bool {
	name := strings.ToUpper(e.Name())
	return !e.IsDir() && (strings.HasPrefix(name, "LICEN") || strings.HasPrefix(name, "COPYING")) &&
		!strings.HasSuffix(name, ".DOCS") // of the documents, which are not built in
}
