package file

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/source"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/runtime/watch"
	"github.com/journalet/journalet/test/must"
)

const patience = time.Minute

func pod(name, image string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n"+
		"spec:\n  containers:\n  - name: c\n    image: %s\n", name, image)
}

// world is a driver on a real directory, and the source's actor that folds its facts.
type world struct {
	t    *testing.T
	path string
	*Driver
	facts chan *journaletv1.ManifestsRead

	mu        sync.Mutex
	actor     *source.Actor
	stored    map[string]bool
	primed    map[string]bool
	failStore func(canonical string) error
	failSink  func() error
	stop      context.CancelFunc
}

func newWorld(t *testing.T, path string, state *journaletv1.SourceState) *world {
	t.Helper()
	w := &world{t: t, path: path, facts: make(chan *journaletv1.ManifestsRead, 1000),
		actor:  source.New(messages.FileSource),
		stored: map[string]bool{}, primed: map[string]bool{}}
	if state != nil {
		b, err := proto.Marshal(state)
		must.OK(t, err)
		must.OK(t, w.actor.Restore(b))
	}
	w.Driver = New(Options{Path: path, Node: "n1", Reread: time.Hour, Store: w.store, Prime: w.prime, Sink: w.sink})
	if state != nil {
		w.Seed(proto.CloneOf(state))
	}
	return w
}

func (w *world) store(_ context.Context, manifests iter.Seq2[string, []byte]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for digest, canonical := range manifests {
		if w.failStore != nil {
			if err := w.failStore(string(canonical)); err != nil {
				return err
			}
		}
		w.stored[digest] = true
	}
	return nil
}

func (w *world) prime(digest string, _ *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.primed[digest] = true
}

func (w *world) sink(_ context.Context, fact *journaletv1.ManifestsRead) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failSink != nil {
		if err := w.failSink(); err != nil {
			return err
		}
	}
	for _, f := range fact.GetChanged() {
		for _, p := range f.GetPods() {
			if old := w.actor.Source().GetFiles()[f.GetPath()]; !w.stored[p.GetDigest()] && !holds(old, p.GetDigest()) {
				w.t.Errorf("%s names %s before it was stored", f.GetPath(), p.GetDigest())
			}
		}
	}
	body := &journaletv1.Event{Kind: &journaletv1.Event_ManifestsRead{ManifestsRead: proto.CloneOf(fact)}}
	if err := w.actor.Evolve(actors.Event{Body: body}); err != nil {
		w.t.Errorf("the source's actor failed on the fact: %v", err)
	}
	w.facts <- proto.CloneOf(fact)
	return nil
}

func holds(f *journaletv1.ManifestFile, digest string) bool {
	for _, p := range f.GetPods() {
		if p.GetDigest() == digest {
			return true
		}
	}
	return false
}

func (w *world) start() *world {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	var once sync.Once
	w.stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if !errors.Is(err, context.Canceled) {
					w.t.Errorf("Run returned %v", err)
				}
			case <-time.After(patience):
				w.t.Error("Run does not end")
				return
			}
			w.agrees()
		})
	}
	w.t.Cleanup(w.stop)
	return w
}

// agrees checks that the driver's recorded state equals the state of the source's actor.
func (w *world) agrees() {
	held := w.actor.Source().GetFiles()
	if len(held) != len(w.sender.Files) {
		w.t.Errorf("the actor has %d files, the driver recorded %d", len(held), len(w.sender.Files))
	}
	for name, f := range held {
		if !proto.Equal(f, w.sender.Files[name]) {
			w.t.Errorf("the actor has %v, the driver recorded %v", f, w.sender.Files[name])
		}
	}
}

func (w *world) next() *journaletv1.ManifestsRead {
	w.t.Helper()
	select {
	case f := <-w.facts:
		return f
	case <-time.After(patience):
		w.t.Fatalf("no fact; health: %v", w.Healthy())
		return nil
	}
}

