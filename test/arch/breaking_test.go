package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository is a git repository with breaking.sh in its place, and a format of the journal.
type repository struct {
	*testing.T
	dir string
}

func (r repository) git(args ...string) {
	r.Helper()
	identity := []string{"-C", r.dir, "-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"}
	if out, err := exec.Command("git", append(identity, args...)...).CombinedOutput(); err != nil {
		r.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func (r repository) format(n string) {
	r.Helper()
	write(r.T, r.dir, "messages/encoding.go", "package messages\n\nconst JournalFormat = "+n+"\n")
}

func TestABreakingChangeIsAllowedWithAnotherFormatAndBeforeTheFirstReleaseOnly(t *testing.T) {
	script, err := os.ReadFile("../tools/breaking.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, buf, format string
		release           string // whose contract is kept, empty for none
		fails             bool
		says              string
	}{
		{name: "compatible", buf: "true", format: "2", says: "compatible with"},
		{name: "compatible after it", buf: "true", format: "2", release: "v0.1.0", says: "compatible with v0.1.0"},
		{name: "raised", buf: "false", format: "3", says: "allowed: JournalFormat was raised from 2 to 3"},
		{name: "not raised", buf: "false", format: "2", fails: true, says: "raise messages.JournalFormat above 2"},
		{name: "lowered", buf: "false", format: "1", fails: true, says: "raise messages.JournalFormat above 2"},
		{name: "raised after it", buf: "false", format: "3", release: "v0.1.0", fails: true, says: "must stay readable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := repository{t, t.TempDir()}
			r.git("init", "-q", "-b", "main")
			write(r.T, r.dir, "test/tools/breaking.sh", string(script))
			write(r.T, r.dir, "proto/a.proto", "syntax = \"proto3\";\n")
			write(r.T, r.dir, "buf.yaml", "version: v2\n")
			r.format("2")
			if c.release != "" {
				write(r.T, r.dir, "test/promises/released/"+c.release+"/proto.binpb", "an image of the contract")
			}
			r.git("add", ".")
			r.git("commit", "-q", "-m", "base")
			r.git("switch", "-q", "-c", "change")
			r.format(c.format)
			write(r.T, r.dir, "proto/a.proto", "syntax = \"proto3\";\n// changed\n")
			r.git("commit", "-q", "-a", "-m", "change")
			cmd := exec.Command("bash", filepath.Join(r.dir, "test/tools/breaking.sh"))
			cmd.Env = append(os.Environ(), "BUF="+c.buf, "BREAKING_BASE=")
			out, err := cmd.CombinedOutput()
			if (err != nil) != c.fails || !strings.Contains(string(out), c.says) {
				t.Errorf("%v, want a failure: %t, and %q in:\n%s", err, c.fails, c.says, out)
			}
		})
	}
}
