package volume

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

// write writes files into a directory.
func write(t *testing.T, dir string, files payload) error {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must.OK(t, err)
	defer root.Close()
	w := writer{ctx: t.Context(), root: root, files: files}
	return w.write()
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.OK(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// expectFiles checks what a container finds in a volume: these files, links to them, and nothing of earlier contents.
func expectFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	top := map[string]bool{}
	for path, content := range want {
		got, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil || string(got) != content {
			t.Errorf("%s is %q, %v; want %q", path, got, err, content)
		}
		first, _, _ := strings.Cut(path, "/")
		top[first] = true
	}
	stamp, err := os.Readlink(filepath.Join(dir, dataLink))
	must.OK(t, err)
	must.OK(t, filepath.WalkDir(filepath.Join(dir, stamp), func(path string, e os.DirEntry, err error) error {
		rel, _ := filepath.Rel(filepath.Join(dir, stamp), path)
		if _, ok := want[rel]; err == nil && !e.IsDir() && !ok {
			t.Errorf("%s is left in the contents", rel)
		}
		return err
	}))
	for _, name := range names(t, dir) {
		if name != dataLink && name != stamp && !top[name] {
			t.Errorf("%s is left", name)
		}
	}
}

func texts(files map[string]string) payload {
	out := payload{}
	for path, text := range files {
		out[path] = file{data: []byte(text), mode: 0o644}
	}
	return out
}

func TestContentsAppearAtOnce(t *testing.T) {
	dir := t.TempDir()
	first := map[string]string{"a": "1", "sub/b": "1", "sub/deep/c": "1", "old": "1", "olds/d": "1"}
	must.OK(t, write(t, dir, texts(first)))
	expectFiles(t, dir, first)
	stamp, err := os.Readlink(filepath.Join(dir, dataLink))
	must.OK(t, err)
	must.OK(t, write(t, dir, texts(first)))
	if again, _ := os.Readlink(filepath.Join(dir, dataLink)); again != stamp {
		t.Error("written again, though nothing changed")
	}
	for _, next := range []map[string]string{
		{"a": "2", "sub/b": "2", "new": "2"}, {"a": "2", "sub/b": "2"}, {"a": "2", "sub": "now a file"},
		{"a": "longer than before"}, {"a": "short"}, {},
	} {
		must.OK(t, write(t, dir, texts(next)))
		expectFiles(t, dir, next)
	}
}

func TestPathsOfFilesStayInTheirVolume(t *testing.T) {
	dir := t.TempDir()
	for path, says := range map[string]string{
		"": "does not name", ".": "does not name", "a/..": "does not name", "../a": "'..'", "a/../../b": "'..'",
		"..a":      "start with",
		"./..data": "start with", "/a": "relative", "a\x00b": "does not name", strings.Repeat("x", 256): "filenames",
		strings.Repeat("x/", 2100): "4096",
	} {
		err := write(t, dir, payload{path: file{}})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("path %.20q: %v", path, err)
		}
	}
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	must.OK(t, write(t, dir, texts(map[string]string{"./a//b": "x", "a/..b": "y"})))
	expectFiles(t, dir, map[string]string{"a/b": "x", "a/..b": "y"})
}

func TestFailedWriteLeavesTheContentsBefore(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, write(t, dir, texts(map[string]string{"a": "1"})))
	before := names(t, dir)
	if write(t, dir, texts(map[string]string{"a": "2", "x": "file", "x/y": "below a file"})) == nil {
		t.Fatal("a file below a file")
	}
	if after := names(t, dir); !slices.Equal(before, after) {
		t.Errorf("left %v, before %v", after, before)
	}
	expectFiles(t, dir, map[string]string{"a": "1"})
}

// A crash may come between any two steps of a write.
func TestWhatACrashLeavesIsRemoved(t *testing.T) {
	dir := t.TempDir()
	want := map[string]string{"a": "1"}
	must.OK(t, write(t, dir, texts(want)))
	unpublished := filepath.Join(dir, "..2026_01_01_00_00_00.1")
	must.OK(t, errors.Join(
		os.Mkdir(unpublished, 0o755), os.WriteFile(filepath.Join(unpublished, "key"), []byte("old secret"), 0o600),
		os.Symlink("..2026_01_01_00_00_00.1", filepath.Join(dir, newDataLink)),
		os.Remove(filepath.Join(dir, "a")), // published, but not linked yet
		os.Symlink("..data/gone", filepath.Join(dir, "gone"))))
	must.OK(t, write(t, dir, texts(want)))
	expectFiles(t, dir, want)
	must.OK(t, os.Remove(filepath.Join(dir, dataLink)))
	must.OK(t, write(t, dir, texts(want)))
	expectFiles(t, dir, want)
}