// until waits for the facts after which the source's state is ok, and fails if it never is.
func (w *world) until(what string, ok func(*journaletv1.SourceState) bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		w.mu.Lock()
		state := proto.CloneOf(w.actor.Source())
		w.mu.Unlock()
		if ok(state) {
			return
		}
		select {
		case <-w.facts:
		case <-time.After(time.Until(deadline)):
		}
	}
	w.t.Fatalf("%s: not reached; files: %v", what, w.state().GetFiles())
}

func (w *world) state() *journaletv1.SourceState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return proto.CloneOf(w.actor.Source())
}

// quiet fails if a file other than a new marker was emitted.
func (w *world) quiet(dir string) {
	w.t.Helper()
	write(w.t, filepath.Join(dir, "zz-marker.yaml"), pod("marker", time.Now().Format("x:150405.000000000")))
	f := w.next()
	if len(f.GetChanged()) != 1 || f.GetChanged()[0].GetPath() != "zz-marker.yaml" {
		w.t.Fatalf("not only the marker was emitted: %v", f)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	// By rename, so that no incomplete file is read.
	tmp := filepath.Join(filepath.Dir(path), ".tmp-"+filepath.Base(path))
	must.OK(t, os.WriteFile(tmp, []byte(text), 0o600))
	must.OK(t, os.Rename(tmp, path))
}

func remove(t *testing.T, path string) {
	t.Helper()
	must.OK(t, os.RemoveAll(path))
}

func names(f *journaletv1.ManifestsRead) string {
	var out []string
	for _, c := range f.GetChanged() {
		s := c.GetPath()
		for _, p := range c.GetPods() {
			s += " " + p.GetName()
		}
		if len(c.GetProblems()) > 0 {
			s += " !" + c.GetProblems()[0].GetCode()
		}
		if c.GetUnreadable() {
			s += " ?"
		}
		out = append(out, s)
	}
	if f.GetSynced() {
		out = append(out, "complete")
	}
	return strings.Join(out, ", ")
}

func (w *world) expect(want string) *journaletv1.ManifestsRead {
	w.t.Helper()
	f := w.next()
	if got := names(f); got != want {
		w.t.Fatalf("fact: got %q, want %q\n%v", got, want, f)
	}
	return f
}

func TestFirstReadIsOneSyncedFactAndChangesFollow(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "x:1"))
	write(t, filepath.Join(dir, "a.json"), `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},`+
		`"spec":{"containers":[{"name":"c","image":"x"}]}}`)
	write(t, filepath.Join(dir, ".hidden.yaml"), pod("hidden", "x:1"))
	must.OK(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	w := newWorld(t, dir, nil).start()
	first := w.expect("a.json a-n1, b.yaml b-n1, complete")
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "x:2"))
	second := w.expect("b.yaml b-n1")
	if first.Changed[1].Pods[0].Digest == second.Changed[0].Pods[0].Digest {
		t.Fatal("another image, the same digest")
	}
	w.mu.Lock()
	primed := w.primed[second.Changed[0].Pods[0].Digest]
	w.mu.Unlock()
	if !primed {
		t.Fatal("the pod was not primed")
	}
	remove(t, filepath.Join(dir, "a.json"))
	gone := w.expect("a.json")
	if len(gone.Changed[0].Pods)+len(gone.Changed[0].Problems) != 0 {
		t.Fatalf("a removed file has content: %v", gone)
	}
	must.OK(t, os.Rename(filepath.Join(dir, "b.yaml"), filepath.Join(dir, "c.yaml")))
	w.expect("b.yaml, c.yaml b-n1")
	must.OK(t, w.Healthy())
}

// A removal counts, however soon the file is there again: its pod ends and starts again, as with the kubelet.
func TestFileThatIsRemovedAndWrittenAgainIsGoneBetween(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "web.yaml")
	write(t, at, pod("web", "x:1"))
	w := newWorld(t, dir, nil).start()
	first := w.expect("web.yaml web-n1, complete")
	remove(t, at)
	write(t, at, pod("web", "x:1"))
	w.expect("web.yaml")
	again := w.expect("web.yaml web-n1")
	if was, is := first.GetChanged()[0].GetPods()[0], again.GetChanged()[0].GetPods()[0]; !proto.Equal(was, is) {
		t.Errorf("the pod is %v, and was %v", is, was)
	}
	w.quiet(dir)
}

