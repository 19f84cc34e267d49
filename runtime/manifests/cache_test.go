package manifests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func named(uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}
}

func TestManifestCacheKeepsTheLastTwoManifestsOfAPod(t *testing.T) {
	missing := errors.New("not in memory")
	l := New(func(context.Context, string) ([]byte, error) { return nil, missing })
	for gen := range 1000 {
		l.Add(fmt.Sprint("digest-", gen), named("a"))
	}
	for digest, kept := range map[string]bool{"digest-999": true, "digest-998": true, "digest-997": false,
		"digest-0": false} {
		if _, err := l.Get(t.Context(), digest); (err == nil) != kept {
			t.Errorf("%s: %v, kept should be %v", digest, err, kept)
		}
	}
	// The previous digest again is not a third one.
	l.Add("digest-998", named("a"))
	if len(l.pods) != 2 || len(l.owned) != 1 {
		t.Errorf("cached %d manifests of %d pods", len(l.pods), len(l.owned))
	}
	l.Stored(&journaletv1.Record{Body: &journaletv1.Record_Step{Step: &journaletv1.Step{Decisions: []*journaletv1.Event{
		{Kind: &journaletv1.Event_PodForgotten{PodForgotten: &journaletv1.PodForgotten{Uid: "a"}}},
	}}}})
	if len(l.pods) != 0 || len(l.owned) != 0 {
		t.Errorf("still cached of a forgotten pod: %v, %v", l.pods, l.owned)
	}
}

func TestManifestCacheIsBounded(t *testing.T) {
	l := New(nil)
	for i := range maxManifests + 100 {
		l.Add(fmt.Sprint("digest-", i), named(fmt.Sprint("uid-", i)))
		if _, err := l.Get(t.Context(), fmt.Sprint("digest-", i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.pods) > maxManifests || len(l.owned) > maxManifests {
		t.Errorf("cached %d manifests of %d pods, at most %d", len(l.pods), len(l.owned), maxManifests)
	}
}

func TestLargeManifestsAreInMemoryAsActorsHaveThem(t *testing.T) {
	disk := map[string][]byte{}
	loads := 0
	l := New(func(_ context.Context, digest string) ([]byte, error) { loads++; return disk[digest], nil })
	const all = 4 * maxLarge
	for i := range all {
		pod := named(fmt.Sprint("uid-", i))
		pod.Kind, pod.APIVersion = "Pod", "v1"
		pod.Spec.Containers = []corev1.Container{{Name: "c", Args: []string{strings.Repeat("x", 100_000)}}}
		digest := fmt.Sprint("digest-", i)
		var err error
		disk[digest], err = json.Marshal(pod)
		must.OK(t, err)
		l.Add(digest, pod)
	}
	held, whole := 0, 0
	for i := range all {
		light, err := l.Light(t.Context(), fmt.Sprint("digest-", i))
		must.OK(t, err)
		held += light.Size()
	}
	if n := l.large.Len(); held > all*1000 || loads > 0 || n > maxLarge {
		t.Errorf("%d bytes are held for actors, %d manifests whole, %d were read", held, n, loads)
	}
	for i := range all {
		digest := fmt.Sprint("digest-", i)
		pod, err := l.Get(t.Context(), digest)
		must.OK(t, err)
		whole += pod.Size()
		shown := l.Newest(fmt.Sprint("uid-", i)).DeepCopy()
		l.Whole(t.Context(), digest, shown)
		if len(shown.Spec.Containers[0].Args[0]) != 100_000 {
			t.Fatalf("the pod is shown with %s", shown.Spec.Containers[0].Args)
		}
		if whole, err := l.Of(t.Context(), fmt.Sprint("uid-", i)); err != nil ||
			len(whole.Spec.Containers[0].Args[0]) != 100_000 {
			t.Fatalf("the manifest of the pod is %v, %v", whole, err)
		}
	}
	if _, err := l.Of(t.Context(), "unknown"); err == nil {
		t.Error("a pod that nobody knows has a manifest")
	}
	if whole < all*100_000 || loads == 0 || l.large.Len() > maxLarge {
		t.Errorf("%d bytes are read, %d times; %d manifests are whole", whole, loads, l.large.Len())
	}
}

// A text of the runtime is cleaned with a manifest of an earlier run, too. Without the manifest, all of it is withheld.
func TestTextOfTheRuntimeIsCleanedAfterARestart(t *testing.T) {
	const stored = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"default","uid":"a"},` +
		`"spec":{"containers":[{"name":"c","image":"x:1","env":[{"name":"PASSWORD","value":"hunter2"}]}]}}`
	l := New(func(_ context.Context, digest string) ([]byte, error) {
		if digest != "d" {
			return nil, errors.New("not stored")
		}
		return []byte(stored), nil
	})
	l.own("a", "d")
	l.own("a", "older")
	l.own("b", "lost")
	for uid, want := range map[string]string{
		"a": "bad PASSWORD=(withheld) at http://x/?(withheld)", "b": "(withheld)",
		"orphan": "bad PASSWORD=hunter2 at http://x/?(withheld)",
	} {
		if got := l.Redact(uid, "bad PASSWORD=hunter2 at http://x/?a=b"); got != want {
			t.Errorf("of %s: %s", uid, got)
		}
	}
	l.Secrets = func(uid string) ([]string, bool) { return []string{"secret-of-" + uid}, uid != "unread" }
	for uid, want := range map[string]string{"a": "(withheld) (withheld)", "orphan": "hunter2 (withheld)",
		"unread": "(withheld)"} {
		if got := l.Redact(uid, "hunter2 secret-of-"+uid); got != want {
			t.Errorf("of %s: %s", uid, got)
		}
	}
}
