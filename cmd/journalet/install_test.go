package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/runtime/install"
	"github.com/journalet/journalet/runtime/tune"
	"github.com/journalet/journalet/test/must"
)

func TestInstallAndUninstallBelowAnotherRoot(t *testing.T) {
	root := t.TempDir()
	program := filepath.Join(root, "usr/local/bin/journalet")
	code, out, errs := run(t.Context(), "install", "--root", root, "--dry-run")
	if _, err := os.Lstat(program); code != exitOK || err == nil ||
		!strings.Contains(out, "create     /usr/local/bin/kubectl-journalet -> journalet\n") {
		t.Fatalf("a dry run: exit code %d, %v\n%s%s", code, err, out, errs)
	}
	if code, out, errs = run(t.Context(), "install", "--root", root); code != exitOK {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	unit, err := os.ReadFile(filepath.Join(root, install.UnitPath))
	must.OK(t, err)
	flags, err := os.ReadFile(filepath.Join(root, install.FlagsPath))
	must.OK(t, err)
	if !strings.Contains(string(unit), "\nExecStart=/usr/local/bin/journalet run $JOURNALET_ARGS\n") ||
		!strings.HasSuffix(string(flags), "\nJOURNALET_ARGS=\n") {
		t.Errorf("%s\n%s", unit, flags)
	}
	kubelet := filepath.Join(root, "usr/bin/kubelet")
	must.OK(t, os.MkdirAll(filepath.Dir(kubelet), 0o750))
	must.OK(t, os.Symlink("/usr/local/bin/journalet", kubelet))
	if code, _, errs = run(t.Context(), "uninstall", "--root", root); code != exitError ||
		!strings.Contains(errs, "give the kubelet its place back first") {
		t.Fatalf("in the kubelet's place: exit code %d, %s", code, errs)
	}
	must.OK(t, os.Remove(kubelet))
	var changes []install.Change
	if code, out, errs = run(t.Context(), "uninstall", "--root", root, "-o", "json"); code != exitOK {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	must.OK(t, json.Unmarshal([]byte(out), &changes))
	if _, err := os.Lstat(program); err == nil || len(changes) != 6 || changes[0].Action != install.Remove {
		t.Errorf("%+v, %v", changes, err)
	}
}

// TestInstallPageShowsWhatTheCommandsPrint holds the page to what install, uninstall and check --fix print.
func TestInstallPageShowsWhatTheCommandsPrint(t *testing.T) {
	page, err := os.ReadFile("../../docs/INSTALL.md")
	must.OK(t, err)
	root := t.TempDir()
	shows := func(line, printed string) {
		t.Helper()
		if block := "```\n$ " + line + "\n" + printed + "```\n"; !strings.Contains(string(page), block) {
			t.Errorf("docs/INSTALL.md does not show\n%s", block)
		}
	}
	for _, step := range []struct {
		shown string
		argv  []string
	}{
		{"./journalet install --dry-run", []string{"install", "--dry-run"}},
		{"", []string{"install"}},
		{"./journalet uninstall --dry-run", []string{"uninstall", "--dry-run"}},
	} {
		code, out, errs := run(t.Context(), append(step.argv, "--root", root)...)
		if code != exitOK {
			t.Fatalf("%v: exit code %d\n%s", step.argv, code, errs)
		}
		if step.shown != "" {
			shows(step.shown, out)
		}
	}
	for line := range strings.Lines(tune.Content) {
		if !strings.Contains(string(page), line) {
			t.Errorf("docs/INSTALL.md does not show the line of the drop-in %q", line)
		}
	}
}
