//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// tooLarge is more than the 10 MiB that a manifest may have.
const tooLarge = 11 << 20

func TestBadManifestIsReportedWithItsLineAndChangesNoOtherPod(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("good", idle))
	a.pod("good", "ready", ready)
	before := a.fingerprint()
	const head = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\nspec:\n"
	for _, bad := range []struct {
		name, text           string
		line                 uint32
		field, code, message string
	}{
		{"syntax", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: [x\n", 0, "", "syntax", ""},
		{"kind", "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: x\n", 2, "kind", "", "Deployment"},
		{"badname", head + "  containers:\n  - name: UPPER\n    image: x\n", 7, "spec.containers[0].name", "", ""},
		{"unknown", head + "  containers:\n  - name: a\n    image: x\n    comand: [sh]\n", 9,
			"spec.containers[0].comand", "unknown-field", "no such field"},
		{"notyet", head + "  volumes: [{name: v, fc: {lun: 0}}]\n  containers:\n  - name: b\n    image: x\n", 6,
			"spec.volumes[0].fc", "not-yet", "not supported"},
		{"large", "apiVersion: v1\nkind: Pod\n# " + strings.Repeat("x", tooLarge) + "\n", 0, "", "too-large", ""},
		{"empty", "", 0, "", "empty", ""},
		{"binary", "\x00\xff\x7fELF", 0, "", "syntax", ""},
	} {
		after := a.journal.last()
		file := bad.name + ".yaml"
		a.Put(file, bad.text)
		read := a.journal.wait(t, after, settle, "the problems of "+file, func(f messages.Flat) bool {
			return f.Event == "manifests_read" && strings.Contains(string(f.Data), `"path":"`+file+`"`)
		})
		var found []*journaletv1.ManifestProblem
		for _, changed := range event(t, read).GetManifestsRead().GetChanged() {
			found = append(found, changed.GetProblems()...)
		}
		fits := false
		for _, p := range found {
			fits = fits || (bad.line == 0 || p.GetLine() == bad.line) && (bad.field == "" || p.GetField() == bad.field) &&
				(bad.code == "" || p.GetCode() == bad.code) && strings.Contains(p.GetMessage(), bad.message) &&
				p.GetMessage() != ""
		}
		if !fits {
			t.Errorf("%s: want line %d, field %q, code %q, message with %q; have %v",
				file, bad.line, bad.field, bad.code, bad.message, found)
		}
		a.Process.Expect(t, "file="+file)
		a.Remove(file)
	}
	a.put(newPod("another", idle))
	a.pods("the good pod and another", allReady(2))
	a.Remove("another.yaml")
	a.journal.wait(t, 0, settle, "the other's end", named("pod_forgotten"))
	a.unchanged(before, "bad manifests")
}

func TestBrokenEditOfAManifestKeepsItsPodRunning(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("good", idle))
	a.pod("good", "ready", ready)
	before := a.fingerprint()
	after := a.journal.last()
	a.Put("good.yaml", "kind: [")
	a.journal.wait(t, after, settle, "the broken file", named("manifests_read", "unreadable"))
	a.Stop()
	a.start()
	a.put(newPod("good", idle))
	a.journal.wait(t, after, settle, "the fixed file", func(f messages.Flat) bool {
		return f.Event == "manifests_read" && !strings.Contains(string(f.Data), "unreadable")
	})
	a.pod("good", "ready", ready)
	a.unchanged(before, "a broken edit")
}

func TestFirstPathWinsOfTwoFilesWithOnePodName(t *testing.T) {
	t.Parallel()
	a := started(t, map[string]string{
		"a.yaml": manifest(newPod("twin", "echo of a; "+idle)), "b.yaml": manifest(newPod("twin", "echo of b; "+idle)),
	})
	f := a.journal.wait(t, 0, settle, "the second file being ignored", named("manifest_ignored", `"b.yaml"`))
	e := event(t, f).GetManifestIgnored()
	if e.GetReason() != "DuplicateName" || !strings.Contains(e.GetMessage(), "a.yaml") {
		t.Errorf("it is reported as %v", e)
	}
	p := a.pod("twin", "ready", ready)
	a.logged(p, "main", "of a")
	a.wantSandboxes(1)
	// Without the first file, the second one's pod runs.
	a.Remove("a.yaml")
	next := a.pod("twin", "of the other file", func(q *corev1.Pod) bool { return ready(q) && q.UID != p.UID })
	a.logged(next, "main", "of b")
}

// writing is how long the test rewrites a manifest while the agent reads it.
const writing = 1500 * time.Millisecond

func TestHalfWrittenManifestNeverRuns(t *testing.T) {
	t.Parallel()
	// With its kind last, no part of it is a pod. A reader could not detect a part that is one.
	const kind = "kind: Pod\n"
	text := strings.Replace(manifest(newPod("busy", idle)), kind, "", 1) + kind
	a := started(t, map[string]string{"busy.yaml": text, "calm.yaml": manifest(newPod("calm", idle))})
	a.pods("both", allReady(2))
	before := a.fingerprint()
	path := filepath.Join(a.Manifests, "busy.yaml")
	end := time.Now().Add(writing)
	written := 0
	for ; time.Now().Before(end); written++ {
		if written%2 == 0 {
			a.Put("busy.yaml", text)
			continue
		}
		// As an editor that writes in place: truncate, then write line by line.
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
		must.OK(t, err)
		for part := range strings.Lines(text) {
			if _, err := f.WriteString(part); err != nil {
				t.Fatal(err)
			}
			if err := f.Sync(); err != nil { // gives the reader time to read a part
				t.Fatal(err)
			}
		}
		must.OK(t, f.Close())
	}
	last := a.journal.last()
	a.put(newPod("mark", idle))
	a.journal.wait(t, last, settle, "the mark", named("manifests_read", "mark.yaml"))
	a.pods("all three", allReady(3))
	a.kept(before, "the rewritten manifest")
	t.Logf("written %d times, %d reads reported", written, a.journal.count(named("manifests_read")))
}

func TestMissingManifestDirectoryEndsItsPods(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("good", idle))
	old := a.pod("good", "ready", ready)
	away := a.Manifests + ".away"
	after := a.journal.last()
	must.OK(t, os.Rename(a.Manifests, away))
	// As for the kubelet, a directory that does not exist names no pod.
	a.journal.wait(t, after, settle, "the pod's end", named("pod_forgotten", string(old.UID)))
	must.OK(t, os.Rename(away, a.Manifests))
	a.pod("good", "ready again", ready)
}

func TestFileHoldsSeveralPods(t *testing.T) {
	t.Parallel()
	var docs []string
	for i := range 3 {
		docs = append(docs, manifest(newPod(fmt.Sprintf("doc-%d", i), idle)))
	}
	a := started(t, map[string]string{"all.yaml": strings.Join(docs, "---\n")})
	a.pods("all documents' pods", allReady(3))
	a.Put("all.yaml", strings.Join(docs[:2], "---\n"))
	a.pods("two of them", func(pods map[string]*corev1.Pod) bool {
		return allReady(2)(pods) && pods["doc-2"] == nil
	})
}
