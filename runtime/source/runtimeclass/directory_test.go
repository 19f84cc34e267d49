package runtimeclass

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/runtime/source/manifest"
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

func TestClassesAmongOtherObjects(t *testing.T) {
	pods, objects := filepath.Join(t.TempDir(), "pods"), filepath.Join(t.TempDir(), "objects")
	must.OK(t, os.Mkdir(pods, 0o750))
	must.OK(t, os.Mkdir(objects, 0o750))
	var log bytes.Buffer
	f := New("", slog.New(slog.NewTextHandler(&log, nil)), pods, objects, "")
	first := f.Current()
	const priority = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: "
	const token = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: t, annotations: " +
		"{kubernetes.io/service-account.name: robot}}\ntype: kubernetes.io/service-account-token\n" +
		"stringData: {token: hunter2}\n"
	pod := "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
	write(t, filepath.Join(pods, "a.yaml"), pod+"---\n"+class("w", "one")+priority+"7\n")
	write(t, filepath.Join(pods, "b.yaml"), pod)
	write(t, filepath.Join(objects, "c.yaml"), class("w", "two")+"---\n"+class("x", "two")+token)
	second := f.Current()
	if second == first || !slices.Equal(second.Names(), []string{"w", "x"}) ||
		!slices.Equal(second.Priorities(), []string{"high"}) {
		t.Errorf("runtime classes %v, priority classes %v", second.Names(), second.Priorities())
	}
	if !strings.Contains(log.String(), "duplicate class: the first one wins\" class=w") {
		t.Error(log.String())
	}
	write(t, filepath.Join(pods, "b.yaml"), pod+"# changed\n")
	if f.Current() != second {
		t.Error("another pointer, although no class has changed")
	}
	decode := func(text string) int {
		_, problems := manifest.Decode("p.yaml", []byte(text), manifest.Options{NodeName: "n", Classes: f.Current()})
		return len(problems)
	}
	const web = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  serviceAccountName: robot\n" +
		"  priorityClassName: high\n  runtimeClassName: x\n  containers: [{name: c, image: i}]\n"
	if n := decode(web); n > 0 {
		t.Errorf("%d problems", n)
	}
	// A broken file keeps its classes, and a removed one does not.
	write(t, filepath.Join(pods, "a.yaml"), priority+"[7]\n---\n"+class("w", "three"))
	write(t, filepath.Join(objects, "c.yaml"), "RuntimeClass: [")
	third := f.Current()
	if !slices.Equal(third.Names(), []string{"w", "x"}) || !slices.Equal(third.Priorities(), []string{"high"}) {
		t.Errorf("runtime classes %v, priority classes %v", third.Names(), third.Priorities())
	}
	must.OK(t, os.Remove(filepath.Join(objects, "c.yaml")))
	if names := f.Current().Names(); !slices.Equal(names, []string{"w"}) || decode(web) != 2 {
		t.Errorf("runtime classes %v, %d problems", names, decode(web))
	}
}
