package arch

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// scopeFile says what works, and names the tests that show it.
const scopeFile = "docs/SCOPE.md"

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

// checkScope wants what scopeFile names to be there: what it claims must be shown.
func checkScope(t *tree) ([]finding, error) {
	found, err := checkReferences(t)
	return slices.DeleteFunc(found, func(f finding) bool { return f.path != scopeFile }), err
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