func TestSeededContentIsNotEmittedAgain(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "x:1"))
	write(t, filepath.Join(dir, "broken.yaml"), pod("keeps", "x:1"))
	w := newWorld(t, dir, nil).start()
	w.expect("a.yaml a-n1, broken.yaml keeps-n1, complete")
	write(t, filepath.Join(dir, "broken.yaml"), "kind: [")
	w.expect("broken.yaml !syntax ?")
	w.stop()

	again := newWorld(t, dir, w.state()).start()
	again.quiet(dir)
	again.stop()

	remove(t, filepath.Join(dir, "a.yaml"))
	third := newWorld(t, dir, again.state()).start()
	third.expect("a.yaml, complete")
	if n := len(third.state().GetPods()); n != 2 {
		t.Fatalf("%d pods, want the kept and the marker: %v", n, third.state())
	}
}

func TestUnsyncedSeedIsSyncedOnce(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, dir, &journaletv1.SourceState{Name: messages.FileSource}).start()
	w.expect("complete")
	w.quiet(dir)
}

func TestPendingFactCounts(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	write(t, path, pod("a", "x:1"))
	first := newWorld(t, dir, nil).start()
	first.expect("a.yaml a-n1, complete")
	// The removal was recorded, the agent was killed before the source handled it, and the file is back.
	second := newWorld(t, dir, first.state())
	second.SeedPending(&journaletv1.ManifestsRead{Source: messages.FileSource,
		Changed: []*journaletv1.ManifestFile{{Path: "a.yaml"}}})
	second.start().expect("a.yaml a-n1, complete")
}

func TestTouchAndRewriteOfSameContentEmitNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	write(t, path, pod("a", "x:1"))
	w := newWorld(t, dir, nil).start()
	w.expect("a.yaml a-n1, complete")
	now := time.Now().Add(time.Hour)
	must.OK(t, os.Chtimes(path, now, now))
	write(t, path, pod("a", "x:1"))
	write(t, path, "# only a comment is new\n"+pod("a", "x:1"))
	write(t, filepath.Join(dir, ".a.yaml.swp"), "vim")
	w.quiet(dir)
}

func TestBadFileAffectsNoOther(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), "a: [")
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "x:1"))
	write(t, filepath.Join(dir, "c.yaml"), "")
	write(t, filepath.Join(dir, "d.yaml"), strings.Repeat("# 16 characters\n", 10<<20/16)+"#")
	must.OK(t, syscall.Mkfifo(filepath.Join(dir, "e.yaml"), 0o600))
	must.OK(t, os.Symlink("nowhere", filepath.Join(dir, "f.yaml")))
	write(t, filepath.Join(dir, "g\xff.yaml"), pod("g", "x:1"))
	w := newWorld(t, dir, nil).start()
	w.expect("a.yaml !syntax ?, b.yaml b-n1, c.yaml !empty ?, d.yaml !too-large ?, complete")
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "x:1"))
	w.expect("a.yaml a-n1")
}

func TestMissingDirectoryIsEmptyUntilCreated(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pods")
	w := newWorld(t, dir, nil).start()
	w.expect("complete")
	for range 3 {
		must.OK(t, os.Mkdir(dir, 0o700))
		write(t, filepath.Join(dir, "a.yaml"), pod("a", "x:1"))
		w.until("the pod comes", func(s *journaletv1.SourceState) bool { return s.Files["a.yaml"] != nil })
		write(t, filepath.Join(dir, "b.yaml"), pod("b", "x:1"))
		w.until("another comes", func(s *journaletv1.SourceState) bool { return s.Files["b.yaml"] != nil })
		remove(t, dir)
		w.until("both go", func(s *journaletv1.SourceState) bool { return len(s.Files) == 0 })
	}
	must.OK(t, w.Healthy())
}

func TestDirectoryIsReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pods")
	other := dir + "-new"
	for _, d := range []string{dir, other} {
		must.OK(t, os.Mkdir(d, 0o700))
	}
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "x:1"))
	write(t, filepath.Join(other, "b.yaml"), pod("b", "x:1"))
	w := newWorld(t, dir, nil).start()
	w.expect("a.yaml a-n1, complete")
	must.OK(t, os.Rename(dir, dir+"-old"))
	must.OK(t, os.Rename(other, dir))
	w.until("the new directory",
		func(s *journaletv1.SourceState) bool { return s.Files["b.yaml"] != nil && s.Files["a.yaml"] == nil })
	write(t, filepath.Join(dir, "c.yaml"), pod("c", "x:1"))
	w.until("the new directory is watched", func(s *journaletv1.SourceState) bool { return s.Files["c.yaml"] != nil })
}

func TestOneFileAsPath(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "only.yaml")
	write(t, filepath.Join(dir, "beside.yaml"), pod("beside", "x:1"))
	w := newWorld(t, path, nil).start()
	w.expect("complete")
	write(t, path, pod("a", "x:1"))
	w.expect("only.yaml a-n1")
	write(t, path, pod("a", "x:2"))
	w.expect("only.yaml a-n1")
	remove(t, path)
	w.expect("only.yaml")
	must.OK(t, os.Mkdir(path, 0o700))
	write(t, filepath.Join(path, "in.yaml"), pod("in", "x:1"))
	w.expect("in.yaml in-n1")
}

func TestMountedConfigMapChangesByDataLink(t *testing.T) {
	dir := t.TempDir()
	version := func(n int) {
		t.Helper()
		data := filepath.Join(dir, fmt.Sprintf("..v%d", n))
		must.OK(t, os.Mkdir(data, 0o700))
		write(t, filepath.Join(data, "a.yaml"), pod("a", fmt.Sprintf("x:%d", n)))
		must.OK(t, os.Symlink(filepath.Base(data), filepath.Join(dir, "..data_tmp")))
		must.OK(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	version(1)
	must.OK(t, os.Symlink("..data/a.yaml", filepath.Join(dir, "a.yaml")))
	w := newWorld(t, dir, nil).start()
	first := w.expect("a.yaml a-n1, complete")
	version(2)
	second := w.expect("a.yaml a-n1")
	if first.Changed[0].Pods[0].Digest == second.Changed[0].Pods[0].Digest {
		t.Fatal("the new data was not read")
	}
}

func TestRereadFindsChangesWithoutNotification(t *testing.T) {
	elsewhere, dir := t.TempDir(), t.TempDir()
	target := filepath.Join(elsewhere, "a.yaml")
	for _, link := range []string{"a.yaml", "dangling.yaml"} {
		must.OK(t, os.Symlink(filepath.Join(elsewhere, link), filepath.Join(dir, link)))
	}
	write(t, target, pod("a", "x:1"))
	w := newWorld(t, dir, nil)
	w.opts.Reread = 10 * time.Millisecond
	w.start()
	w.expect("a.yaml a-n1, complete")
	// In place with the same size: only the time stamps differ, and within one tick not even these.
	must.OK(t, os.WriteFile(target, []byte(pod("a", "x:2")), 0o600))
	w.until("the image changes", func(s *journaletv1.SourceState) bool {
		f := s.Files["a.yaml"]
		return !f.GetUnreadable() && len(w.storedDigests()) == 2
	})
	write(t, filepath.Join(elsewhere, "dangling.yaml"), pod("d", "x:1"))
	w.until("the link leads somewhere", func(s *journaletv1.SourceState) bool { return s.Files["dangling.yaml"] != nil })
}

func TestChangedRuntimeClassDecodesFilesAgain(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), strings.Replace(pod("a", "x:1"), "spec:", "spec:\n  runtimeClassName: kata", 1))
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "x:1"))
	var known atomic.Pointer[manifest.Classes]
	w := newWorld(t, dir, nil)
	w.opts.Reread, w.opts.Classes = 10*time.Millisecond, known.Load
	w.start()
	w.until("the class is missed", func(s *journaletv1.SourceState) bool {
		p := s.Files["a.yaml"].GetProblems()
		return len(p) == 1 && p[0].GetCode() == string(manifest.CodeNotFound) && len(s.Files["b.yaml"].GetPods()) == 1
	})
	digests := map[string]string{}
	for _, handler := range []string{"one", "two"} {
		all, _ := manifest.DecodeRuntimeClasses("c", []byte(
			"apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: kata}\nhandler: "+handler))
		set, _ := manifest.NewClasses(all)
		known.Store(set)
		w.until("the class "+handler+" is taken", func(s *journaletv1.SourceState) bool {
			for _, p := range s.Files["a.yaml"].GetPods() {
				if digests[p.GetDigest()] == "" {
					digests[p.GetDigest()] = p.GetUid()
					return true
				}
			}
			return false
		})
	}
	uids := slices.Sorted(maps.Values(digests))
	if len(uids) != 2 || uids[0] != uids[1] {
		t.Errorf("another class must give another pod: %v", digests)
	}
}

