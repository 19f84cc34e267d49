package own_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/history/open"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/must"
)

var update = flag.Bool("own.update", false, "write the table of docs/FILES.md")

const (
	filesDoc   = "../../docs/FILES.md"
	tableBegin = "<!-- files: written by `go test ./runtime/own -own.update` -->"
	tableEnd   = "<!-- end of files -->"
)

// TestFilesAreDocumented holds the table of docs/FILES.md to the register.
func TestFilesAreDocumented(t *testing.T) {
	data, err := os.ReadFile(filesDoc)
	must.OK(t, err)
	doc := string(data)
	before, rest, ok1 := strings.Cut(doc, tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no table between %q and %q", filesDoc, tableBegin, tableEnd)
	}
	want := before + tableBegin + "\n\n" + table() + "\n" + tableEnd + after
	if *update {
		must.OK(t, os.WriteFile(filesDoc, []byte(want), 0o600))
		return
	}
	if doc != want {
		t.Errorf("%s is not the register: run the test again with -own.update", filesDoc)
	}
}

func table() string {
	var b strings.Builder
	b.WriteString("| path | what it is | secret | `journalet reset` |\n|---|---|---|---|\n")
	for _, e := range own.All {
		secret := ""
		if e.Secret {
			secret = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", e.Path, e.What, secret, e.Reset)
	}
	return b.String()
}

// Readers of the register miss a path that is named where it is used.
func TestPathsBelowTheRootAreTakenFromTheRegister(t *testing.T) {
	literal := regexp.MustCompile(`filepath\.Join\([\w.]*([rR]ootDir|absoluteRoot\(\)), *"([^"]*)"`)
	read := 0
	for _, dir := range []string{"..", "../../cmd"} {
		must.OK(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			read++
			b, err := os.ReadFile(path)
			for _, m := range literal.FindAllStringSubmatch(string(b), -1) {
				if m[2] != "seccomp" { // profiles of the operator, which are only read
					t.Errorf("%s names %q in the root directory: take it from package own", path, m[2])
				}
			}
			return err
		}))
	}
	if read < 500 {
		t.Errorf("only %d files were read", read)
	}
	if open.BusDir != own.Bus {
		t.Errorf("history/open looks for the bus in %s, it is in %s", open.BusDir, own.Bus)
	}
}

func TestFindKnowsThePathsOfTheAgentOnly(t *testing.T) {
	for name, want := range map[string]string{
		"bus": "bus/", "bus/jetstream/x": "bus/", "objects.key": "objects.key", "objects.key.damaged": "objects.key",
		"volumes.boot.new": "volumes.boot", "pki/kubelet-client-current.pem": "pki/kubelet-client*",
		".writable-123": own.Probe,
		"bus2":          "", "offline.new": "", "objects.key.bak": "", "pki": "", "pki/kubelet.crt": "", "plugins/other": "",
		"pki/kubelet-client/x": "", "": "",
	} {
		got := ""
		if e := own.Find(name); e != nil {
			got = e.Path
		}
		if got != want {
			t.Errorf("%q is of %q, want %q", name, got, want)
		}
	}
	for dir, want := range map[string]bool{"pki": true, "plugins": true, "logs": true, "bus": false, "pods": false} {
		if own.Shares(dir) != want {
			t.Errorf("%s is shared: %v", dir, !want)
		}
	}
}

// The files of the bus are listed below the table.
func TestFilesOfTheBusAreDocumented(t *testing.T) {
	dir := filepath.Join(t.TempDir(), own.Bus)
	b, err := bus.Open(t.Context(), bus.Options{Dir: dir, Node: "node-1"})
	must.OK(t, err)
	large := []byte(strings.Repeat("large manifest ", 10_000))
	err = b.Manifests().Put(t.Context(), manifest.Digest(large), large)
	entries, read := os.ReadDir(dir)
	must.OK(t, b.Close(t.Context()))
	must.OK(t, err)
	must.OK(t, read)
	doc, err := os.ReadFile(filesDoc)
	must.OK(t, err)
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		if !strings.Contains(string(doc), "| `"+name+"` |") {
			t.Errorf("%s does not name %s", filesDoc, name)
		}
	}
}
