package objects

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/messages/journaletv1"
)

// lasting returns an immutable ConfigMap. Without a UID it is one of a file.
func lasting(uid, value string) Object {
	o := cm(value)
	o.Immutable, o.UID = true, uid
	return o
}

func lastingSecret(uid, value string) Object {
	o := sec(value)
	o.Immutable, o.UID = true, uid
	return o
}

// has wants what a driver gets for a pod, by the name "a".
func (r *rig) has(uid, want string) {
	r.Helper()
	c, err := r.ConfigMap(r.Context(), Owner{UID: uid, Namespace: "ns"}, "a")
	if err != nil || c.Data["k"] != want {
		r.Errorf("pod %s has %v and %v, want %q", uid, c, err, want)
	}
}

// isFollowed wants these keys to be watched, and no others.
func (r *rig) isFollowed(want ...Key) {
	r.Helper()
	synctest.Wait()
	r.backing.mu.Lock()
	defer r.backing.mu.Unlock()
	got := slices.Collect(maps.Keys(r.backing.watched))
	for _, k := range want {
		if !slices.Contains(got, k) || len(got) != len(want) {
			r.Errorf("watched: %v, want %v", got, want)
		}
	}
	if len(want) == 0 && len(got) > 0 {
		r.Errorf("watched: %v, want nothing", got)
	}
}

func TestNewPodGetsTheObjectThatHasTheNameOfAnImmutableOne(t *testing.T) {
	for _, test := range []struct {
		name          string
		first, second Object
		report        string
	}{
		{"files", lasting("", "1"), lasting("", "2"), "a=PRESENT+!"},
		{"API server", lasting("x", "1"), lasting("y", "2"), "a=PRESENT+!"},
		{"API server, mutable then", lasting("x", "1"), cm("2"), "a=PRESENT+"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.put(keyA, test.first)
				r.refers("old", cmRef("a"))
				r.reports("old a=PRESENT+!")
				r.isFollowed()
				r.put(keyA, test.second)
				r.refers("new", cmRef("a"))
				r.reports("new " + test.report)
				r.has("old", "1")
				r.has("new", "2")
				r.put(keyA, Object{State: missing})
				r.has("old", "1")
				// Nothing is left of it with the last pod.
				r.refers("old")
				r.refers("new")
				r.watches(0)
				if len(r.entries) != 0 {
					t.Errorf("left: %v", r.entries)
				}
			})
		})
	}
}

func TestPodThatWaitsForANameHoldsUpNoPodThatHasTheObject(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.put(keyA, lasting("x", "1"))
		r.refers("old", cmRef("a"))
		r.reports("old a=PRESENT+!")
		r.put(keyA, Object{State: missing})
		r.refers("new", cmRef("a"))
		r.reports(`new a=MISSING(configmap "a" not found)`)
		r.has("old", "1")
		r.put(keyA, lasting("y", "2"))
		r.reports("new a=PRESENT+!")
		r.has("new", "2")
		r.isFollowed()
		// The same object again is not read into memory a second time, nor reported to the others.
		r.refers("third", cmRef("a"))
		r.reports("third a=PRESENT+!")
		if len(r.entries) != 2 {
			t.Errorf("%d objects, want 2", len(r.entries))
		}
	})
}

func TestObjectThatBecomesImmutableStaysWithItsPods(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.put(keyA, cm("1"))
		r.refers("old", cmRef("a"))
		r.reports("old a=PRESENT+")
		r.put(keyA, lasting("x", "2"))
		r.reports("old a=PRESENT+!")
		r.put(keyA, lasting("y", "3"))
		r.refers("new", cmRef("a"))
		r.reports("new a=PRESENT+!")
		r.has("old", "2")
		r.has("new", "3")
	})
}

// Of a mutable object that is deleted and created again, the volume of a pod that runs follows the name, as with a
// kubelet.
func TestMutableObjectIsFollowedByItsName(t *testing.T) {
	inBubble(t, func(r *rig) {
		first, second := cm("1"), cm("2")
		first.UID, second.UID = "x", "y"
		r.put(keyA, first)
		r.refers("old", cmRef("a"))
		r.reports("old a=PRESENT+")
		r.put(keyA, second)
		r.reports("old a=PRESENT+")
		r.has("old", "2")
	})
}

