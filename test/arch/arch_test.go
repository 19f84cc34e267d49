package arch

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The repository itself, as tests of this package see it.
const root = "../.."

func TestRepositoryKeepsItsRules(t *testing.T) {
	repo := mustLoad(t, root)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, f := range r.run(repo) {
				if r.enforced {
					t.Error(f)
				}
			}
		})
	}
}

// An exception that nothing needs would let the next reader in unseen.
func TestEveryExceptionFromBoundsIsNeeded(t *testing.T) {
	repo, all := mustLoad(t, root), boundExceptions
	t.Cleanup(func() { boundExceptions = all })
	for i, e := range all {
		boundExceptions = slices.Delete(slices.Clone(all), i, i+1)
		if len((rule{check: checkBounds}).run(repo)) == 0 {
			t.Errorf("%s no longer needs %s: remove the exception", e.in, e.pkg)
		}
	}
}

// A rule over an empty directory holds for nothing: each layer must be where the rules look for it.
func TestEveryLayerHasFiles(t *testing.T) {
	repo := mustLoad(t, root)
	for _, l := range layers {
		if !slices.ContainsFunc(repo.own(), func(f *file) bool { return within(f.path, l.in) }) {
			t.Errorf("no Go file in %s: it was moved, or the table in imports.go is out of date", l.in)
		}
	}
}

func TestEachRuleRefusesWhatBreaksIt(t *testing.T) {
	raw, err := os.ReadFile("testdata/violations.txtar")
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(raw), "\n== ")[1:]
	for _, r := range rules {
		i := slices.IndexFunc(sections, func(s string) bool { return strings.HasPrefix(s, r.name+"\n") })
		if i < 0 {
			t.Fatalf("no violation shows %q at work", r.name)
		}
		refuses := 0
		for _, text := range strings.Split(sections[i], "\n-- ")[1:] {
			c := strings.SplitN(text, " |", 4)
			name, file, want, src := c[0], c[1][1:], strings.TrimSpace(c[2]), expand(strings.TrimPrefix(c[3], " "))+"\n"
			if path.Ext(file) == ".go" && !strings.Contains(src, "package ") {
				src = "package " + path.Base(path.Dir(file)) + "\n" + src
			}
			if want != "" {
				refuses++
			}
			t.Run(r.name+"/"+name, func(t *testing.T) {
				dir := cleanTree(t)
				write(t, dir, file, src)
				found := r.run(mustLoad(t, dir))
				if want == "" && len(found) > 0 {
					t.Errorf("refused what is allowed: %v", found)
				}
				if want != "" && (len(found) != 1 || !strings.Contains(found[0].String(), want)) {
					t.Errorf("want one finding with %q, got %v", want, found)
				}
			})
		}
		if refuses == 0 {
			t.Errorf("no violation shows %q at work", r.name)
		}
		sections = slices.Delete(sections, i, i+1)
	}
	if len(sections) > 0 {
		t.Errorf("violations of a rule that does not exist: %q", sections)
	}
}

// expand writes out the repetitions of a violation's text: <<TEXT*N>>.
func expand(text string) string {
	return regexp.MustCompile(`<<([^>]*)\*(\d+)>>`).ReplaceAllStringFunc(text, func(s string) string {
		at := strings.LastIndex(s, "*")
		one, err := strconv.Unquote(`"` + s[2:at] + `"`)
		n, err2 := strconv.Atoi(s[at+1 : len(s)-2])
		if err := errors.Join(err, err2); err != nil {
			panic(err)
		}
		return strings.Repeat(one, n)
	})
}

func TestCleanTreeHasNoFindings(t *testing.T) {
	clean := mustLoad(t, cleanTree(t))
	for _, r := range rules {
		if found := r.run(clean); len(found) > 0 {
			t.Errorf("%s: %v", r.name, found)
		}
	}
}

func TestDeciderBuiltFromNATSIsFoundBehindAnotherPackage(t *testing.T) {
	var at tree
	checkReach(&at, map[string]string{"fmt": "", "github.com/nats-io/nats.go/jetstream": "", module + "/messages": ""})
	if len(at.found) != 1 || !strings.Contains(at.found[0].text, "github.com/nats-io/nats.go/jetstream") {
		t.Errorf("got %v", at.found)
	}
}

func TestOtherModulesOfTheRepositoryKeepTheirOwnImports(t *testing.T) {
	dir := cleanTree(t)
	write(t, dir, "test/oracle/go.mod", "module example.com/oracle\n")
	write(t, dir, "test/oracle/main.go", "package main\nimport _ \"k8s.io/kubernetes/pkg/kubelet\"\n")
	if found := (rule{check: checkImports}).run(mustLoad(t, dir)); len(found) > 0 {
		t.Errorf("got %v", found)
	}
}

func mustLoad(t *testing.T, root string) *tree {
	t.Helper()
	loaded, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// cleanTree creates a small checkout with a file in every layer.
func cleanTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module "+module+"\n\ngo 1.26.0\n")
	for _, in := range strings.Fields("actors/pod bus cmd/journalet messages messages/journaletv1 runtime/agent " +
		"runtime/api/query runtime/cri runtime/cri/pleg runtime/host runtime/sim") {
		pkg := path.Base(in)
		write(t, dir, in+"/doc.go", "// Package "+pkg+" is here to be checked.\npackage "+pkg+"\n")
	}
	return dir
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	full := filepath.Join(dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o750), os.WriteFile(full, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}
