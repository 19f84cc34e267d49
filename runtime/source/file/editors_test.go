package file

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// editor is what one program does to a directory when a person changes web.yaml with it.
type editor struct {
	name string
	// open leaves what lies there while the person edits; save writes the new content.
	open, save func(at func(name string) string, old, changed string)
}

func editors(t *testing.T) []editor {
	put := func(path, text string) { t.Helper(); must.OK(t, os.WriteFile(path, []byte(text), 0o600)) }
	move := func(from, to string) { t.Helper(); must.OK(t, os.Rename(from, to)) }
	nothing := func(func(string) string, string, string) {}
	return []editor{
		{"copy behind it by path", func(at func(string) string, old, _ string) { put(at("web.yaml.bak"), old) },
			func(at func(string) string, _, changed string) { put(at("web.yaml"), changed) }},
		{"copy before it by path", func(at func(string) string, old, _ string) { put(at("web.bak.yaml"), old) },
			func(at func(string) string, _, changed string) { write(t, at("web.yaml"), changed) }},
		{"sed -i", nothing, func(at func(string) string, _, changed string) {
			put(at("sedAb3xYz"), changed)
			move(at("sedAb3xYz"), at("web.yaml"))
		}},
		{"vim", func(at func(string) string, _, _ string) { put(at(".web.yaml.swp"), "b0VIM 9.1\x00\x01") },
			func(at func(string) string, _, changed string) {
				put(at("4913"), "")
				remove(t, at("4913"))
				move(at("web.yaml"), at("web.yaml~"))
				put(at("web.yaml"), changed)
				remove(t, at("web.yaml~"))
				remove(t, at(".web.yaml.swp"))
			}},
		{"vim that keeps a backup", nothing, func(at func(string) string, _, changed string) {
			move(at("web.yaml"), at("web.yaml~"))
			put(at("web.yaml"), changed)
		}},
		{"emacs", func(at func(string) string, _, changed string) {
			must.OK(t, os.Symlink("someone@host.1234:1", at(".#web.yaml")))
			put(at("#web.yaml#"), changed) // saves by itself while the person types
		}, func(at func(string) string, old, changed string) {
			put(at("web.yaml~"), old)
			put(at("web.yaml"), changed)
			remove(t, at(".#web.yaml"))
		}},
		{"nano with backups", func(at func(string) string, _, _ string) { put(at(".web.yaml.swp"), "nano") },
			func(at func(string) string, old, changed string) {
				put(at("web.yaml~"), old)
				put(at("web.yaml"), changed)
			}},
		{"kubectl cp and mv", func(at func(string) string, _, changed string) { put(at("new-web.yaml"), changed) },
			func(at func(string) string, _, _ string) { move(at("new-web.yaml"), at("web.yaml")) }},
	}
}

// A file beside others harms none: while a person edits, and afterwards, the pod is the one of web.yaml.
func TestPodFollowsItsManifestWhateverAnEditorLeaves(t *testing.T) {
	for _, e := range editors(t) {
		t.Run(e.name, func(t *testing.T) {
			dir := t.TempDir()
			at := func(name string) string { return filepath.Join(dir, name) }
			old, changed := pod("web", "x:1"), pod("web", "x:2")
			write(t, at("web.yaml"), old)
			w := newWorld(t, dir, nil).start()
			before := w.expect("web.yaml web-n1, complete").GetChanged()[0].GetPods()[0]

			e.open(at, old, changed)
			w.marker(at("zz-1.yaml"))
			if p := w.running(); p.GetPod().GetDigest() != before.GetDigest() || p.GetPod().GetUid() != before.GetUid() {
				t.Errorf("while the file is edited, the pod is of %s with digest %s", p.GetPath(), p.GetPod().GetDigest())
			}
			e.save(at, old, changed)
			w.marker(at("zz-2.yaml"))
			now := w.state().GetFiles()["web.yaml"].GetPods()
			if len(now) != 1 || now[0].GetDigest() == before.GetDigest() {
				t.Fatalf("web.yaml has %v", now)
			}
			if p := w.running(); p.GetPath() != "web.yaml" || p.GetPod().GetDigest() != now[0].GetDigest() {
				t.Errorf("after the file was saved, the pod is of %s with digest %s", p.GetPath(), p.GetPod().GetDigest())
			}
		})
	}
}

// An editor that keeps a backup may take any time between its two steps.
func TestBackupDoesNotReplaceAFileThatComesBack(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("web.yaml"), pod("web", "x:1"))
	w := newWorld(t, dir, nil)
	w.moves.settle = time.Hour
	w.start()
	before := w.expect("web.yaml web-n1, complete").GetChanged()[0].GetPods()[0]
	must.OK(t, os.Rename(at("web.yaml"), at("web.yaml~")))
	w.marker(at("zz-1.yaml"))
	if p := w.running(); p.GetPath() != "web.yaml" || p.GetPod().GetDigest() != before.GetDigest() {
		t.Errorf("in the middle of the move, the pod is of %s", p.GetPath())
	}
	write(t, at("web.yaml"), pod("web", "x:2"))
	w.marker(at("zz-2.yaml"))
	if p := w.running(); p.GetPath() != "web.yaml" || p.GetPod().GetDigest() == before.GetDigest() {
		t.Errorf("after the move, the pod is of %s", p.GetPath())
	}
}

func TestFileWithANewNameCountsWhenItStays(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "web.yaml"), pod("web", "x:1"))
	w := newWorld(t, dir, nil)
	w.moves.settle = 50 * time.Millisecond
	w.start()
	w.expect("web.yaml web-n1, complete")
	must.OK(t, os.Rename(filepath.Join(dir, "web.yaml"), filepath.Join(dir, "other.yaml")))
	w.until("the pod of the new name", func(s *journaletv1.SourceState) bool {
		return s.GetFiles()["web.yaml"] == nil && s.GetFiles()["other.yaml"] != nil
	})
}

// running returns the pod web of the source.
func (w *world) running() *journaletv1.SourcePod {
	w.t.Helper()
	var found []*journaletv1.SourcePod
	for _, p := range w.state().GetPods() {
		if p.GetDesired() && p.GetPod().GetName() == "web-n1" {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		w.t.Fatalf("%d pods of this name: %v", len(found), found)
	}
	return found[0]
}

// marker returns when what was written before it is read.
func (w *world) marker(path string) {
	w.t.Helper()
	write(w.t, path, pod(filepath.Base(path[:len(path)-len(".yaml")]), "x:1"))
	w.until("the marker", func(s *journaletv1.SourceState) bool { return s.GetFiles()[filepath.Base(path)] != nil })
}
