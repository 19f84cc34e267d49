package preflight

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/test/must"
)

func TestOnlyRootAndTheAgentsUserAreTrustedWithFiles(t *testing.T) {
	for _, c := range []struct {
		name     string
		uid, gid uint32
		mode     uint32
		above    bool
		who      string
	}{
		{"root's", 0, 0, 0o755, false, ""},
		{"the agent's", 7, 8, 0o775, false, ""},
		{"of another user", 1000, 0, 0o700, false, "user 1000"},
		{"above, of another user", 1000, 0, 0o1777, true, "user 1000"},
		{"of a group", 0, 100, 0o770, false, "group 100"},
		{"readable by a group", 0, 100, 0o750, false, ""},
		{"of root's group", 0, 0, 0o770, false, ""},
		{"of everybody", 0, 0, 0o707, false, "everybody"},
		{"sticky", 0, 0, 0o1777, false, "everybody"},
		{"above, sticky", 0, 0, 0o1777, true, ""},
		{"above, of everybody", 0, 0, 0o777, true, "everybody"},
	} {
		got := exposureOf("/x", &unix.Stat_t{Uid: c.uid, Gid: c.gid, Mode: c.mode}, 7, 8, c.above)
		if got == nil && c.who != "" || got != nil && (got.who != c.who || got.anyone != (c.who == "everybody")) {
			t.Errorf("%s: got %+v, want %q", c.name, got, c.who)
		}
	}
}

func TestRootWhoseSecretsOthersCanChangeIsRefused(t *testing.T) {
	for _, name := range own.SecretDirs() {
		root := filepath.Join(t.TempDir(), "root")
		dir := filepath.Join(root, name)
		must.OK(t, os.MkdirAll(dir, 0o700))
		if err := CheckRoot(root); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		must.OK(t, os.Chmod(dir, 0o707))
		if err := CheckRoot(root); err == nil {
			t.Errorf("%s may be changed by everybody, and the root directory is used", name)
		}
	}
}
