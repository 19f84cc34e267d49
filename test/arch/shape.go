package arch

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
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

func checkTopDirs(t *tree) []finding {
	var out []finding
	for _, dir := range t.top {
		if !slices.Contains(topDirs, dir) {
			out = append(out, finding{path: dir, text: "no such directory in the architecture: put it below " + list(topDirs)})
		}
	}
	return out
}

// checkSizes holds the Go files of every module of the repository to the limits.
func checkSizes(t *tree) []finding {
	var out []finding
	for _, f := range t.gos {
		if f.generated || f.test {
			continue
		}
		if f.lines > maxFileLines {
			text := fmt.Sprintf("%d lines, at most %d: one idea a file", f.lines, maxFileLines)
			out = append(out, finding{path: f.path, text: text})
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			var body *ast.BlockStmt
			name := "a function literal"
			switch n := n.(type) {
			case *ast.FuncDecl:
				body, name = n.Body, n.Name.Name
			case *ast.FuncLit:
				body = n.Body
			}
			if body == nil {
				return true
			}
			lines := t.fset.Position(body.Rbrace).Line - t.fset.Position(body.Lbrace).Line - 1
			if lines > maxFunctionLines && !t.dispatches(body, lines) {
				text := fmt.Sprintf("%s has %d lines, at most %d: name its parts", name, lines, maxFunctionLines)
				out = append(out, t.at(f, n, text))
			}
			return true
		})
	}
	return out
}

// dispatches reports whether body, which has so many lines, is little more than one switch whose cases are short. Such
// a table reads well at any length, and to cut it in two would hide cases.
func (t *tree) dispatches(body *ast.BlockStmt, lines int) bool {
	line := func(pos token.Pos) int { return t.fset.Position(pos).Line }
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
		long := func(s ast.Stmt) bool {
			c, ok := s.(*ast.CaseClause)
			return !ok || line(c.End())-line(c.Colon) > maxCaseLines
		}
		around := lines - (line(s.End()) - line(s.Pos()) + 1)
		return around <= maxAroundLines && !slices.ContainsFunc(cases.List, long)
	})
}

// checkDocs wants a doc.go with a package comment in every package of the main module but the purely generated ones.
func checkDocs(t *tree) []finding {
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
	var out []finding
	for _, dir := range dirs {
		if !documented[dir] {
			text := "has no doc.go with a package comment: what it is for, what it may not do, where to start reading"
			out = append(out, finding{path: dir, text: text})
		}
	}
	return out
}

var skips = []string{"Skip", "Skipf", "SkipNow"}

// checkTests refuses what lets a test pass without having tested: a missing part of the machine is a failure. A suite
// that others run, in files not named _test.go, is known by its import of package testing.
func checkTests(t *tree) []finding {
	var out []finding
	for _, f := range t.gos {
		isSuite := slices.ContainsFunc(f.ast.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"testing"` })
		if !f.test && !isSuite {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			id, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			switch {
			case slices.Contains(skips, sel.Sel.Name) && slices.Contains([]string{"t", "b", "f", "tb"}, id.Name):
				out = append(out, t.at(f, n, "a test is not skipped: what it needs and does not find is a failure"))
			case id.Name == "testing" && sel.Sel.Name == "Short":
				out = append(out, t.at(f, n, "there are no short runs: put slow tests behind the integration tag"))
			case id.Name == "time" && sel.Sel.Name == "Sleep":
				out = append(out, t.at(f, n, "a test does not sleep: wait for the event, or poll a condition with a deadline"))
			}
			return true
		})
	}
	return out
}

// checkGoMod keeps the main module installable by `go install`, which refuses replace and exclude.
func checkGoMod(t *tree) ([]finding, error) {
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = t.root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	raw, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go mod edit -json: %w", err)
	}
	var mod struct {
		Module  struct{ Path string }
		Require []struct{ Path string }
		Replace []struct{ Old struct{ Path string } }
		Exclude []struct{ Path string }
	}
	if err := json.Unmarshal(raw, &mod); err != nil {
		return nil, fmt.Errorf("go mod edit -json: %w", err)
	}
	var out []finding
	add := func(text string) { out = append(out, finding{path: "go.mod", text: text}) }
	if mod.Module.Path != module {
		add("the module is " + mod.Module.Path + ", these rules are about " + module)
	}
	for _, r := range mod.Replace {
		add("replaces " + r.Old.Path + ": go install of the agent would refuse it")
	}
	for _, e := range mod.Exclude {
		add("excludes " + e.Path + ": go install of the agent would refuse it")
	}
	for _, r := range mod.Require {
		if r.Path == "k8s.io/kubernetes" {
			add("requires k8s.io/kubernetes: it belongs in a module of its own below test/")
		}
	}
	return out, nil
}

var (
	// homes finds paths that exist on one person's machine only.
	homes = regexp.MustCompile(`(?:^|[^\w./~$}-])(/(?:home|root|Users|work|workspaces?)/[\w.-]+)`)
	// upward finds relative paths that go up.
	upward = regexp.MustCompile(`(?:^|[\s"'(\x60=:])((?:\.\./)+[\w./-]*)`)
)

// checkPaths wants documents, scripts and configuration to name nothing that only one machine has, and documents
// nothing above their own checkout, where another reader has something else.
func checkPaths(t *tree) ([]finding, error) {
	var out []finding
	for _, name := range t.text {
		raw, err := os.ReadFile(filepath.Join(t.root, name))
		if err != nil {
			return nil, err
		}
		for i, line := range strings.Split(string(raw), "\n") {
			for _, m := range homes.FindAllStringSubmatch(line, -1) {
				out = append(out, finding{path: name, line: i + 1, text: "names " + m[1] + ", a path of one machine"})
			}
			if path.Ext(name) != ".md" {
				continue
			}
			for _, m := range upward.FindAllStringSubmatch(line, -1) {
				if target := path.Join(path.Dir(name), m[1]); within(target, "..") || !t.exists(target) {
					out = append(out, finding{path: name, line: i + 1, text: "names " + m[1] + ", which is not in the repository"})
				}
			}
		}
	}
	return out, nil
}

func (t *tree) exists(rel string) bool {
	_, err := os.Stat(filepath.Join(t.root, filepath.FromSlash(rel)))
	return err == nil
}
