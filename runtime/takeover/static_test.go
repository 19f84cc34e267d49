package takeover

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/test/must"
)

var (
	kubelets = strings.Repeat("a", 32)
	mine     = strings.Repeat("b", 32)
	other    = strings.Repeat("c", 32)
	started  = time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
)

// node is a node that a kubelet had.
type node struct {
	t          *testing.T
	root, logs string
}

func newNode(t *testing.T) *node {
	dir := t.TempDir()
	n := &node{t: t, root: filepath.Join(dir, "root"), logs: filepath.Join(dir, "logs")}
	must.OK(t, os.MkdirAll(filepath.Join(n.root, own.Pods), 0o700))
	return n
}

// ran creates what a kubelet has created for a pod.
func (n *node) ran(name, uid string, at time.Time) {
	n.t.Helper()
	dir := filepath.Join(n.root, own.Pods, uid)
	must.OK(n.t, os.MkdirAll(filepath.Join(n.logs, "default_"+name+"_"+uid), 0o700))
	must.OK(n.t, os.MkdirAll(filepath.Join(dir, "etc-hosts"), 0o700))
	must.OK(n.t, os.Chtimes(dir, at, at))
}

func (n *node) read() *Static {
	n.t.Helper()
	s, err := Read(n.root, n.logs, slog.New(slog.DiscardHandler))
	must.OK(n.t, err)
	return s
}

func none(string) bool { return false }

func TestStaticPodOfAKubeletKeepsItsUID(t *testing.T) {
	n := newNode(t)
	n.ran("etcd-n1", kubelets, started)
	before := started.Add(-time.Minute)
	for range 2 {
		if got := n.read().UID("default", "etcd-n1", mine, before, none); got != kubelets {
			t.Fatalf("got %s, want the kubelet's", got)
		}
	}
	s := n.read()
	must.OK(t, os.Chtimes(filepath.Join(n.root, own.Pods, kubelets), started.Add(time.Hour), started.Add(time.Hour)))
	if got := s.UID("default", "etcd-n1", other, started.Add(time.Minute), none); got != other {
		t.Errorf("a manifest that changed afterwards: got %s, want a UID of its own", got)
	}
	if got := s.UID("default", "etcd-n1", mine, started.Add(time.Minute), none); got != kubelets {
		t.Errorf("a file that was touched afterwards: got %s, want the kubelet's", got)
	}
}

func TestGivenUIDsAreThoseThatAKubeletWouldNotGive(t *testing.T) {
	n := newNode(t)
	n.ran("etcd-n1", kubelets, started)
	s := n.read()
	s.UID("default", "etcd-n1", mine, started.Add(-time.Minute), none)
	s.UID("default", "other-n1", other, time.Time{}, none)
	if s.Given(mine) || s.Given(kubelets) || !s.Given(other) {
		t.Errorf("given: %v, %v, %v", s.Given(mine), s.Given(kubelets), s.Given(other))
	}
	s.UID("default", "etcd-n1", strings.Repeat("d", 32), started.Add(time.Hour), none)
	if !s.Given(strings.Repeat("d", 32)) {
		t.Error("a manifest that changed has the agent's UID")
	}
}

func TestPreviewNotesNothing(t *testing.T) {
	n := newNode(t)
	n.ran("etcd-n1", kubelets, started)
	if got := n.read().Unnoted().UID("default", "etcd-n1", mine, started.Add(-time.Minute), none); got != kubelets {
		t.Errorf("got %s, want the kubelet's", got)
	}
	if _, err := os.Lstat(filepath.Join(n.root, own.StaticPods)); !os.IsNotExist(err) {
		t.Errorf("a file is left: %v", err)
	}
}

func TestStaticPodThatIsNoKubeletsHasItsOwnUID(t *testing.T) {
	before, after := started.Add(-time.Minute), started.Add(time.Minute)
	for name, test := range map[string]struct {
		name    string
		changed time.Time
		added   string
		prepare func(*testing.T, *node)
	}{
		"another name":                         {name: "web-n1", changed: before},
		"written after the pod was started":    {name: "etcd-n1", changed: after},
		"added by the agent":                   {name: "etcd-n1", changed: before, added: kubelets},
		"another pod in its place, added":      {name: "etcd-n1", changed: before, added: mine},
		"its directory has gone":               {name: "etcd-n1", changed: before, prepare: removeDir},
		"its directory is a link":              {name: "etcd-n1", changed: before, prepare: linkDir},
		"its logs have gone":                   {name: "etcd-n1", changed: before, prepare: removeLogs},
		"a pod of the API server has its name": {name: "api-n1", changed: before},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.ran("etcd-n1", kubelets, started)
			n.ran("api-n1", "0f9a1c9e-30e5-4b8e-a1a5-3c6e9f1d2b7a", started)
			if test.prepare != nil {
				test.prepare(t, n)
			}
			added := func(uid string) bool { return uid == test.added }
			if got := n.read().UID("default", test.name, mine, test.changed, added); got != mine {
				t.Errorf("got %s, want its own", got)
			}
			if _, err := os.Lstat(filepath.Join(n.root, own.StaticPods)); !os.IsNotExist(err) {
				t.Errorf("a file is left: %v", err)
			}
		})
	}
}

func removeDir(t *testing.T, n *node) {
	must.OK(t, os.RemoveAll(filepath.Join(n.root, own.Pods, kubelets)))
}

func linkDir(t *testing.T, n *node) {
	dir := filepath.Join(n.root, own.Pods, kubelets)
	must.OK(t, os.Rename(dir, filepath.Join(n.root, "elsewhere")))
	must.OK(t, os.Symlink("../elsewhere", dir))
}

func removeLogs(t *testing.T, n *node) { must.OK(t, os.RemoveAll(n.logs)) }

func TestOfSeveralPodsWithOneNameTheYoungestIsTakenOver(t *testing.T) {
	n := newNode(t)
	n.ran("etcd-n1", kubelets, started)
	n.ran("etcd-n1", other, started.Add(-time.Hour))
	if got := n.read().UID("default", "etcd-n1", mine, started.Add(-2*time.Hour), none); got != kubelets {
		t.Errorf("got %s", got)
	}
}

func TestPodThatWasTakenOverAndHasGoneIsForgotten(t *testing.T) {
	n := newNode(t)
	n.ran("etcd-n1", kubelets, started)
	n.read().UID("default", "etcd-n1", mine, time.Time{}, none)
	removeDir(t, n)
	if got := n.read().UID("default", "etcd-n1", mine, time.Time{}, none); got != mine {
		t.Errorf("got %s, want its own", got)
	}
}

func TestDamagedFileOfPodsThatWereTakenOverCountsAsNone(t *testing.T) {
	for name, content := range map[string]string{
		"no JSON": "{", "another type": `["a"]`, "too large": `{"` + strings.Repeat("x", maxFileBytes) + `":"a"}`,
		"a UID that is a path": `{"` + mine + `":"../../etc"}`, "a UID of another form": `{"` + mine + `":"x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			must.OK(t, os.WriteFile(filepath.Join(n.root, own.StaticPods), []byte(content), fs.FileMode(0o600)))
			must.OK(t, os.Mkdir(filepath.Join(n.root, own.Pods, "x"), 0o700))
			if got := n.read().UID("default", "etcd-n1", mine, time.Time{}, none); got != mine {
				t.Errorf("got %s, want its own", got)
			}
		})
	}
}
