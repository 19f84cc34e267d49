package offlinecopy

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/test/must"
)

const canary = "correct-horse-battery"

func key(kind journaletv1.ObjectKind, name string) objects.Key {
	return objects.Key{Kind: kind, Namespace: "ns", Name: name, API: true}
}

var (
	configMap = key(journaletv1.ObjectKind_OBJECT_KIND_CONFIG_MAP, "a")
	secret    = key(journaletv1.ObjectKind_OBJECT_KIND_SECRET, "a")
	token     = key(journaletv1.ObjectKind_OBJECT_KIND_SERVICE_ACCOUNT_TOKEN, "a")
)

func theSecret() *objects.Object {
	return &objects.Object{Version: "7", Secret: &corev1.Secret{Data: map[string][]byte{"k": []byte(canary)}}}
}

// open opens a store with the key in a directory; none: no Secrets.
func open(t *testing.T, root, keys string) *Store {
	t.Helper()
	dir := filepath.Join(root, "offline")
	seal, err := Seal(t.Context(), keys, root, dir)
	must.OK(t, err)
	s := New(Options{Dir: dir, Seal: seal})
	t.Cleanup(s.Flush)
	return s
}

func files(t *testing.T, root string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, "offline"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, filepath.Join(root, "offline", e.Name()))
	}
	return all
}

func TestSecretsAreKeptSealedOrNotAtAll(t *testing.T) {
	root, keys := t.TempDir(), t.TempDir()
	s := open(t, root, "")
	s.Save(secret, theSecret(), time.Time{})
	s.Save(token, &objects.Object{Data: []byte(canary)}, time.Now().Add(time.Hour))
	s.Flush()
	if all := files(t, root); len(all) > 0 {
		t.Errorf("kept %q without a key", all)
	}
	s = open(t, root, keys)
	s.Save(secret, theSecret(), time.Time{})
	s.Save(token, &objects.Object{Data: []byte(canary)}, time.Now().Add(time.Hour))
	s.Flush()
	all := files(t, root)
	if len(all) != 2 {
		t.Errorf("kept %q", all)
	}
	for _, path := range all {
		data, err := os.ReadFile(path)
		must.OK(t, err)
		info, err := os.Stat(path)
		must.OK(t, err)
		if bytes.Contains(data, []byte(canary)) || bytes.Contains(data, []byte(`"ns"`)) || info.Mode().Perm() != 0o600 {
			t.Errorf("%s, mode %v, shows what it holds", path, info.Mode())
		}
	}
	again := open(t, root, keys)
	o, ok := again.Load(secret)
	if !ok || string(o.Secret.Data["k"]) != canary || o.Version != "7" {
		t.Errorf("loaded %v, %v", o, ok)
	}
	if o, ok := again.Load(token); !ok || string(o.Data) != canary {
		t.Errorf("loaded %v, %v", o, ok)
	}
	if _, ok := open(t, root, t.TempDir()).Load(secret); ok {
		t.Error("another key opens it")
	}
	// A copy counts only for its own object.
	must.OK(t, os.Rename(filepath.Join(root, "offline", fileOf(token)), filepath.Join(root, "offline", fileOf(secret))))
	if o, ok := again.Load(secret); ok {
		t.Errorf("another file passed for it: %v", o)
	}
}

func TestKeyIsNotInTheRootDirectory(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	link := filepath.Join(other, "link")
	must.OK(t, os.Symlink(root, link))
	for _, dir := range []string{root, filepath.Join(root, "keys"), link, "relative"} {
		if _, err := Seal(t.Context(), dir, root, filepath.Join(root, "offline")); err == nil {
			t.Errorf("%s is taken", dir)
		}
	}
	path := filepath.Join(other, KeyFile)
	must.OK(t, os.WriteFile(path, []byte("short"), 0o600))
	if _, err := Seal(t.Context(), other, root, ""); err == nil || !strings.Contains(err.Error(), "is no key; remove it") {
		t.Errorf("a damaged key: %v", err)
	}
}

