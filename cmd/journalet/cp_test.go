package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/runtime/api/stream"
	"github.com/journalet/journalet/test/fakekubelet"
	"github.com/journalet/journalet/test/must"
)

// sameTree reports what differs between two directories.
func sameTree(t *testing.T, a, b string) {
	t.Helper()
	if out, err := exec.Command("diff", "-r", "--no-dereference", a, b).CombinedOutput(); err != nil {
		t.Errorf("%s and %s differ: %s", a, b, out)
	}
}

func TestFilesAndTreesAreCopiedBothWays(t *testing.T) {
	k := fakekubelet.Serve(t, aPod("default/web", "app"))
	inside, dir := t.TempDir(), t.TempDir()
	src := filepath.Join(dir, "src")
	must.OK(t, os.MkdirAll(filepath.Join(src, "sub", "empty"), 0o755))
	big := make([]byte, 8<<20)
	_, _ = rand.Read(big)
	must.OK(t, os.WriteFile(filepath.Join(src, "big"), big, 0o600))
	must.OK(t, os.WriteFile(filepath.Join(src, "sub", "-x it's"), []byte("x"), 0o755))
	must.OK(t, os.Mkdir(filepath.Join(inside, "there"), 0o755))
	copied := func(args ...string) {
		t.Helper()
		if code, _, errs := run(t.Context(), append([]string{"cp", "--socket", k.Socket}, args...)...); code != exitOK {
			t.Fatalf("%q: exit code %d, %s", args, code, errs)
		}
	}
	// Into the container: under a new name, into a directory, the content.
	copied(src, "web:"+inside+"/new")
	copied(src, "default/web:"+inside+"/there", "--no-preserve")
	sameTree(t, src, filepath.Join(inside, "new"))
	sameTree(t, src, filepath.Join(inside, "there", "src"))
	t.Chdir(filepath.Join(src, "sub"))
	copied("./-x it's", "web:"+inside+"/-file")
	// Out of it.
	copied("web:"+inside+"/new", filepath.Join(dir, "back"))
	copied("web:"+inside+"/new/.", filepath.Join(dir, "content"), "--retries", "2")
	copied("web:"+inside+"/-file", filepath.Join(dir, "content"))
	sameTree(t, src, filepath.Join(dir, "back"))
	must.OK(t, os.Rename(filepath.Join(dir, "content", "-file"), filepath.Join(dir, "file")))
	sameTree(t, src, filepath.Join(dir, "content"))
	info, err := os.Stat(filepath.Join(dir, "file"))
	must.OK(t, err)
	if info.Mode().Perm()&0o100 == 0 {
		t.Errorf("the permission to execute is lost: %s", info.Mode())
	}
	copied("web:"+inside+"/-file", filepath.Join(dir, "plain"), "--no-preserve")
	if info, err = os.Stat(filepath.Join(dir, "plain")); err != nil || info.Mode().Perm()&0o100 != 0 {
		t.Errorf("with --no-preserve: %v, %v", info.Mode(), err)
	}
}

func TestCopiesThatFailSayWhy(t *testing.T) {
	k := fakekubelet.Serve(t, aPod("default/web", "app"))
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	must.OK(t, os.Symlink("/etc", filepath.Join(dir, "link")))
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"a b", exitUsage, "neither is in a pod"},
		{"web:a web:b", exitUsage, "both are in a pod"},
		{":a b", exitUsage, "names no pod"},
		{"web: b", exitUsage, "has no path"},
		{"./a:b ../c:d", exitUsage, "neither is in a pod"},
		{"web:a", exitUsage, "accepts 2 arg"},
		{"/none/at/all web:/x", exitError, "no such file"},
		{"wbe:/x " + dir + "/y", exitNotFound, "did you mean default/web?"},
		{"../default/web:/x y", exitUsage, "neither is in a pod"},
		{"x/../web:/x y", exitNotFound, "not found"},
		{"web:/none/at/all " + dir + "/y", exitError, "tar in the container ended with exit code 2"},
		{dir + "/file web:/none/at/all", exitError, "tar in the container ended with exit code 2"},
		{"web:/etc/hosts " + dir + "/link/hosts/x", exitError, "link/hosts"},
		{"web:/etc/hosts " + dir + "/file -c no", exitNotFound, "it has app"},
	} {
		code, _, errs := run(t.Context(), append([]string{"cp", "--socket", k.Socket}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d, %q; want %d, %q", c.args, code, errs, c.code, c.want)
		}
	}
}

func TestLostCopyContinuesWhereItWas(t *testing.T) {
	data := make([]byte, 1<<20)
	_, _ = rand.Read(data)
	for _, c := range []struct {
		retries, losses int
		whole           bool
	}{{3, 3, true}, {-1, 5, true}, {2, 3, false}, {0, 1, false}} {
		losses, resumed := 0, 0
		r := &tarReader{retries: c.retries, resume: func(int64, int) { resumed++ }}
		r.open = func(skip int64, w io.Writer) error {
			rest := data[skip:]
			if losses < c.losses {
				losses++
				_, _ = w.Write(rest[:min(len(rest), 1000)])
				return fmt.Errorf("%w: test", stream.ErrLost)
			}
			_, _ = w.Write(rest)
			return nil
		}
		got, err := io.ReadAll(r)
		must.OK(t, err)
		if whole := bytes.Equal(got, data); whole != c.whole || errors.Is(r.end(), stream.ErrLost) == c.whole {
			t.Errorf("%+v: %d bytes of %d, %v", c, len(got), len(data), r.end())
		}
		if c.whole && resumed != c.losses {
			t.Errorf("%+v: it was resumed %d times", c, resumed)
		}
	}
}
