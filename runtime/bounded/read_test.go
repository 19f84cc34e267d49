package bounded

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

func openRoot(t *testing.T) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	must.OK(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return root, dir
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestReadEndsAtTheLimit(t *testing.T) {
	root, dir := openRoot(t)
	sparse := filepath.Join(dir, "sparse")
	must.OK(t, os.WriteFile(sparse, []byte("abc"), 0o600))
	must.OK(t, os.Truncate(sparse, 1<<40))
	for name, read := range map[string]func() ([]byte, error){
		"by path": func() ([]byte, error) { return ReadFile(sparse, 1<<10) },
		"below":   func() ([]byte, error) { return ReadFileIn(root, "sparse", 1<<10) },
	} {
		var data []byte
		var err error
		cost := allocated(func() { data, err = read() })
		if !errors.Is(err, ErrTooLarge) || len(data) != 1<<10 || !bytes.HasPrefix(data, []byte("abc")) || cost > 1<<20 {
			t.Errorf("%s: %d bytes, %v; %d bytes allocated", name, len(data), err, cost)
		}
		if err == nil || !strings.Contains(err.Error(), sparse) || !strings.Contains(err.Error(), "1024 bytes") {
			t.Errorf("%s: the error lacks path or limit: %v", name, err)
		}
	}
	must.OK(t, os.Truncate(sparse, 1<<10))
	if data, err := ReadFile(sparse, 1<<10); err != nil || len(data) != 1<<10 {
		t.Errorf("a file of the limit's size: %d bytes, %v", len(data), err)
	}
	if data, err := ReadTailIn(root, "sparse", 3); err != nil || len(data) != 3 {
		t.Errorf("the tail: %d bytes, %v", len(data), err)
	}
	if _, err := ReadAll(strings.NewReader("abcd"), 3); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a stream beyond the limit: %v", err)
	}
}

func TestOnlyRegularFilesAreRead(t *testing.T) {
	root, dir := openRoot(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	must.OK(t, errors.Join(unix.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("dir"), 0o700),
		os.WriteFile(at("file"), []byte("x"), 0o600), os.Symlink("file", at("link")), os.Symlink("/dev/zero", at("device")),
		os.Symlink("/etc/passwd", at("out"))))
	for _, name := range []string{"pipe", "dir", "device"} {
		if _, err := ReadFile(at(name), 10); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"pipe", "dir", "device", "link", "out", "../x"} {
		if data, err := ReadFileIn(root, name, 10); err == nil {
			t.Errorf("%s below the root: %q", name, data)
		}
	}
	if data, err := ReadFile(at("link"), 10); err != nil || string(data) != "x" {
		t.Errorf("a link of the operator: %q, %v", data, err)
	}
	if _, err := ReadFile(at("none"), 10); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := ReadFile("/proc/self/status", 1<<16); err != nil {
		t.Errorf("a file of /proc: %v", err)
	}
}

func TestDirectoriesAreListedAndWalkedWithinLimits(t *testing.T) {
	root, dir := openRoot(t)
	for _, name := range []string{"b/1.conf", "a.conf", "c.conf", "c.yaml", "b/x/2.conf"} {
		must.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	got, err := Files(dir, ".conf", 4)
	if want := "a.conf b/1.conf b/x/2.conf c.conf"; err != nil ||
		strings.ReplaceAll(strings.Join(got, " "), dir+"/", "") != want {
		t.Errorf("got %v, %v; want %s", got, err, want)
	}
	if _, err := Files(dir, ".conf", 3); err == nil {
		t.Error("more files than the limit")
	}
	deep := filepath.Join(dir, strings.Repeat("d/", maxTreeDepth+2))
	must.OK(t, os.MkdirAll(deep, 0o700))
	if _, err := Files(dir, ".conf", 10); err == nil || !strings.Contains(err.Error(), "deep") {
		t.Errorf("a deep tree: %v", err)
	}
	n := 0
	for _, err := range EntriesIn(root, "b") {
		must.OK(t, err)
		n++
	}
	if n != 2 {
		t.Errorf("%d entries, want 2", n)
	}
	must.OK(t, os.Symlink("b", filepath.Join(dir, "l")))
	for _, err := range EntriesIn(root, "l") {
		if err == nil {
			t.Error("a link to a directory was followed")
		}
	}
}

func TestYAMLAliasesAreChargedBeforeTheyAreExpanded(t *testing.T) {
	many := "a: &a \"" + strings.Repeat("x", 1<<16) + "\"\nb: [" + strings.Repeat("*a, ", 90000) + "*a]\n"
	var nested strings.Builder
	nested.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := range 20 {
		n, m := string(rune('a'+i)), "a0"
		if i > 0 {
			m = string(rune('a' + i - 1))
		}
		nested.WriteString(n + ": &" + n + " [" + strings.Repeat("*"+m+",", 9) + "*" + m + "]\n")
	}
	for name, text := range map[string]string{
		"many aliases of one long text": many, "aliases of aliases": nested.String(),
		"merges":       "a: &a {k: \"" + strings.Repeat("x", 1<<16) + "\"}\nb: [" + strings.Repeat("{<<: *a},", 30000) + "]",
		"itself":       "a: &a [*a]",
		"many values":  "[" + strings.Repeat("a,", 500000) + "]",
		"directives":   strings.Repeat("%a b\n", 100000) + "---\na: 1\n",
		"deep nesting": strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
	} {
		var err error
		cost := allocated(func() { _, err = YAMLToJSON([]byte(text), 1<<20) })
		if err == nil || cost > 100<<20 {
			t.Errorf("%s: %v, %d MiB allocated", name, err, cost>>20)
		}
	}
	out, err := YAMLToJSON([]byte("a: &a {x: 1}\nb: *a\n"), 100)
	if err != nil || string(out) != `{"a":{"x":1},"b":{"x":1}}` {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := YAMLToJSON([]byte("a: 1"), 3); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if _, err := YAMLToJSONStrict([]byte("a: 1\na: 2\n"), 100); err == nil {
		t.Error("a duplicate key")
	}
}

func TestJSONIsOneValueWithinTheLimit(t *testing.T) {
	var v any
	for _, text := range []string{"{} {}", `{"a":`, strings.Repeat("[", 20000), strings.Repeat(" ", 101) + "1"} {
		if JSON([]byte(text), 100, &v) == nil {
			t.Errorf("%.20s: accepted", text)
		}
	}
	must.OK(t, JSON([]byte(`{"a":1}`), 100, &v))
}

func TestReadAllPassesErrorsOn(t *testing.T) {
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(io.ErrUnexpectedEOF) }()
	if _, err := ReadAll(r, 10); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}
