package validate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/must"
)

// pod returns a manifest with this spec beside its container.
func pod(name, spec string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  containers: [{name: c, image: i" + spec +
		"}]\n"
}

const settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {mode: fast}\n"

// check returns the findings as text.
func check(t *testing.T, opts Options, files ...string) (*Result, string) {
	t.Helper()
	var in []File
	for i, text := range files {
		in = append(in, File{Path: fmt.Sprintf("f%d", i), Data: []byte(text)})
	}
	r := Check(t.Context(), in, opts)
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s:%d %s %s %s\n", f.Path, f.Line, f.Level, f.Code, f.Field)
	}
	return r, b.String()
}

func TestFindings(t *testing.T) {
	ref := func(kind, name, key string) string {
		return ", env: [{name: V, valueFrom: {" + kind + "KeyRef: {name: " + name + ", key: " + key + "}}}]"
	}
	for name, c := range map[string]struct {
		opts  Options
		files []string
		want  string
	}{
		"nothing to say": {files: []string{pod("a", ""), pod("b", "")}},
		"problem": {files: []string{pod("a", ", imagee: x")},
			want: "f0:5 error unknown-field spec.containers[0].imagee\n"},
		"warning": {files: []string{pod("a", ", stdinOnce: true")},
			want: "f0:5 warning warning spec.containers[0].stdinOnce\n"},
		"pods of one name": {files: []string{pod("a", ""), pod("a", "")},
			want: "f1:1 warning same-name metadata.name\n"},
		"unknown node": {files: []string{pod("a", "") + "  nodeName: other\n"}, want: "f0:6 note node spec.nodeName\n"},
		"another node": {opts: Options{Manifest: manifest.Options{NodeName: "n"}},
			files: []string{pod("a", "") + "  nodeName: other\n"}, want: "f0:6 error invalid spec.nodeName\n"},
		"objects unknown":       {files: []string{pod("a", ref("configMap", "settings", "mode"))}},
		"object beside its pod": {files: []string{pod("a", ref("configMap", "settings", "mode")), settings}},
		"object of another file": {opts: objects(settings),
			files: []string{pod("a", ref("configMap", "settings", "mode"))}},
		"object that is missing": {opts: objects(settings), files: []string{pod("a", ref("secret", "s", "k"))},
			want: "f0:1 note missing \n"},
		"key that is missing": {opts: objects(settings), files: []string{pod("a", ref("configMap", "settings", "k"))},
			want: "f0:1 note missing \n"},
		"optional": {opts: objects(settings), files: []string{pod("a", ref("secret", "s", "k, optional: true"))}},
		"object in two files": {opts: objects(settings), files: []string{settings},
			want: "objects:1 warning same-name metadata.name\n"},
		"object with a problem": {opts: objects("kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndata: {'a b': c}\n"),
			want: "objects:4 error invalid data[a b]\n"},
		"problem of a whole file": {files: []string{"a: [", pod("a", "")}, want: "f0:1 error syntax \n"},
	} {
		t.Run(name, func(t *testing.T) {
			r, got := check(t, c.opts, c.files...)
			if got != c.want {
				t.Errorf("got\n%swant\n%s%+v", got, c.want, r.Findings)
			}
		})
	}
}

// objects are the options with one file of objects.
func objects(text string) Options {
	return Options{KnowsObjects: true, Objects: []File{{Path: "objects", Data: []byte(text)}}}
}

func TestResultNamesWhatIsAccepted(t *testing.T) {
	done := uint64(0)
	r, _ := check(t, Options{Progress: func(n, total uint64) { done = n*100 + total }}, pod("a", "")+"---\n"+pod("b", ""),
		"x", settings)
	if len(r.Accepted) != 2 || r.Accepted[1] != (Pod{"f0", 7, "default", "b"}) || r.Files != 3 || r.Objects != 1 ||
		r.Count(Error) != 1 || done != 303 {
		t.Errorf("%+v, progress %d", r, done)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := Check(ctx, []File{{Path: "a", Data: []byte("x")}}, Options{}); len(r.Findings) > 0 {
		t.Error("it does not end with its context")
	}
}

func TestDirectoryIsReadAsByTheAgent(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, errors.Join(os.WriteFile(filepath.Join(dir, "b.yaml"), []byte("b"), 0o600),
		os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o600), os.WriteFile(filepath.Join(dir, ".hidden"), nil, 0o600),
		os.Mkdir(filepath.Join(dir, "below"), 0o700), unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
		os.Symlink("nowhere", filepath.Join(dir, "dangling"))))
	files, err := Read(dir)
	must.OK(t, err)
	var got []string
	for _, f := range files {
		got = append(got, fmt.Sprintf("%s=%s %v", filepath.Base(f.Path), f.Data, f.Err))
	}
	want := "[a=a <nil> b.yaml=b <nil> dangling= no such file or directory]"
	if fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if _, err := Read(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if f := ReadFrom(strings.NewReader(strings.Repeat("x", int(manifest.DefaultMaxBytes)+9)), "stdin"); f.Err != nil ||
		int64(len(f.Data)) != manifest.DefaultMaxBytes+1 {
		t.Errorf("%d bytes, %v", len(f.Data), f.Err)
	}
}