// A privileged container can write any volume. What it leaves is neither followed nor waited for.
func TestWriterFollowsNothingThatAContainerPlants(t *testing.T) {
	outside := t.TempDir()
	precious := filepath.Join(outside, "a")
	must.OK(t, os.WriteFile(precious, []byte("precious"), 0o600))
	remove := func(dir string) error {
		stamp, err := os.Readlink(filepath.Join(dir, dataLink))
		return errors.Join(err, os.RemoveAll(filepath.Join(dir, stamp)), os.Remove(filepath.Join(dir, dataLink)))
	}
	for name, plant := range map[string]func(dir string) error{
		"..data leads out": func(dir string) error {
			return errors.Join(remove(dir), os.Symlink(outside, filepath.Join(dir, dataLink)))
		},
		"..data leads up": func(dir string) error {
			return errors.Join(remove(dir), os.Symlink("..", filepath.Join(dir, dataLink)))
		},
		"..data leads to a link out": func(dir string) error {
			return errors.Join(remove(dir), os.Symlink("..2026", filepath.Join(dir, dataLink)),
				os.Symlink(outside, filepath.Join(dir, "..2026")))
		},
		"..data is a directory": func(dir string) error {
			return errors.Join(remove(dir), os.MkdirAll(filepath.Join(dir, dataLink, "sub/x"), 0o700))
		},
		"..data_tmp is a directory": func(dir string) error {
			return os.MkdirAll(filepath.Join(dir, newDataLink, "sub"), 0o700)
		},
		"..data_tmp leads out": func(dir string) error { return os.Symlink(outside, filepath.Join(dir, newDataLink)) },
		"a visible link leads out": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "a")), os.Symlink(precious, filepath.Join(dir, "a")))
		},
		"a visible link is a file": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "a")), os.WriteFile(filepath.Join(dir, "a"), nil, 0o600))
		},
		"a file is a link out": func(dir string) error {
			at := filepath.Join(dir, dataLink, "a")
			return errors.Join(os.Remove(at), os.Symlink(precious, at))
		},
		"a file is a FIFO": func(dir string) error {
			at := filepath.Join(dir, dataLink, "a")
			return errors.Join(os.Remove(at), unix.Mkfifo(at, 0o666))
		},
		"a file is a device": func(dir string) error {
			at := filepath.Join(dir, dataLink, "a")
			return errors.Join(os.Remove(at), unix.Mknod(at, unix.S_IFCHR|0o666, 0)) // 0:0, as a user namespace allows
		},
		"a visible link is a device": func(dir string) error {
			at := filepath.Join(dir, "a")
			return errors.Join(os.Remove(at), unix.Mknod(at, unix.S_IFCHR|0o666, 0))
		},
		"a file is huge": func(dir string) error { return os.Truncate(filepath.Join(dir, dataLink, "a"), 1<<40) },
		"a directory is a link out": func(dir string) error {
			at := filepath.Join(dir, dataLink, "sub")
			return errors.Join(os.RemoveAll(at), os.Symlink(outside, at))
		},
		"files beside those of the volume": func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, dataLink, "more"), nil, 0o600),
				os.Symlink(outside, filepath.Join(dir, dataLink, "link")),
				unix.Mkfifo(filepath.Join(dir, dataLink, "sub/p"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, first := range []string{"1", "2"} {
				dir := t.TempDir()
				want := map[string]string{"a": "1", "sub/b": "1"}
				must.OK(t, write(t, dir, texts(want)))
				must.OK(t, plant(dir))
				for _, content := range []string{first, "1", "3"} {
					want["a"] = content
					must.OK(t, write(t, dir, texts(want)))
					expectFiles(t, dir, want)
				}
			}
			if got, err := os.ReadFile(precious); err != nil || string(got) != "precious" || len(names(t, outside)) != 1 {
				t.Errorf("outside the volume: %q, %v, %v", got, err, names(t, outside))
			}
		})
	}
}

// Another process swaps a directory of the volume for a link out of it, while the volume is written.
func TestWriterIsSafeFromSwaps(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(outside, "b"), []byte("precious"), 0o600))
	must.OK(t, write(t, dir, texts(map[string]string{"sub/b": "0"})))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				at := filepath.Join(dir, e.Name())
				if strings.HasPrefix(e.Name(), "..2") {
					_ = os.RemoveAll(filepath.Join(at, "sub"))
					_ = os.Symlink(outside, filepath.Join(at, "sub"))
				}
			}
		}
	}()
	for i := range 300 {
		// It may fail, but not leave the volume.
		_ = write(t, dir, texts(map[string]string{"sub/b": strings.Repeat("x", i%7)}))
	}
	close(stop)
	<-stopped
	if got, err := os.ReadFile(filepath.Join(outside, "b")); err != nil || string(got) != "precious" {
		t.Errorf("outside the volume: %q, %v", got, err)
	}
	must.OK(t, write(t, dir, texts(map[string]string{"sub/b": "1"})))
	expectFiles(t, dir, map[string]string{"sub/b": "1"})
}
