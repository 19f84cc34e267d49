package arch

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Limits of size: what is longer holds more than one idea. Generated code and tests are not held to them.
const (
	maxFileLines     = 500
	maxFunctionLines = 70 // of the body, comments and blank lines included
	maxCaseLines     = 3  // of a case of a flat switch
	maxAroundLines   = 10 // of a function beside its flat switch
)

// topDirs are all there are: a new one is a decision about the architecture, not a convenience.
var topDirs = []string{"actors", "bus", "cmd", "deploy", "docs", "messages", "proto", "runtime", "test"}

func checkTopDirs(t *tree) {
	for _, dir := range t.top {
		if !slices.Contains(topDirs, dir) {
			t.report(dir, 0, "no such directory in the architecture: put it below %s", list(topDirs))
		}
	}
}

// checkSizes holds the Go files of every module of the repository to the limits.
func checkSizes(t *tree) {
	for _, f := range t.gos {
		if f.generated || f.test {
			continue
		}
		if n := strings.Count(f.text, "\n"); n > maxFileLines {
			t.report(f.path, 0, "%d lines, at most %d: one idea a file", n, maxFileLines)
		}
		t.inspect(f, func(n ast.Node) string {
			var body *ast.BlockStmt
			name := "a function literal"
			switch n := n.(type) {
			case *ast.FuncDecl:
				body, name = n.Body, n.Name.Name
			case *ast.FuncLit:
				body = n.Body
			}
			if body == nil {
				return ""
			}
			lines := t.line(body.Rbrace) - t.line(body.Lbrace) - 1
			if lines <= maxFunctionLines || t.dispatches(body, lines) {
				return ""
			}
			return fmt.Sprintf("%s has %d lines, at most %d: name its parts", name, lines, maxFunctionLines)
		})
	}
}

// dispatches reports whether body, which has so many lines, is little more than one switch whose cases are short. Such
// a table reads well at any length, and to cut it in two would hide cases.
func (t *tree) dispatches(body *ast.BlockStmt, lines int) bool {
	long := func(s ast.Stmt) bool {
		c, ok := s.(*ast.CaseClause)
		return !ok || t.line(c.End())-t.line(c.Colon) > maxCaseLines
	}
	return slices.ContainsFunc(body.List, func(s ast.Stmt) bool {
		var cases *ast.BlockStmt
		switch s := s.(type) {
		case *ast.SwitchStmt:
			cases = s.Body
		case *ast.TypeSwitchStmt:
			cases = s.Body
		default:
			return false
		}
		around := lines - (t.line(s.End()) - t.line(s.Pos()) + 1)
		return around <= maxAroundLines && !slices.ContainsFunc(cases.List, long)
	})
}

// checkDocs wants a doc.go with a package comment in every package of the main module but the purely generated ones.
func checkDocs(t *tree) {
	var dirs []string
	documented := map[string]bool{}
	for _, f := range t.own() {
		if !f.generated && !slices.Contains(dirs, f.dir()) {
			dirs = append(dirs, f.dir())
		}
		if path.Base(f.path) == "doc.go" && f.ast.Doc != nil {
			documented[f.dir()] = true
		}
	}
	for _, dir := range dirs {
		if !documented[dir] {
			t.report(dir, 0, "has no doc.go with a package comment: what it is for, what it may not do, where to start reading")
		}
	}
}

// checkRooms wants each directory of runtime in the list of docs/ARCHITECTURE.md.
func checkRooms(t *tree) {
	i := slices.IndexFunc(t.texts, func(f *file) bool { return f.path == "docs/ARCHITECTURE.md" })
	if i < 0 {
		return
	}
	named := strings.Fields(t.texts[i].text)
	seen := map[string]bool{}
	for _, f := range t.own() {
		rest, in := strings.CutPrefix(f.path, "runtime/")
		room, _, _ := strings.Cut(rest, "/")
		if !in || seen[room] {
			continue
		}
		if seen[room] = true; !slices.Contains(named, room+"/") {
			t.report("runtime/"+room, 0, "is missing in the list of docs/ARCHITECTURE.md")
		}
	}
}