func TestDanglingLinkIsCheckedAgain(t *testing.T) {
	elsewhere, dir := t.TempDir(), t.TempDir()
	must.OK(t, os.Symlink(filepath.Join(elsewhere, "a.yaml"), filepath.Join(dir, "a.yaml")))
	w := newWorld(t, dir, nil)
	w.opts.Reread = 10 * time.Millisecond
	// A clock ahead of the directory's stamp, so that the stamp is not racy.
	w.clock = later{w.clock}
	w.start()
	w.expect("complete")
	write(t, filepath.Join(elsewhere, "a.yaml"), pod("a", "x:1"))
	w.expect("a.yaml a-n1")
}

func (w *world) storedDigests() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]bool{}
	for d := range w.stored {
		out[d] = true
	}
	return out
}

func TestFailingStoreDelaysOnlyItsFile(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "bad:1"))
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "x:1"))
	w := newWorld(t, dir, nil)
	w.failStore = func(canonical string) error {
		if strings.Contains(canonical, "bad:1") {
			return errors.New("disk full")
		}
		return nil
	}
	w.start()
	w.expect("b.yaml b-n1") // not synced: a.yaml is missing
	write(t, filepath.Join(dir, "c.yaml"), pod("c", "x:1"))
	w.expect("c.yaml c-n1")
	if err := w.Healthy(); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Fatalf("health: %v", err)
	}
	w.mu.Lock()
	w.failStore = nil
	w.mu.Unlock()
	w.expect("a.yaml a-n1, complete")
}

func TestFailingSinkGetsNewestContentLater(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "x:1"))
	w := newWorld(t, dir, nil)
	refused := make(chan struct{}, 100)
	w.failSink = func() error { refused <- struct{}{}; return errors.New("full") }
	w.start()
	<-refused
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "x:1"))
	<-refused
	w.mu.Lock()
	w.failSink = nil
	w.mu.Unlock()
	w.until("all of it", func(s *journaletv1.SourceState) bool { return s.Synced && len(s.Files) == 2 })
}

func TestUnreadableDirectoryRemovesNoPod(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pods")
	must.OK(t, os.Mkdir(dir, 0o700))
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "x:1"))
	w := newWorld(t, dir, nil)
	w.opts.Reread = 10 * time.Millisecond
	w.start()
	w.expect("a.yaml a-n1, complete")
	// Root can read everything, so a loop of links is the unreadable path. It replaces the directory atomically, because a
	// missing path would have no pods.
	loop := dir + "-loop"
	must.OK(t, os.Symlink(dir, loop))
	must.OK(t, unix.Renameat2(unix.AT_FDCWD, loop, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE))
	must.Until(t, patience, "unhealthy", func() bool { return w.Healthy() != nil })
	if err := w.Healthy(); !errors.Is(err, syscall.ELOOP) || len(w.state().GetFiles()) != 1 {
		t.Fatalf("health: %v; files: %v", err, w.state().GetFiles())
	}
	must.OK(t, unix.Renameat2(unix.AT_FDCWD, loop, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE))
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "x:1"))
	w.expect("b.yaml b-n1")
	must.OK(t, w.Healthy())
}

