package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

// entryOf is an entry of a test's archive.
type entryOf struct {
	name string
	kind byte
	body string
	link string
	mode int64
}

func archiveOf(t *testing.T, entries ...entryOf) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		must.OK(t, w.WriteHeader(&tar.Header{Name: e.name, Typeflag: e.kind, Size: int64(len(e.body)), Linkname: e.link,
			Mode: e.mode, Format: tar.FormatGNU}))
		_, err := io.WriteString(w, e.body)
		must.OK(t, err)
	}
	must.OK(t, w.Close())
	return &b
}

// tree returns the files below a directory as lines of "path mode content".
func tree(t *testing.T, dir string) string {
	t.Helper()
	var lines []string
	must.OK(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		info, err := d.Info()
		must.OK(t, err)
		line := rel
		switch {
		case d.IsDir():
			line += "/"
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			line += " -> " + to
		case info.Mode().IsRegular():
			b, err := os.ReadFile(p)
			must.OK(t, err)
			line += fmt.Sprintf(" %03o %s", info.Mode().Perm(), b)
		default:
			line += " " + info.Mode().String()
		}
		lines = append(lines, line)
		return nil
	}))
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func unpack(t *testing.T, r io.Reader, base, local string) (warned []string, err error) {
	t.Helper()
	err = Unpack(t.Context(), r, Target{Base: base, Local: local, Executable: true,
		Warn: func(s string) { warned = append(warned, s) }})
	return warned, err
}

func TestFilesAndTreesGoWhereTheyWereRequested(t *testing.T) {
	t.Cleanup(func() { unix.Umask(unix.Umask(0o22)) })
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "old"), []byte("a longer one"), 0o600))
	must.OK(t, os.MkdirAll(filepath.Join(dir, "there", "kept"), 0o700))
	for _, c := range []struct {
		base, local string
		entries     []entryOf
	}{
		{"f", "new", []entryOf{{name: "f", body: "1", mode: 0o4755}}},
		{"f", "old", []entryOf{{name: "f", body: "2"}}},
		{"f", "there", []entryOf{{name: "f", body: "3"}}},
		{"f", "a/b/", []entryOf{{name: "f", body: "4"}}},
		{"d", "there", []entryOf{
			{name: "d/", kind: tar.TypeDir}, {name: "d/x/y", body: "5"}, {name: "d/e/", kind: tar.TypeDir}}},
		{".", "all", []entryOf{
			{name: "./", kind: tar.TypeDir}, {name: "./etc/hosts", body: "6"}, {name: "bin", body: "7"}}},
	} {
		local := filepath.Join(dir, c.local)
		if strings.HasSuffix(c.local, "/") {
			local += "/"
		}
		if warned, err := unpack(t, archiveOf(t, c.entries...), c.base, local); err != nil || warned != nil {
			t.Errorf("%s to %s: %v, %q", c.base, c.local, err, warned)
		}
	}
	want := `a/
a/b/
a/b/f 644 4
all/
all/bin 644 7
all/etc/
all/etc/hosts 644 6
new 755 1
old 600 2
there/
there/e/
there/f 644 3
there/kept/
there/x/
there/x/y 644 5`
	if got := tree(t, dir); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestHostileArchivesWriteNothingOutside(t *testing.T) {
	long := strings.Repeat("x/", maxNameBytes/2) + "y"
	for name, c := range map[string]struct {
		entry entryOf
		want  error
	}{
		"absolute":           {entryOf{name: "/etc/passwd", body: "x"}, ErrHostile},
		"parent":             {entryOf{name: "d/../../out", body: "x"}, ErrHostile},
		"parent of the base": {entryOf{name: "../out", body: "x"}, ErrHostile},
		"only dots":          {entryOf{name: "..", kind: tar.TypeDir}, ErrHostile},
		"another name":       {entryOf{name: "other/file", body: "x"}, ErrHostile},
		"a longer base":      {entryOf{name: "dd/file", body: "x"}, ErrHostile},
		"a long name":        {entryOf{name: "d/" + long, body: "x"}, ErrHostile},
		"a long component":   {entryOf{name: "d/" + strings.Repeat("x", 300), body: "x"}, unix.ENAMETOOLONG},
		"through a link":     {entryOf{name: "d/out/file", body: "x"}, nil},
		"over a link":        {entryOf{name: "d/outfile", body: "x"}, nil},
		"over a pipe":        {entryOf{name: "d/pipe", body: "x"}, nil},
		"over a directory":   {entryOf{name: "d/sub", body: "x"}, nil},
	} {
		dir := t.TempDir()
		outside, inside := filepath.Join(dir, "outside"), filepath.Join(dir, "inside")
		must.OK(t, os.MkdirAll(filepath.Join(inside, "sub"), 0o700))
		must.OK(t, os.Mkdir(outside, 0o700))
		must.OK(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o600))
		must.OK(t, os.Symlink(outside, filepath.Join(inside, "out")))
		must.OK(t, os.Symlink("../outside/secret", filepath.Join(inside, "outfile")))
		must.OK(t, unix.Mkfifo(filepath.Join(inside, "pipe"), 0o600))
		before := tree(t, dir)
		_, err := unpack(t, archiveOf(t, c.entry), "d", inside)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || len(err.Error()) > 5000 {
			t.Errorf("%s: %v", name, err)
		}
		if after := tree(t, dir); after != before {
			t.Errorf("%s: the files were\n%s\nand are\n%s", name, before, after)
		}
	}
}

func TestLinksAndDevicesAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	warned, err := unpack(t, archiveOf(t,
		entryOf{name: "d/", kind: tar.TypeDir},
		entryOf{name: "d/link", kind: tar.TypeSymlink, link: "/etc"},
		entryOf{name: "d/link/passwd", body: "x"}, // a directory then
		entryOf{name: "d/hard", kind: tar.TypeLink, link: "/etc/passwd"},
		entryOf{name: "d/null", kind: tar.TypeChar}, entryOf{name: "d/sda", kind: tar.TypeBlock},
		entryOf{name: "d/pipe", kind: tar.TypeFifo},
		entryOf{name: "d/file", body: "y"}), "d", dir)
	if err != nil || len(warned) != 5 {
		t.Errorf("%v, %q", err, warned)
	}
	if got := tree(t, dir); got != "file 644 y\nlink/\nlink/passwd 644 x" {
		t.Error(got)
	}
}

func TestArchivesThatAreNotWhatTheySayAreRefused(t *testing.T) {
	sparse := func() io.Reader { // a file of 1 TB in 2 KB
		f := filepath.Join(t.TempDir(), "d")
		must.OK(t, os.WriteFile(f, nil, 0o600))
		must.OK(t, os.Truncate(f, 1<<40))
		b, err := exec.Command("tar", "-S", "-cf", "-", "-C", filepath.Dir(f), "d").Output()
		must.OK(t, err)
		return bytes.NewReader(b)
	}
	whole, err := io.ReadAll(archiveOf(t, entryOf{name: "d", body: strings.Repeat("x", 4096)}))
	must.OK(t, err)
	endless := &repeat{[]byte("\x00")}
	for name, c := range map[string]struct {
		r    io.Reader
		want error
	}{
		"sparse":           {sparse(), ErrHostile},
		"cut":              {bytes.NewReader(whole[:2048]), io.ErrUnexpectedEOF},
		"empty":            {strings.NewReader(""), io.ErrUnexpectedEOF},
		"no archive":       {strings.NewReader(strings.Repeat("x", 1024)), tar.ErrHeader},
		"endless zeros":    {endless, io.ErrUnexpectedEOF},
		"does not end":     {io.MultiReader(bytes.NewReader(whole), endless), ErrHostile},
		"a file and a dir": {archiveOf(t, entryOf{name: "d", body: "x"}, entryOf{name: "d/x", body: "x"}), ErrHostile},
		"twice":            {archiveOf(t, entryOf{name: "d", body: "x"}, entryOf{name: "d", body: "x"}), ErrHostile},
	} {
		if _, err := unpack(t, c.r, "d", filepath.Join(t.TempDir(), "x")); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// A tar that found nothing writes the end of an archive, and says with its exit code, after that, that it failed.
func TestArchiveWithoutEntriesIsReadToItsEnd(t *testing.T) {
	r := strings.NewReader(strings.Repeat("\x00", 10240))
	if _, err := unpack(t, r, "d", filepath.Join(t.TempDir(), "x")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if r.Len() > 0 {
		t.Errorf("%d bytes were not read", r.Len())
	}
}

// repeat is an endless reader.
type repeat struct{ b []byte }

func (r *repeat) Read(p []byte) (int, error) { return copy(p, bytes.Repeat(r.b, len(p))), nil }

func TestUnpackingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	to := Target{Base: "d", Local: t.TempDir(), Warn: func(string) {}}
	err := Unpack(ctx, archiveOf(t, entryOf{name: "d", body: "x"}), to)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestTreesArePackedWithoutFollowingLinks(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	must.OK(t, os.MkdirAll(filepath.Join(src, "sub", "empty"), 0o700))
	deep := filepath.Join(src, strings.Repeat("directory/", 30))
	must.OK(t, os.MkdirAll(deep, 0o700))
	must.OK(t, os.WriteFile(filepath.Join(deep, strings.Repeat("n", 120)+"ü"), []byte("deep"), 0o755))
	must.OK(t, os.WriteFile(filepath.Join(src, "sub", "f"), []byte("1"), 0o640))
	must.OK(t, os.Symlink("/etc", filepath.Join(src, "link")))
	must.OK(t, unix.Mkfifo(filepath.Join(src, "pipe"), 0o600))
	must.OK(t, os.Symlink(src, filepath.Join(dir, "named")))
	var b bytes.Buffer
	var warned []string
	warn := func(s string) { warned = append(warned, s) }
	must.OK(t, Pack(t.Context(), &b, filepath.Join(dir, "named"), "dst", warn))
	if len(warned) != 1 || !strings.Contains(warned[0], "pipe") {
		t.Errorf("warned %q", warned)
	}
	out := t.TempDir()
	cmd := exec.Command("tar", "-xf", "-", "-C", out)
	cmd.Stdin = &b
	must.OK(t, cmd.Run())
	want := strings.Replace(tree(t, src), "\npipe prw-------", "", 1)
	if got := tree(t, filepath.Join(out, "dst")); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := Pack(t.Context(), io.Discard, filepath.Join(dir, "none"), "x", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
