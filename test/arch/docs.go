package arch

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	// scopeFile tells what works, and names the tests that show it.
	scopeFile = "docs/SCOPE.md"
	// scenarioDir holds the stories, which scopeFile names without their folder.
	scenarioDir = "test/scenario/testdata"
)

var (
	// links finds the target of a Markdown link or picture.
	links = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	// elsewhere finds targets that are no file: another site, or a heading of the same page.
	elsewhere = regexp.MustCompile(`^(?:[a-z][a-z+.-]*:|#)`)
	// spans finds what is set as code within a line.
	spans = regexp.MustCompile("`([^`]+)`")
	// testName finds the names that `go test` runs.
	testName = regexp.MustCompile(`^(?:Test|Fuzz)[A-Z]\w*$`)
)

// checkLinks wants every link of every document to lead to something that is in the repository.
func checkLinks(t *tree) ([]finding, error) {
	var out []finding
	for _, name := range t.text {
		if path.Ext(name) != ".md" {
			continue
		}
		err := t.eachLine(name, func(line int, text string) {
			for _, m := range links.FindAllStringSubmatch(text, -1) {
				target, _, _ := strings.Cut(m[1], "#")
				if elsewhere.MatchString(m[1]) || t.exists(path.Join(path.Dir(name), target)) {
					continue
				}
				out = append(out, finding{path: name, line: line, text: "links to " + m[1] + ", which is not in the repository"})
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// checkScope wants every test, story and path that scopeFile names to be there: what it claims must be shown.
func checkScope(t *tree) ([]finding, error) {
	if !slices.Contains(t.text, scopeFile) {
		return nil, nil // that it is there is for the link of the front page to tell
	}
	tests := t.tests()
	var out []finding
	err := t.eachLine(scopeFile, func(line int, text string) {
		for _, m := range spans.FindAllStringSubmatch(text, -1) {
			name, why := m[1], ""
			top, _, isPath := strings.Cut(name, "/")
			switch {
			case testName.MatchString(name):
				if !tests[name] {
					why = "no such test: it was renamed, or the claim has lost its proof"
				}
			case !isPath && path.Ext(name) == ".txt":
				if !t.exists(path.Join(scenarioDir, name)) {
					why = "no such scenario in " + scenarioDir
				}
			case isPath && slices.Contains(topDirs, top) && !t.exists(name):
				why = "no such file or directory"
			}
			if why != "" {
				out = append(out, finding{path: scopeFile, line: line, text: "names " + name + ": " + why})
			}
		}
	})
	return out, err
}

// tests are the names of all tests of the repository, those behind build tags among them.
func (t *tree) tests() map[string]bool {
	names := map[string]bool{}
	for _, f := range t.gos {
		if !f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && testName.MatchString(fn.Name.Name) {
				names[fn.Name.Name] = true
			}
		}
	}
	return names
}

// eachLine gives the lines of a document to do, without those of code blocks.
func (t *tree) eachLine(name string, do func(line int, text string)) error {
	raw, err := os.ReadFile(filepath.Join(t.root, name))
	if err != nil {
		return err
	}
	code := false
	for i, text := range strings.Split(string(raw), "\n") {
		if strings.HasPrefix(strings.TrimSpace(text), "```") {
			code = !code
			continue
		}
		if !code {
			do(i+1, text)
		}
	}
	return nil
}
