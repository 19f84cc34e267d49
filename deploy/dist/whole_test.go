//go:build dist

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestReleaseIsTheSameFromTwoDirectories builds everything twice: here, and in a copy of this checkout without git.
func TestReleaseIsTheSameFromTwoDirectories(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", strconv.FormatInt(someDate.Unix(), 10))
	copied := filepath.Join(t.TempDir(), "a", "copy")
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = "../.."
	names, err := list.Output()
	ok(t, err)
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join("../..", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed, and not committed yet
		}
		ok(t, err)
		ok(t, put(filepath.Join(copied, name), data))
	}
	var sums []string
	for _, root := range []string{"../..", copied} {
		out := filepath.Join(t.TempDir(), "dist")
		ok(t, run(t.Context(), root, out, someVersion))
		text, err := os.ReadFile(filepath.Join(out, sumsFile))
		ok(t, err)
		sums = append(sums, string(text))
	}
	if sums[0] != sums[1] {
		t.Errorf("the files differ:\n%s\n%s", sums[0], sums[1])
	}
	for _, name := range []string{"_amd64.deb", ".aarch64.rpm", ".oci.tar", "amd64.spdx.json"} {
		if !strings.Contains(sums[0], name+"\n") {
			t.Errorf("no %s:\n%s", name, sums[0])
		}
	}
}
