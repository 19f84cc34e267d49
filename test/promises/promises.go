package promises

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

// `make release` writes the lists of a new release, and nothing else may: if a test fails, the code is wrong.
var record = flag.String("promises.record", "", "write the lists of this release, such as v0.1.0")

// Keep fails the test for each line that a release promised under the name and that is not among lines. A line that no
// release promised is free to change.
func Keep(t *testing.T, name string, lines []string) {
	t.Helper()
	lines = slices.Compact(slices.Sorted(slices.Values(lines)))
	if len(lines) == 0 {
		t.Fatalf("%s: nothing to compare", name)
	}
	dir := released(t)
	if *record != "" {
		to := filepath.Join(dir, *record)
		must.OK(t, os.MkdirAll(to, 0o750))
		must.OK(t, os.WriteFile(filepath.Join(to, name+".list"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	}
	lists, err := filepath.Glob(filepath.Join(dir, "*", name+".list"))
	must.OK(t, err)
	for _, list := range lists {
		b, err := os.ReadFile(list)
		must.OK(t, err)
		release := filepath.Base(filepath.Dir(list))
		for _, line := range Missing(string(b), lines) {
			t.Errorf("%s promised, and this code does not keep: %s", release, line)
		}
	}
}

// Missing returns the lines of promised that are not among lines.
func Missing(promised string, lines []string) []string {
	var missing []string
	for line := range strings.Lines(promised) {
		line = strings.TrimSuffix(line, "\n")
		if line != "" && !slices.Contains(lines, line) {
			missing = append(missing, line)
		}
	}
	return missing
}

// Table returns the rows of the Markdown tables in a page, without their headings: each as its first columns cells,
// joined by a bar. Rows of tables with another heading than first are left out.
func Table(page, first string, columns int) []string {
	var rows []string
	within := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		cells := strings.Split(strings.Trim(line, "|"), "|")
		switch {
		case !strings.HasPrefix(line, "|"):
			within = false
		case strings.TrimSpace(cells[0]) == first:
			within = true
		case within && !strings.HasPrefix(line, "|--") && len(cells) >= columns:
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, strings.Join(cells[:columns], " | "))
		}
	}
	return rows
}

// Root returns the directory of the module.
func Root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	must.OK(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		} else if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
			t.Fatal(fmt.Errorf("no go.mod above the test: %w", err))
		}
		dir = filepath.Dir(dir)
	}
}

// Released reports whether there was a release: from then on no recording in testdata is replaced.
func Released(t *testing.T) bool {
	t.Helper()
	entries, err := os.ReadDir(released(t))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return slices.ContainsFunc(entries, fs.DirEntry.IsDir)
}

func released(t *testing.T) string { return filepath.Join(Root(t), "test/promises/released") }
