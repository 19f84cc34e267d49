package api

import (
	"path/filepath"
	"testing"

	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/runtime/objects/offlinecopy"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
)

// afterRestart returns a backing of the next start. Before it a pod had the immutable object "one", which is changed
// meanwhile; key is the object's key. sealed: Secrets are kept, too.
func afterRestart(t *testing.T, oldKey objects.Key, sealed bool, change func(*rig), watch ...objects.Key,
) (after *rig, key objects.Key) {
	t.Helper()
	root, keys := t.TempDir(), t.TempDir()
	dir := filepath.Join(root, "offline")
	seal, err := offlinecopy.Seal(t.Context(), keys, root, dir)
	must.OK(t, err)
	store := func() *offlinecopy.Store {
		o := offlinecopy.Options{Dir: dir}
		if sealed {
			o.Seal = seal
		}
		s := offlinecopy.New(o)
		t.Cleanup(s.Flush)
		return s
	}
	server := fakeapi.New()
	url := server.Start(t)
	before := store()
	first := newRigOf(t, server, url, Options{Kept: before}, func(*Backing) {})
	first.put("a", "one", true)
	first.Watch(oldKey)
	key = oldKey
	key.UID = first.until(oldKey, "one").UID
	first.Watch(key)
	first.until(key, "one")
	first.Unwatch(oldKey)
	before.Flush()
	change(first)
	return newRigOf(t, server, url, Options{Kept: store()}, func(b *Backing) {
		for _, k := range append(watch, key) {
			b.Watch(k, "")
		}
	}), key
}

// replace deletes the objects and creates others with their name.
func replace(r *rig) {
	r.server.Delete("configmaps", "ns", "a", 0)
	r.server.Delete("secrets", "ns", "a", 0)
	r.put("a", "two", true)
}

func TestObjectOfAPodIsReadAfterARestart(t *testing.T) {
	after, key := afterRestart(t, configMap("a"), false, func(*rig) {})
	if o := after.until(key, "one"); o.UID != key.UID || o.Requested.IsZero() {
		t.Errorf("read %v, want it from the API server", o)
	}
}

func TestCopyOfAnObjectServesItsPodsAfterAnotherOneHasItsName(t *testing.T) {
	for name, change := range map[string]func(*rig){
		"another": replace,
		"none":    func(r *rig) { r.server.Delete("configmaps", "ns", "a", 0) },
		"away":    func(r *rig) { replace(r); r.server.SetDown(true) },
	} {
		t.Run(name, func(t *testing.T) {
			after, key := afterRestart(t, configMap("a"), false, change)
			after.until(key, "one")
		})
	}
}

func TestCopyOfAnObjectIsNotThatOfItsName(t *testing.T) {
	gone := func(r *rig) { replace(r); r.server.SetDown(true) }
	after, key := afterRestart(t, configMap("a"), false, gone, configMap("a"))
	after.until(key, "one")
	after.until(configMap("a"), "AWAY") // the next pod waits: nobody knows which object has the name
	after.server.SetDown(false)
	after.until(configMap("a"), "two")
}

func TestSecretWithoutACopyIsMissingAfterAnotherOneHasItsName(t *testing.T) {
	after, key := afterRestart(t, secret("a"), false, replace)
	after.until(key, "MISSING")
	after, key = afterRestart(t, secret("a"), true, replace)
	after.until(key, "one")
}

func TestCopyGoesWithTheLastPodThatHasTheObject(t *testing.T) {
	after, key := afterRestart(t, configMap("a"), false, replace)
	after.until(key, "one")
	after.Unwatch(key)
	after.Watch(key)
	after.until(key, "MISSING")
}
