package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// printTexts prints the licences and notices of the modules that are built into journalet, and Go's own. A text that
// several of them have comes once, below all their names.
func printTexts(root string, out io.Writer) error {
	inside, err := dependencies(root, shipped)
	if err != nil {
		return err
	}
	goRoot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find Go's directory: %w", err)
	}
	inside["Go"] = dependency{
		path: "Go", version: "(its runtime and standard library)", dir: strings.TrimSpace(string(goRoot)),
	}
	owners := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(inside)) {
		d := inside[key]
		texts, err := textsOf(d.dir)
		if err != nil {
			return err
		}
		if len(texts) == 0 {
			return fmt.Errorf("%s %s has no file with its licence: read %s", d.path, d.version, d.dir)
		}
		for _, text := range texts {
			owners[text] = append(owners[text], d.path+" "+d.version)
		}
	}
	byOwner := func(a, b string) int {
		return strings.Compare(owners[a][0]+a, owners[b][0]+b)
	}
	for _, text := range slices.SortedFunc(maps.Keys(owners), byOwner) {
		if _, err := fmt.Fprintf(out, "%s\n\n%s\n\n%s\n\n", strings.Join(owners[text], "\n"), text,
			strings.Repeat("=", 80)); err != nil {
			return err
		}
	}
	return nil
}

// textsOf returns the licences and notices in a module's root directory.
func textsOf(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, e := range entries {
		if e.IsDir() || !isLicence(e) && !strings.HasPrefix(strings.ToUpper(e.Name()), "NOTICE") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, strings.TrimSpace(string(text)))
	}
	return texts, nil
}
