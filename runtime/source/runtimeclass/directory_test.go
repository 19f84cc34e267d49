package runtimeclass

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func class(name, handler string) string {
	return "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: " + name + "}\nhandler: " + handler + "\n"
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestDirectoryReturnsSameSetUntilClassChanges(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "classes")
	f := New(dir, slog.New(slog.DiscardHandler))
	if names := f.Current().Names(); len(names) > 0 {
		t.Errorf("a missing directory has %v", names)
	}
	must.OK(t, os.Mkdir(dir, 0o750))
	write(t, filepath.Join(dir, "b.yaml"), class("x", "one")+"---\n"+class("w", "one"))
	write(t, filepath.Join(dir, "a.yaml"), class("w", "two"))
	write(t, filepath.Join(dir, ".hidden"), class("z", "one"))
	first := f.Current()
	if !slices.Equal(first.Names(), []string{"w", "x"}) {
		t.Errorf("classes %v", first.Names())
	}
	if f.Current() != first {
		t.Error("another pointer without a change")
	}
	write(t, filepath.Join(dir, "a.yaml"), class("w", "three"))
	second := f.Current()
	if second == first {
		t.Error("the same pointer after a change")
	}
	must.OK(t, os.Remove(filepath.Join(dir, "b.yaml")))
	if names := f.Current().Names(); !slices.Equal(names, []string{"w"}) {
		t.Errorf("without one of the files: %v", names)
	}
}

func TestBrokenClassFileKeepsOldClassesAndIsLoggedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "classes.yaml")
	var log bytes.Buffer
	f := New(path, slog.New(slog.NewTextHandler(&log, nil)))
	write(t, path, class("x", "one")+"---\n"+class("w", "one"))
	f.Current()
	write(t, path, class("w", "two")+"---\n"+class("x", "no/handler"))
	for range 3 {
		if names := f.Current().Names(); !slices.Equal(names, []string{"w", "x"}) {
			t.Errorf("classes %v", names)
		}
	}
	if n := strings.Count(log.String(), "runtime class problem"); n != 1 ||
		!strings.Contains(log.String(), path+":9: handler") {
		t.Errorf("logged %d times:\n%s", n, &log)
	}
	if p := f.Problems(); len(p) != 1 || !strings.Contains(p[0], path+":9: handler") {
		t.Errorf("problems %v", p)
	}
	write(t, path, strings.Repeat("#", maxFileBytes+1))
	if names := f.Current().Names(); !slices.Equal(names, []string{"w", "x"}) || len(f.Problems()) != 2 {
		t.Errorf("too large: classes %v, problems %v", names, f.Problems())
	}
	must.OK(t, os.Remove(path))
	if names := f.Current().Names(); len(names) > 0 || len(f.Problems()) > 0 {
		t.Errorf("removed: classes %v, problems %v", names, f.Problems())
	}
}