// checkTests refuses what lets a test pass without having tested: a missing part of the machine is a failure. A suite
// that others run, in files not named _test.go, is known by its import of package testing.
func checkTests(t *tree) {
	for _, f := range t.gos {
		isSuite := slices.ContainsFunc(f.ast.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"testing"` })
		if !f.test && !isSuite {
			continue
		}
		t.inspect(f, func(n ast.Node) string {
			call, _ := n.(*ast.CallExpr)
			if call == nil {
				return ""
			}
			sel, _ := call.Fun.(*ast.SelectorExpr)
			if sel == nil {
				return ""
			}
			id, _ := sel.X.(*ast.Ident)
			switch {
			case id == nil:
			case slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) &&
				slices.Contains([]string{"t", "b", "f", "tb"}, id.Name):
				return "a test is not skipped: what it needs and does not find is a failure"
			case id.Name == "testing" && sel.Sel.Name == "Short":
				return "there are no short runs: put slow tests behind the integration tag"
			case id.Name == "time" && sel.Sel.Name == "Sleep":
				return "a test does not sleep: wait for the event, or poll a condition with a deadline"
			}
			return ""
		})
	}
}

// checkGoMod keeps the main module installable by `go install`, which refuses replace and exclude.
func checkGoMod(t *tree) {
	type named struct{ Path string }
	var mod struct {
		Module  named
		Require []named
		Replace []struct{ Old named }
		Exclude []named
	}
	raw, err := t.command("go", "mod", "edit", "-json")
	if err == nil {
		err = json.Unmarshal(raw, &mod)
	}
	if err != nil {
		t.report("go.mod", 0, "go mod edit -json: %v", err)
	} else if mod.Module.Path != module {
		t.report("go.mod", 0, "the module is %s, these rules are about %s", mod.Module.Path, module)
	}
	for _, r := range mod.Replace {
		t.report("go.mod", 0, "replaces %s: go install of the agent would refuse it", r.Old.Path)
	}
	for _, e := range mod.Exclude {
		t.report("go.mod", 0, "excludes %s: go install of the agent would refuse it", e.Path)
	}
	if slices.Contains(mod.Require, named{"k8s.io/kubernetes"}) {
		t.report("go.mod", 0, "requires k8s.io/kubernetes: it belongs in a module of its own below test/")
	}
}

// command runs a command at the root and returns what it prints.
func (t *tree) command(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...) //nolint:gosec // the rules name the commands
	cmd.Dir = t.root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return out, err
}

var (
	// homes finds paths that exist on one person's machine only.
	homes = regexp.MustCompile(`(?:^|[^\w./~$}-])(/(?:home|root|Users|work|workspaces?)/[\w.-]+)`)
	// upward finds relative paths that go up.
	upward = regexp.MustCompile(`(?:^|[\s"'(\x60=:])((?:\.\./)+[\w./-]*)`)
	// links finds the target of a Markdown link or picture.
	links = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	// elsewhere finds targets that are no file: another site, or a heading of the same page.
	elsewhere = regexp.MustCompile(`^(?:[a-z][a-z+.-]*:|#)`)
)

// checkPaths wants documents, scripts and configuration to name nothing that only one machine has, and documents
// nothing above their own checkout, where another reader has something else.
func checkPaths(t *tree) {
	for _, f := range t.texts {
		if f.data {
			continue
		}
		for i, line := range f.lines() {
			for _, m := range homes.FindAllStringSubmatch(line, -1) {
				t.report(f.path, i+1, "names %s, a path of one machine", m[1])
			}
			if path.Ext(f.path) != ".md" {
				continue
			}
			for _, m := range upward.FindAllStringSubmatch(line, -1) {
				if target := path.Join(f.dir(), m[1]); within(target, "..") || !t.exists(target) {
					t.report(f.path, i+1, "names %s, which is not in the repository", m[1])
				}
			}
		}
	}
}

// checkLinks wants every link of every document to lead to something that is in the repository.
func checkLinks(t *tree) {
	for _, p := range t.passages(docs) {
		for _, m := range links.FindAllStringSubmatchIndex(p.text, -1) {
			link := p.text[m[2]:m[3]]
			target, _, _ := strings.Cut(link, "#")
			if !elsewhere.MatchString(link) && !t.exists(path.Join(path.Dir(p.path), target)) {
				t.report(p.path, p.lineAt(m[2]), "links to %s, which is not in the repository", link)
			}
		}
	}
}