// A read that was requested before a pod referred to the name may have the object that was deleted since.
func TestImmutableObjectOfAnEarlierReadIsNotGivenToANewPod(t *testing.T) {
	inBubble(t, func(r *rig) {
		requested := time.Now()
		r.refers("first", cmRef("a"))
		<-time.After(10 * time.Millisecond)
		r.refers("second", cmRef("a"))
		early := lasting("x", "1")
		early.Requested = requested
		var watched int
		r.backing.onWatch = func(k Key) {
			if watched++; watched == 1 { // again
				now := lasting("y", "2")
				now.Requested = time.Now()
				r.backing.objects[k] = now
			}
		}
		r.put(keyA, early)
		r.reports("first a=PRESENT+!", "second a=PRESENT+!")
		r.has("first", "1")
		r.has("second", "2")
		if watched != 1 {
			t.Errorf("it was read %d times more, want once", watched)
		}
		r.isFollowed()
	})
}

func TestImagePullsHaveTheSecretThatHasTheName(t *testing.T) {
	inBubble(t, func(r *rig) {
		value := func(owner Owner) string {
			s, err := r.Secret(r.Context(), owner, "b")
			if err != nil {
				return err.Error()
			}
			return string(s.Data["k"])
		}
		r.put(keyB, lastingSecret("x", "1"))
		r.refers("old", secretRef("b"))
		r.reports("old b=PRESENT+!")
		r.put(keyB, lastingSecret("y", "2"))
		if got := value(Owner{Namespace: "ns"}); got != "2" {
			t.Errorf("a pull has %s, want the newest", got)
		}
		if got := value(Owner{Namespace: "ns", UID: "old"}); got != "1" {
			t.Errorf("the pod has %s, want its own", got)
		}
		// While the API server is away, what a pod has of the name is better than nothing.
		r.put(keyB, Object{Away: true, Message: "away"})
		if got := value(Owner{Namespace: "ns"}); got != "1" {
			t.Errorf("a pull has %s without an API server", got)
		}
	})
}

// afterRestart runs a store whose journal has pods that were given immutable objects with the UID x.
func afterRestart(t *testing.T, now func(r *rig), f func(r *rig)) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, root)
		before := func(ref *journaletv1.ObjectRef, o Object) *journaletv1.ObjectRead {
			return &journaletv1.ObjectRead{
				Ref: ref, State: present, Digest: r.digest.digestOf(&o), Immutable: true, Uid: "x",
			}
		}
		refs := []*journaletv1.ObjectRef{cmRef("a"), secretRef("b")}
		r.Seed(podRef("old"), refs, []*journaletv1.ObjectRead{before(refs[0], cm("1")), before(refs[1], sec("1"))})
		now(r)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Store.Run(ctx) }()
		f(r)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestPodKeepsItsImmutableObjectsOverARestart(t *testing.T) {
	for name, second := range map[string][2]Object{
		"another":  {lasting("y", "2"), lastingSecret("y", "2")},
		"mutable":  {cm("2"), sec("2")},
		"deleted":  {{State: missing}, {State: missing}},
		"refused":  {{State: unreadable, Message: "no"}, {State: unreadable, Message: "no"}},
		"not read": {{Away: true}, {Away: true}},
	} {
		t.Run(name, func(t *testing.T) {
			afterRestart(t, func(r *rig) { r.putAll(second) }, func(r *rig) {
				r.reports() // nothing: its volumes stay as they are
				if _, known := r.Secrets("old"); known {
					t.Error("the Secret that the pod has counts as known; its errors would show it")
				}
				r.refers("new", cmRef("a"))
				switch c, err := r.ConfigMap(r.Context(), Owner{UID: "old", Namespace: "ns"}, "a"); {
				case second[0].ConfigMap == nil && err == nil:
					t.Errorf("the pod has %v, which nothing has", c)
				case second[0].ConfigMap != nil && (err != nil || c.Data["k"] != "2"):
					t.Errorf("the pod has %v and %v, want what has the name: the node has no copy", c, err)
				}
			})
		})
	}
}