func TestTooManyFilesKeepKnownOnes(t *testing.T) {
	dir := t.TempDir()
	var log strings.Builder
	d := New(Options{Path: dir, Node: "n1", Log: slog.New(slog.NewTextHandler(&log, nil)),
		Sink:  func(context.Context, *journaletv1.ManifestsRead) error { return nil },
		Store: func(context.Context, iter.Seq2[string, []byte]) error { return nil }})
	d.open(watch.New(dir, d.log))
	defer d.files.Close()
	write(t, filepath.Join(dir, "zzz.yaml"), pod("known", "x:1"))
	d.scan()
	for i := range watch.MaxNames + 10 {
		must.OK(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d", i)), nil, 0o600))
	}
	d.scan()
	if said := log.String(); d.files.Len() != watch.MaxNames || !d.files.Has("zzz.yaml") ||
		strings.Count(said, "too many files") != 1 {
		t.Fatalf("%d files, the known one is there: %t, logged: %s", d.files.Len(), d.files.Has("zzz.yaml"), said)
	}
}

func TestManyFilesAreSplitIntoFacts(t *testing.T) {
	dir := t.TempDir()
	for i := range 6 {
		var b strings.Builder
		for j := range 500 {
			fmt.Fprintf(&b, "---\n%s", pod(fmt.Sprintf("p-%d-%d-%s", i, j, strings.Repeat("x", 150)), "x:1"))
		}
		write(t, filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), b.String())
	}
	w := newWorld(t, dir, nil).start()
	seen, facts := 0, 0
	for {
		f := w.next()
		if n := proto.Size(f); n > messages.MaxRecordBytes*3/4 {
			t.Fatalf("a fact of %d bytes", n)
		}
		facts++
		if seen += len(f.GetChanged()); f.GetSynced() {
			break
		}
	}
	if seen != 6 || facts < 2 {
		t.Fatalf("%d files in %d facts", seen, facts)
	}
}

func TestIdleRereadReadsNothing(t *testing.T) {
	dir := t.TempDir()
	for i := range 50 {
		write(t, filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), pod(fmt.Sprintf("p%d", i), "x:1"))
	}
	d := New(Options{Path: dir, Node: "n1", Sink: func(context.Context, *journaletv1.ManifestsRead) error { return nil },
		Store: func(context.Context, iter.Seq2[string, []byte]) error { return nil }})
	// A clock ahead of the files, so that their stamps are not racy.
	d.clock = later{d.clock}
	d.open(watch.New(dir, d.log))
	defer d.files.Close()
	for range 2 {
		d.scan()
		must.OK(t, d.handOver(context.Background()))
	}
	bytes := testing.AllocsPerRun(10, func() {
		d.scan()
		must.OK(t, d.handOver(context.Background()))
	})
	if bytes > 5*50 {
		t.Fatalf("%v allocations for 50 files that did not change", bytes)
	}
}

func TestRereadWorksWithoutNotifications(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pods")
	d := New(Options{Path: dir, Node: "n1", Sink: func(context.Context, *journaletv1.ManifestsRead) error { return nil },
		Store: func(context.Context, iter.Seq2[string, []byte]) error { return nil }})
	d.open(watch.Deaf(dir, d.log))
	defer d.files.Close()
	d.scan()
	must.OK(t, os.Mkdir(dir, 0o700))
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "x:1"))
	d.scan()
	if f := d.contentOf("a.yaml"); len(f.GetPods()) != 1 || d.files.Events() != nil || d.files.Errors() != nil {
		t.Fatalf("%v", f)
	}
}
