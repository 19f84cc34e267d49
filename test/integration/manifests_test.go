//go:build integration

package integration

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages/journaletv1"
)

// tooLarge is beyond what a manifest may have, 10 MiB.
const tooLarge = 11 << 20

func TestABadManifestIsToldWithItsPlaceAndHarmsNoOther(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("good", idle))
	a.pod("good", "ready", ready)
	before := a.fingerprint()
	for _, bad := range []struct {
		name, text        string
		line              uint32
		field, code, says string
	}{
		{"syntax", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: [x\n", 0, "", "syntax", ""},
		{"kind", "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: x\n", 2, "kind", "", "Deployment"},
		{"unnamed", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\nspec:\n  containers:\n  - name: UPPER\n    image: x\n", 7, "spec.containers[0].name", "", ""},
		{"unknown", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\nspec:\n  containers:\n  - name: a\n    image: x\n    comand: [sh]\n", 9, "spec.containers[0].comand", "unknown-field", "no such field"},
		{"notyet", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\nspec:\n  hostUsers: false\n  containers:\n  - name: b\n    image: x\n", 6, "spec.hostUsers", "not-yet", "not carried out"},
		{"large", "apiVersion: v1\nkind: Pod\n# " + strings.Repeat("x", tooLarge) + "\n", 0, "", "too-large", ""},
		{"empty", "", 0, "", "empty", ""},
		{"binary", "\x00\xff\x7fELF", 0, "", "syntax", ""},
	} {
		after := a.journal.last()
		file := bad.name + ".yaml"
		a.Put(file, bad.text)
		read := a.journal.wait(t, after, settle, "what is wrong with "+file, func(f bus.Flat) bool {
			return f.Event == "manifests_read" && strings.Contains(string(f.Data), `"path":"`+file+`"`)
		})
		var found []*journaletv1.ManifestProblem
		for _, changed := range event(t, read).GetManifestsRead().GetChanged() {
			found = append(found, changed.GetProblems()...)
		}
		fits := false
		for _, p := range found {
			fits = fits || (bad.line == 0 || p.GetLine() == bad.line) && (bad.field == "" || p.GetField() == bad.field) &&
				(bad.code == "" || p.GetCode() == bad.code) && strings.Contains(p.GetMessage(), bad.says) && p.GetMessage() != ""
		}
		if !fits {
			t.Errorf("%s: want line %d, field %q, code %q, message with %q; have %v", file, bad.line, bad.field, bad.code, bad.says, found)
		}
		a.Process.Expect(t, "file="+file)
		a.Remove(file)
	}
	a.Put("another.yaml", manifest(newPod("another", idle)))
	a.pods("the good pod and another", allReady(2))
	a.Remove("another.yaml")
	a.journal.wait(t, 0, settle, "the other's end", named("pod_forgotten"))
	if after := a.fingerprint(); !maps.Equal(before, after) {
		t.Errorf("bad manifests changed the good pod:\n%v\n%v", before, after)
	}
}

func TestABrokenEditOfARunningPodsManifestLetsItRun(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("good", idle))
	a.pod("good", "ready", ready)
	before := a.fingerprint()
	after := a.journal.last()
	a.Put("good.yaml", "kind: [")
	a.journal.wait(t, after, settle, "the slip of the pen", named("manifests_read", "unreadable"))
	a.Stop()
	a.start()
	a.Put("good.yaml", manifest(newPod("good", idle)))
	a.journal.wait(t, after, settle, "the mended file", func(f bus.Flat) bool {
		return f.Event == "manifests_read" && !strings.Contains(string(f.Data), "unreadable")
	})
	a.pod("good", "ready", ready)
	if after := a.fingerprint(); !maps.Equal(before, after) {
		t.Errorf("a slip of the pen changed the pod:\n%v\n%v", before, after)
	}
}

func TestOfTwoFilesWithOneNameTheFirstPathWins(t *testing.T) {
	t.Parallel()
	a := started(t, map[string]string{
		"a.yaml": manifest(newPod("twin", "echo of a; "+idle)), "b.yaml": manifest(newPod("twin", "echo of b; "+idle)),
	})
	f := a.journal.wait(t, 0, settle, "the second twin being ignored", named("manifest_ignored", `"b.yaml"`))
	if e := event(t, f).GetManifestIgnored(); e.GetReason() != "DuplicateName" || !strings.Contains(e.GetMessage(), "a.yaml") {
		t.Errorf("it is told as %v", e)
	}
	p := a.pod("twin", "ready", ready)
	a.logged(p, "main", "of a")
	if n := len(a.sandboxes()); n != 1 {
		t.Errorf("%d sandboxes, want one", n)
	}
	// Its path free, the second one has its turn.
	a.Remove("a.yaml")
	next := a.pod("twin", "of the other file", func(q *corev1.Pod) bool { return ready(q) && q.UID != p.UID })
	a.logged(next, "main", "of b")
}

// swapping is how long a manifest is written anew under the reader, again and again.
const swapping = 1500 * time.Millisecond

func TestAManifestThatIsWrittenWhileItIsReadNeverRunsInPart(t *testing.T) {
	t.Parallel()
	// With its kind last, no part of it is a pod: against one that is, no reader can help.
	const kind = "kind: Pod\n"
	text := strings.Replace(manifest(newPod("busy", idle)), kind, "", 1) + kind
	a := started(t, map[string]string{"busy.yaml": text, "calm.yaml": manifest(newPod("calm", idle))})
	a.pods("both", allReady(2))
	before := a.fingerprint()
	path := filepath.Join(a.Manifests, "busy.yaml")
	end := time.Now().Add(swapping)
	written := 0
	for ; time.Now().Before(end); written++ {
		if written%2 == 0 {
			a.Put("busy.yaml", text)
			continue
		}
		// As an editor that writes in place: cut off, then bit by bit.
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.Lines(text) {
			if _, err := f.WriteString(part); err != nil {
				t.Fatal(err)
			}
			if err := f.Sync(); err != nil { // lets the reader see it in part
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	last := a.journal.last()
	a.Put("mark.yaml", manifest(newPod("mark", idle)))
	a.journal.wait(t, last, settle, "the mark", named("manifests_read", "mark.yaml"))
	a.pods("all three", allReady(3))
	after := a.fingerprint()
	for id, was := range before {
		if after[id] != was {
			t.Errorf("%s was %s and is %q", id, was, after[id])
		}
	}
	t.Logf("written %d times, %d readings were told", written, a.journal.count(named("manifests_read")))
}

func TestAFolderThatVanishesAndReturns(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("good", idle))
	old := a.pod("good", "ready", ready)
	away := a.Manifests + ".away"
	after := a.journal.last()
	if err := os.Rename(a.Manifests, away); err != nil {
		t.Fatal(err)
	}
	// As the kubelet has it: a folder that is not there names no pod.
	a.journal.wait(t, after, settle, "the pod's end", named("pod_forgotten", string(old.UID)))
	if err := os.Rename(away, a.Manifests); err != nil {
		t.Fatal(err)
	}
	a.pod("good", "ready again", ready)
}

func TestManyPodsOfOneFile(t *testing.T) {
	t.Parallel()
	var docs []string
	for i := range 3 {
		docs = append(docs, manifest(newPod(fmt.Sprintf("doc-%d", i), idle)))
	}
	a := started(t, map[string]string{"all.yaml": strings.Join(docs, "---\n")})
	a.pods("all documents' pods", allReady(3))
	a.Put("all.yaml", strings.Join(docs[:2], "---\n"))
	a.pods("two of them", func(pods map[string]*corev1.Pod) bool { return allReady(2)(pods) && pods["doc-2"] == nil })
}