func TestImmutableObjectThatIsThereAfterARestartIsReadByItsPods(t *testing.T) {
	afterRestart(t, func(r *rig) { r.putAll([2]Object{lasting("x", "1"), lastingSecret("x", "1")}) }, func(r *rig) {
		r.reports()
		r.has("old", "1")
		if values, known := r.Secrets("old"); !known || !slices.Contains(values, "1") {
			t.Errorf("its Secrets are %v and %v", values, known)
		}
		r.putAll([2]Object{lasting("y", "2"), lastingSecret("y", "2")})
		r.refers("new", cmRef("a"))
		r.reports("new a=PRESENT+!")
		r.has("old", "1")
		r.has("new", "2")
		r.isFollowed()
	})
}

// An immutable object of an earlier version has no UID in the journal.
func TestImmutableObjectOfAnEarlierVersionIsReadByItsName(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, root)
		read := []*journaletv1.ObjectRead{{
			Ref: cmRef("a"), State: present, Digest: r.digest.digestOf(ptr.To(cm("1"))), Immutable: true,
		}}
		r.Seed(podRef("old"), []*journaletv1.ObjectRef{cmRef("a")}, read)
		r.put(keyA, lasting("x", "1"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = r.Store.Run(ctx) }()
		r.reports("old a=PRESENT+!")
		r.put(keyA, lasting("y", "2"))
		r.has("old", "1")
	})
}

func (r *rig) putAll(both [2]Object) {
	r.put(keyA, both[0])
	r.put(keyB, both[1])
}

func TestPodOfTheSameNameWithAnotherUIDHasTheNewObject(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.put(keyA, lasting("x", "1"))
		r.refers("first", cmRef("a"))
		r.put(keyA, lasting("y", "2"))
		r.refers("second", cmRef("a")) // before the first one has ended
		r.reports("first a=PRESENT+!", "second a=PRESENT+!")
		r.has("second", "2")
		r.stored("first", &journaletv1.Event{Kind: &journaletv1.Event_PodFinished{
			PodFinished: &journaletv1.PodFinished{Uid: "first"}}})
		r.has("second", "2")
		if len(r.entries) != 1 {
			t.Errorf("left: %v", r.entries)
		}
		var none *corev1.ConfigMap
		if c, err := r.ConfigMap(r.Context(), Owner{UID: "first", Namespace: "ns"}, "a"); err != nil || c == none ||
			c.Data["k"] != "2" {
			t.Errorf("a pod of the same UID has %v and %v, want the new one", c, err)
		}
	})
}

// A driver that still reads an immutable object leaves the next pod to read the name again.
func TestImmutableObjectOfADriverIsNotGivenToANewPod(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.put(keyA, lasting("x", "1"))
		r.Store.mu.Lock()
		r.acquire(keyA, false)
		r.Store.mu.Unlock()
		r.watches(1)
		r.put(keyA, lasting("y", "2"))
		r.refers("new", cmRef("a"))
		r.reports("new a=PRESENT+!")
		r.has("new", "2")
		r.Store.mu.Lock()
		r.release(keyA)
		r.Store.mu.Unlock()
		r.isFollowed()
	})
}

// The watch of a mutable Secret shows that it becomes immutable. A pod that came after the watch began may need another
// object: the name is read again, and what it had before stays out of errors.
func TestValuesOfASecretBeforeItIsReadAgainStayOutOfErrors(t *testing.T) {
	inBubble(t, func(r *rig) {
		first := sec("hunter1")
		first.Requested = time.Now()
		r.refers("old", secretRef("b"))
		r.put(keyB, first)
		r.reports("old b=PRESENT+")
		<-time.After(time.Second)
		r.refers("late", secretRef("b"))
		r.reports("late b=PRESENT+")
		now := lastingSecret("x", "hunter2")
		now.Requested = first.Requested
		r.backing.onWatch = func(k Key) {
			again := lastingSecret("y", "hunter3")
			again.Requested = time.Now()
			r.backing.objects[k] = again
		}
		r.put(keyB, now)
		synctest.Wait()
		r.mu.Lock()
		slices.Sort(r.facts) // one watch shows it to both pods
		r.mu.Unlock()
		r.reports("late b=PRESENT+!", "old b=PRESENT+!")
		values, known := r.Secrets("late")
		if !known || !slices.Contains(values, "hunter1") || !slices.Contains(values, "hunter3") {
			t.Errorf("its Secrets are %v and %v", values, known)
		}
	})
}
