package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/runtime/install"
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
