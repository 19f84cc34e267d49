package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// Who edits a file of objects leaves copies beside it, whose names may sort before the file's.
func TestFileOfAnObjectThatPodsHaveKeepsTheName(t *testing.T) {
	for kind, yaml := range map[journaletv1.ObjectKind]func(name, value string) string{
		configMap: configMapYAML, secret: secretYAML,
	} {
		r := newRig(t, nil)
		r.write("objects/b.yaml", yaml("a", "1"))
		r.start()
		r.Watch(key(kind, "a"))
		r.reads("a PRESENT 1")
		r.write("objects/a.yaml", yaml("a", "copy"))
		r.write("objects/b.yaml", yaml("a", "2"))
		r.reads("a PRESENT 2")
		r.logs(`"ignored in"=`+r.path("objects/a.yaml")+` "counts in"=`+r.path("objects/b.yaml"), 1)
		r.write("objects/b.yaml", "a: [\n")
		r.readsBegin("a UNREADABLE 2: " + r.path("objects/b.yaml"))
		must.OK(t, os.Remove(r.path("objects/b.yaml")))
		r.reads("a PRESENT copy")
		r.write("objects/0.yaml", yaml("a", "3"))
		r.write("objects/a.yaml", yaml("a", "4"))
		r.reads("a PRESENT 4")
	}
}

func TestFileOfAnObjectKeepsTheNameOverARestart(t *testing.T) {
	for name, test := range map[string]struct{ b, want string }{
		"as it was":   {configMapYAML("a", "1"), "a PRESENT 1"},
		"edited":      {configMapYAML("a", "2"), "a PRESENT 2"},
		"elsewhere":   {configMapYAML("other", "2"), "a PRESENT copy"},
		"a mistake":   {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: 5}\n", "a UNREADABLE: "},
		"not YAML":    {"a: [\n", "a UNREADABLE: "},
		"not a file":  {"", "a PRESENT copy"},
		"never there": {"-", "a PRESENT copy"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.write("objects/a.yaml", configMapYAML("a", "copy"))
			switch test.b {
			case "-":
			case "":
				must.OK(t, os.Mkdir(r.path("objects/b.yaml"), 0o700))
			default:
				r.write("objects/b.yaml", test.b)
			}
			r.Backing.Watch(key(configMap, "a"), r.path("objects/b.yaml"))
			r.start()
			r.readsBegin(test.want)
		})
	}
}

// The path that holds an object's file may be unreadable for a while; a copy elsewhere does not replace what pods have.
func TestObjectOfAPathThatCannotBeReadIsNotReplaced(t *testing.T) {
	r := newRig(t, func(r *rig, o *Options) { o.Objects = r.path("loop") })
	must.OK(t, os.Symlink("loop", r.path("loop")))
	r.write("pods/a.yaml", configMapYAML("a", "copy"))
	r.Backing.Watch(key(configMap, "a"), r.path("loop/a.yaml"))
	r.start()
	r.readsBegin("a UNREADABLE: stat ")
}

func TestTokenOfASecretIsFollowedInItsFile(t *testing.T) {
	yaml := func(value string) string {
		return "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\nmetadata:\n  name: t\n" +
			"  annotations: {kubernetes.io/service-account.name: robot}\nstringData: {token: " + value + "}\n"
	}
	r := newRig(t, nil)
	r.write("objects/b.yaml", yaml("one"))
	r.start()
	r.Watch(key(token, "robot"))
	r.reads("robot PRESENT one")
	r.write("objects/a.yaml", yaml("copy"))
	r.write("objects/b.yaml", yaml("two"))
	r.reads("robot PRESENT two")
}

func TestInspectNamesTheCopyOfAnObject(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.yaml"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(configMapYAML("a", name)), 0o600))
	}
	_, problems := Inspect(dir)
	want := filepath.Join(dir, "b.yaml") + ": ConfigMap default/a is in " + filepath.Join(dir, "a.yaml") + ", too"
	if len(problems) != 1 || !strings.HasPrefix(problems[0], want) {
		t.Errorf("%q, want %q", problems, want)
	}
}

// readsBegin wants the next batch to be one object whose text begins so.
func (r *rig) readsBegin(want string) {
	r.Helper()
	batch := <-r.batch
	for k, o := range batch {
		if text := show(k, o); !strings.HasPrefix(text, want) {
			r.Errorf("read %q, want %q…", text, want)
		}
	}
	if len(batch) != 1 {
		r.Errorf("read %v, want one object", batch)
	}
}