func TestCopiesGoWithTheirObjects(t *testing.T) {
	root, keys := t.TempDir(), t.TempDir()
	s := open(t, root, keys)
	s.Save(configMap, &objects.Object{ConfigMap: &corev1.ConfigMap{Data: map[string]string{"k": "v"}}}, time.Time{})
	s.Save(secret, theSecret(), time.Time{})
	s.Save(token, &objects.Object{Data: []byte(canary)}, time.Now().Add(-time.Second))
	s.SaveList("services", []byte("x"))
	s.Flush()
	if _, ok := s.Load(token); ok {
		t.Error("a token that has ended is loaded")
	}
	s.Remove(secret)
	s.Flush()
	if _, ok := s.Load(secret); ok || len(files(t, root)) != 3 {
		t.Errorf("removed, and there are %q", files(t, root))
	}
	s = open(t, root, keys)
	s.Sweep(map[objects.Key]bool{configMap: true})
	if o, ok := s.Load(configMap); !ok || o.ConfigMap.Data["k"] != "v" || len(files(t, root)) != 2 {
		t.Errorf("after a sweep: %v %v, %q", o, ok, files(t, root))
	}
	if list, ok := s.LoadList("services"); !ok || string(list) != "x" {
		t.Errorf("list %q, %v", list, ok)
	}
	// Without its key, what is sealed is of no use.
	s.Save(secret, theSecret(), time.Time{})
	s.Flush()
	open(t, root, "").Sweep(map[objects.Key]bool{configMap: true, secret: true})
	if all := files(t, root); len(all) != 2 {
		t.Errorf("after a start without a key: %q", all)
	}
}

func TestCopiesAreBounded(t *testing.T) {
	root := t.TempDir()
	var log bytes.Buffer
	s := New(Options{Dir: filepath.Join(root, "offline"), total: 1000, Log: slog.New(slog.NewTextHandler(&log, nil))})
	data := map[string]string{"k": strings.Repeat("x", 300)}
	for _, name := range []string{"a", "b", "c", "d"} {
		k := key(configMap.Kind, name)
		s.Save(k, &objects.Object{ConfigMap: &corev1.ConfigMap{Data: data}}, time.Time{})
		s.Flush()
	}
	size := int64(0)
	for _, path := range files(t, root) {
		info, err := os.Stat(path)
		must.OK(t, err)
		size += info.Size()
	}
	if size == 0 || size > 1000 || strings.Count(log.String(), "no more room") != 1 {
		t.Errorf("%d bytes are kept; log:\n%s", size, log.String())
	}
}

func TestTheLargestNamespaceLosesItsCopiesFirst(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "offline")
	s := New(Options{Dir: dir, total: 3000})
	save := func(s *Store, namespace, name string, bytes int) objects.Key {
		k := key(configMap.Kind, name)
		k.Namespace = namespace
		data := map[string]string{"k": strings.Repeat("x", bytes)}
		s.Save(k, &objects.Object{ConfigMap: &corev1.ConfigMap{Data: data}}, time.Time{})
		s.Flush()
		return k
	}
	kept := func(s *Store, k objects.Key) bool {
		_, ok := s.Load(k)
		return ok
	}
	small := save(s, "few", "a", 100)
	s.SaveList("services", []byte(strings.Repeat("x", 400)))
	s.Flush()
	var many []objects.Key
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		many = append(many, save(s, "many", name, 400))
	}
	if !kept(s, small) || kept(s, many[4]) {
		t.Errorf("of few: %v, of many: %v", kept(s, small), kept(s, many[4]))
	}
	// The next run knows whose they are, too.
	next := New(Options{Dir: dir, total: 3000})
	still := map[objects.Key]bool{small: true}
	for _, k := range many {
		still[k] = true
	}
	next.Sweep(still)
	large := save(next, "few", "b", 500)
	if !kept(next, small) || !kept(next, large) || !kept(next, many[3]) || kept(next, many[0]) {
		t.Errorf("of few: %v %v, of many: %v %v", kept(next, small), kept(next, large), kept(next, many[0]),
			kept(next, many[3]))
	}
	if list, ok := next.LoadList("services"); !ok || len(list) != 400 {
		t.Error("the list was removed")
	}
	if n := sum(next.sizes); n > 3000 || n != next.total {
		t.Errorf("%d bytes are kept, %d counted", n, next.total)
	}
}
