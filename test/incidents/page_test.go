package incidents_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/incidents"
	"github.com/journalet/journalet/test/must"
)

// pagePath is the page of the incidents, and pages are all pages whose commands are run.
const pagePath = "../../docs/DEBUGGING.md"

var pages = []string{pagePath, "../../docs/UPGRADE.md"}

var update = flag.Bool("incidents.update", false, "write what the commands print into the pages")

// readPage reads a document.
func readPage(t *testing.T, path string) *incidents.Page {
	t.Helper()
	text, err := os.ReadFile(path)
	must.OK(t, err)
	page, err := incidents.ReadPage(string(text))
	must.OK(t, err)
	return page
}

// TestPagesShowWhatCommandsPrint runs every command of a page on the journal of its incident.
func TestPagesShowWhatCommandsPrint(t *testing.T) {
	bin, roots := build(t), map[string]string{}
	for _, path := range pages {
		page := readPage(t, path)
		for _, name := range page.Incidents() {
			if roots[name] == "" {
				roots[name] = t.TempDir()
				store(t, bin, name, roots[name])
			}
		}
		for _, b := range page.Blocks() {
			for i := range b.Commands {
				c := &b.Commands[i]
				got := run(t, bin, roots[b.Incident], c.Line)
				if got != c.Output && !*update {
					t.Errorf("%s:%d: `%s` prints\n%s\nand the page shows\n%s", path, b.Line, c.Line, got, c.Output)
				}
				c.Output = got
			}
		}
		if *update {
			must.OK(t, os.WriteFile(path, []byte(page.String()), 0o644))
		}
	}
}

// TestEveryIncidentIsOnAPage holds the page of the incidents to ten at least, and every incident to a chapter.
func TestEveryIncidentIsOnAPage(t *testing.T) {
	shown := readPage(t, pagePath).Incidents()
	if len(shown) < 10 {
		t.Errorf("the page has %d incidents: %v", len(shown), shown)
	}
	for _, path := range pages[1:] {
		shown = append(shown, readPage(t, path).Incidents()...)
	}
	files, err := filepath.Glob("testdata/*.txt")
	must.OK(t, err)
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".txt"); !slices.Contains(shown, name) {
			t.Errorf("no chapter shows the incident %s", name)
		}
	}
}

// build returns the directory of a binary of this checkout.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "../../cmd/journalet").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}

// repaired matches the directory where a repair leaves what was there, named after the time.
var repaired = regexp.MustCompile(`repaired-[0-9TZ.:-]+`)

// run runs a command line of the page as the node's operator, and returns what it prints to stdout. The program that
// a page runs from the current directory is the same.
func run(t *testing.T, bin, root, line string) string {
	t.Helper()
	line = strings.Replace(line, "./journalet ", "journalet ", 1)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	var errs bytes.Buffer
	cmd.Stderr, cmd.Dir = &errs, root
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "JOURNALET_ROOT_DIR="+root, "TZ=UTC", "COLUMNS=100")
	out, err := cmd.Output()
	if err != nil && len(out) == 0 {
		t.Errorf("`%s`: %v\n%s", line, err, errs.String())
	}
	text := repaired.ReplaceAllString(string(out), "repaired-2026-01-01T07:00:00Z")
	return strings.ReplaceAll(text, root, "/var/lib/journalet")
}

// TestPageShowsTheScreen compares the picture of the screen with the picture that cmd/journalet tests.
func TestPageShowsTheScreen(t *testing.T) {
	page, err := os.ReadFile(pagePath)
	must.OK(t, err)
	picture, err := os.ReadFile("../../cmd/journalet/testdata/step-changes.txt")
	must.OK(t, err)
	var rows strings.Builder
	for row := range strings.Lines(string(picture)) {
		rows.WriteString(strings.TrimRight(row, " \n") + "\n")
	}
	if !strings.Contains(string(page), "```text\n"+rows.String()+"```\n") {
		t.Errorf("%s does not show\n%s", pagePath, rows.String())
	}
}
