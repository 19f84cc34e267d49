package objects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// memory is a backing whose objects the test sets.
type memory struct {
	mu      sync.Mutex
	watched map[Key]int
	objects map[Key]Object
	changed chan struct{}
	later   map[Key]bool
	file    map[Key]string // of the last Watch
	// onWatch is called with each Watch; nil: nothing is.
	onWatch func(Key)
}

func (m *memory) Watch(k Key, file string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.later[k] {
		delete(m.later, k)
	} else {
		m.watched[k]++
	}
	m.file[k] = file
	if m.onWatch != nil {
		m.onWatch(k)
	}
	m.signal()
}

func (m *memory) WatchLater(k Key, file string) {
	m.Watch(k, file)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.later[k] = true
}

func (m *memory) Unwatch(k Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.later, k)
	if m.watched[k]--; m.watched[k] == 0 {
		delete(m.watched, k)
	}
}

func (m *memory) signal() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

func (m *memory) Run(ctx context.Context, read func(map[Key]Object)) error {
	for {
		m.mu.Lock()
		batch := map[Key]Object{}
		for k := range m.watched {
			if o, known := m.objects[k.named()]; known {
				batch[k] = o
			}
		}
		m.mu.Unlock()
		read(batch)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.changed:
		}
	}
}

// rig is a store that runs, within a bubble of time.
type rig struct {
	*testing.T
	*Store
	backing *memory
	root    string

	mu    sync.Mutex
	facts []string
	fail  bool
}

func inBubble(t *testing.T, f func(r *rig)) {
	t.Helper()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := newRig(t, root)
		done := make(chan error)
		go func() { done <- r.Store.Run(ctx) }()
		f(r)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func newRig(t *testing.T, root string) *rig {
	r := &rig{T: t, root: root, backing: &memory{
		later: map[Key]bool{}, file: map[Key]string{}, watched: map[Key]int{}, objects: map[Key]Object{},
		changed: make(chan struct{}, 1)}}
	r.Store = New(Options{RootDir: root, Backing: r.backing, Sink: r.sink})
	return r
}

func (r *rig) sink(_ context.Context, f *journaletv1.ObjectsRead) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail {
		return errors.New("the journal is closed")
	}
	text := f.GetUid()
	for _, o := range f.GetObjects() {
		text += fmt.Sprintf(" %s=%s", o.GetRef().GetName(), strings.TrimPrefix(o.GetState().String(), "OBJECT_STATE_"))
		if len(o.GetDigest()) == 64 {
			text += "+"
		}
		if o.GetFile() != "" {
			text += "@" + o.GetFile()
		}
		if o.GetImmutable() {
			text += "!"
		}
		if o.GetMessage() != "" {
			text += "(" + o.GetMessage() + ")"
		}
	}
	r.facts = append(r.facts, text)
	return nil
}

func (r *rig) failing(fail bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = fail
}

func (r *rig) put(k Key, o Object) {
	r.backing.mu.Lock()
	defer r.backing.mu.Unlock()
	r.backing.objects[k] = o
	r.backing.signal()
}

func (r *rig) refers(uid string, refs ...*journaletv1.ObjectRef) {
	r.stored(uid, messages.NewEvent(&journaletv1.ObjectsSet{Namespace: "ns", Refs: refs}))
}

func (r *rig) stored(uid string, decision *journaletv1.Event) {
	r.Stored(&journaletv1.Record{Actor: messages.Pod(uid).Proto(), Body: &journaletv1.Record_Step{
		Step: &journaletv1.Step{Decisions: []*journaletv1.Event{decision}}}})
}

// reports wants these facts, and no others, once everything is at rest.
func (r *rig) reports(want ...string) {
	r.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if fmt.Sprint(r.facts) != fmt.Sprint(want) {
		r.Errorf("reported %q, want %q", r.facts, want)
	}
	r.facts = nil
}

// watches wants so many watched objects.
func (r *rig) watches(want int) {
	r.Helper()
	synctest.Wait()
	r.backing.mu.Lock()
	defer r.backing.mu.Unlock()
	if len(r.backing.watched) != want {
		r.Errorf("watched: %v, want %d", r.backing.watched, want)
	}
}

func cmRef(name string) *journaletv1.ObjectRef {
	return &journaletv1.ObjectRef{Kind: configMap, Name: name}
}

func secretRef(name string) *journaletv1.ObjectRef {
	return &journaletv1.ObjectRef{Kind: secret, Name: name}
}

func cm(value string) Object {
	return Object{State: present, ConfigMap: &corev1.ConfigMap{Data: map[string]string{"k": value}}}
}

func sec(value string) Object {
	return Object{State: present, Secret: &corev1.Secret{Data: map[string][]byte{"k": []byte(value)}}}
}

var keyA, keyB = Key{Kind: configMap, Namespace: "ns", Name: "a"}, Key{Kind: secret, Namespace: "ns", Name: "b"}

func TestOnlyChangesOfObjectsAreReported(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.put(keyA, cm("1"))
		r.put(keyB, Object{State: missing})
		r.watches(0)
		r.refers("u", cmRef("a"), secretRef("b"))
		r.reports(`u a=PRESENT+ b=MISSING(secret "b" not found)`)
		r.put(keyA, cm("1")) // another object with the same contents
		r.reports()
		r.put(keyB, sec("hunter2"))
		r.reports("u a=PRESENT+ b=PRESENT+")
		broken := cm("1")
		broken.State, broken.Message = unreadable, "a.yaml:1: not YAML"
		r.put(keyA, broken)
		r.reports("u a=UNREADABLE+(a.yaml:1: not YAML) b=PRESENT+")
		r.put(keyA, cm("2"))
		r.reports("u a=PRESENT+ b=PRESENT+")
		// Other references are reported in any case, the same objects or not.
		r.refers("u", cmRef("a"))
		r.reports("u a=PRESENT+")
		r.watches(1)
	})
}

func TestObjectIsWatchedWhileAPodRefersToIt(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.put(keyA, cm("1"))
		r.refers("u", cmRef("a"))
		r.refers("v", cmRef("a"))
		r.reports("u a=PRESENT+", "v a=PRESENT+")
		r.watches(1)
		r.refers("u")
		r.watches(1)
		r.stored("v", messages.NewEvent(&journaletv1.PodFinished{Uid: "v"}))
		r.watches(0)
		r.put(keyA, cm("2"))
		r.reports()
		r.stored("x", messages.NewEvent(&journaletv1.PodForgotten{Uid: "u"}))
		r.stored("x", messages.NewEvent(&journaletv1.PodForgotten{Uid: "unknown"}))
		r.refers("unknown")
		if len(r.pods) != 0 || len(r.entries) != 0 {
			t.Errorf("left: %v %v", r.pods, r.entries)
		}
	})
}

func TestUnreadObjectHoldsUpTheOthersForASecond(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.put(keyA, cm("1"))
		began := time.Now()
		r.refers("u", cmRef("a"), secretRef("b"))
		r.reports()
		<-time.After(readTimeout)
		r.reports("u a=PRESENT+")
		r.put(keyB, sec("x"))
		r.reports("u a=PRESENT+ b=PRESENT+")
		if took := time.Since(began); took != readTimeout {
			t.Error(took)
		}
	})
}

func TestFactThatIsNotStoredIsReportedAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.put(keyA, cm("1"))
		r.failing(true)
		r.refers("u", cmRef("a"))
		r.reports()
		r.failing(false)
		<-time.After(retryEvery)
		r.reports("u a=PRESENT+")
	})
}

func podRef(uid string) *journaletv1.PodRef { return &journaletv1.PodRef{Uid: uid, Namespace: "ns"} }

func TestSeededStateIsNotReportedAgain(t *testing.T) {
	root := t.TempDir()
	digest := (&digester{root: root}).digestOf(ptr.To(cm("1")))
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, root)
		old := &journaletv1.ObjectRead{Ref: cmRef("a"), State: present, Digest: "old"}
		now := &journaletv1.ObjectRead{Ref: cmRef("a"), State: present, Digest: digest}
		r.Seed(podRef("u"), []*journaletv1.ObjectRef{cmRef("a")}, []*journaletv1.ObjectRead{now})
		r.Seed(podRef("v"), []*journaletv1.ObjectRef{cmRef("a")}, []*journaletv1.ObjectRead{old})
		r.Seed(podRef("w"), []*journaletv1.ObjectRef{cmRef("a")}, []*journaletv1.ObjectRead{old})
		r.Seed(podRef("x"), nil, nil)
		r.SeedPending(&journaletv1.ObjectsRead{Uid: "w", Objects: []*journaletv1.ObjectRead{now}})
		r.SeedPending(&journaletv1.ObjectsRead{Uid: "unknown"})
		r.put(keyA, cm("1"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = r.Store.Run(ctx) }()
		r.reports("v a=PRESENT+")
	})
}

func TestWhatWasReadBeforeTheStartIsReadLater(t *testing.T) {
	inBubble(t, func(r *rig) {
		read := []*journaletv1.ObjectRead{{Ref: cmRef("a"), State: present, Digest: "d"}}
		r.Seed(podRef("u"), []*journaletv1.ObjectRef{cmRef("a"), cmRef("b")}, read)
		if want := map[Key]bool{keyA: true}; !maps.Equal(r.backing.later, want) {
			r.Errorf("may be read later: %v, want %v", r.backing.later, want)
		}
		r.put(keyA, cm("1"))
		_, err := r.ConfigMap(r.Context(), Owner{Namespace: "ns", UID: "u"}, "a")
		must.OK(r.T, err)
		if len(r.backing.later) != 0 {
			r.Errorf("a driver needs it now, and it may still be read later: %v", r.backing.later)
		}
	})
}

// A key is nowhere but in its pod's volume: after a start the pod has that certificate until another one is issued.
func TestCertificateOfBeforeIsInUseUntilAnotherOneIsIssued(t *testing.T) {
	inBubble(t, func(r *rig) {
		source := &corev1.PodCertificateProjection{SignerName: "example.com/ca", KeyType: "ED25519"}
		ref := references.Certificate("tls", 0, source)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: "u"}, Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{PodCertificate: source}}}}}}}}
		k := Key{Kind: certificate, Namespace: "ns", Name: "tls", Selector: ref.GetSelector()}
		before := strings.Repeat("d", 64)
		r.Seed(podRef("u"), []*journaletv1.ObjectRef{ref}, []*journaletv1.ObjectRead{
			{Ref: ref, State: present, Digest: before},
		})
		r.put(k, Object{State: unreadable, Message: "credential bundle is not issued yet"})
		r.reports("u tls=UNREADABLE+(credential bundle is not issued yet)")
		r.refers("v", ref)
		r.reports("v tls=UNREADABLE(credential bundle is not issued yet)")
		if _, err := r.Certificate(r.Context(), pod, "tls", 0); err == nil ||
			!strings.HasSuffix(err.Error(), "volume tls: credential bundle is not issued yet") {
			r.Error(err)
		}
		for _, i := range []int{1, 7} {
			if _, err := r.Certificate(r.Context(), pod, "tls", i); err == nil {
				r.Errorf("source %d has a certificate", i)
			}
		}
		r.put(k, Object{State: present, Certificate: &Certificate{Key: []byte("the key"), Chain: []byte("a")}})
		r.reports("u tls=PRESENT+", "v tls=PRESENT+")
		got, err := r.Certificate(r.Context(), pod, "tls", 0)
		must.OK(r.T, err)
		if string(got.Key)+string(got.Chain) != "the keya" {
			r.Errorf("%s %s", got.Key, got.Chain)
		}
		if values, ok := r.Secrets("u"); !ok || len(values) != 1 || values[0] != "the key" {
			r.Errorf("what errors must not repeat is %q, %v", values, ok)
		}
		r.put(k, Object{State: present, Certificate: &Certificate{Key: []byte("another"), Chain: []byte("a")}})
		r.reports("u tls=PRESENT+", "v tls=PRESENT+")
	})
}

func TestDriversReadContents(t *testing.T) {
	inBubble(t, func(r *rig) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
		projection := &corev1.ServiceAccountTokenProjection{Audience: "vault"}
		ref := references.Token(pod, projection)
		r.put(keyA, cm("1"))
		r.put(keyB, sec("2"))
		r.put(Key{Kind: token, Namespace: "ns", Name: "default", Selector: ref.GetSelector()},
			Object{State: present, Data: []byte("a.b.c")})
		r.put(Key{Kind: trustBundle, Name: "roots"}, Object{State: present, Data: []byte("PEM")})
		r.put(Key{Kind: secret, Namespace: "ns", Name: "none"}, Object{State: missing})
		r.put(Key{Kind: secret, Namespace: "ns", Name: "bad"}, Object{State: unreadable, Message: "bad.yaml:1: no"})
		c, err := r.ConfigMap(r.Context(), Owner{Namespace: "ns"}, "a")
		must.OK(t, err)
		s, err := r.Secret(r.Context(), Owner{Namespace: "ns"}, "b")
		must.OK(t, err)
		tok, err := r.Token(r.Context(), pod, projection)
		must.OK(t, err)
		b, err := r.TrustBundle(r.Context(), Owner{}, &corev1.ClusterTrustBundleProjection{Name: ptr.To("roots")})
		must.OK(t, err)
		if got := c.Data["k"] + string(s.Data["k"]) + tok + string(b); got != "12a.b.cPEM" {
			t.Error(got)
		}
		_, err = r.Secret(r.Context(), Owner{Namespace: "ns"}, "none")
		if !errors.Is(err, ErrNotFound) || err.Error() != `secret "none" not found` {
			t.Error(err)
		}
		if _, err := r.Secret(r.Context(), Owner{Namespace: "ns"}, "bad"); errors.Is(err, ErrNotFound) ||
			err.Error() != "secret ns/bad: bad.yaml:1: no" {
			t.Error(err)
		}
		began := time.Now()
		if _, err := r.Secret(r.Context(), Owner{Namespace: "ns"}, "never"); err == nil || time.Since(began) != readTimeout {
			t.Error(err, time.Since(began))
		}
		r.watches(0)
	})
}

func TestSecretsOfAPodIncludeThoseBeforeAChange(t *testing.T) {
	inBubble(t, func(r *rig) {
		want := func(want string) {
			t.Helper()
			synctest.Wait()
			if got, ok := r.Secrets("u"); fmt.Sprint(got, ok) != want {
				t.Errorf("got %v %v, want %s", got, ok, want)
			}
		}
		want("[] true")
		r.refers("u", cmRef("a"), secretRef("b"))
		want("[] false") // not an empty list that is complete
		r.put(keyA, cm("1"))
		r.put(keyB, sec("first"))
		want("[first] true")
		r.put(keyB, sec("second"))
		want("[second first] true")
		r.refers("u", cmRef("a"))
		want("[second first] true")
		r.refers("u")
		want("[second first] true")
		r.stored("u", messages.NewEvent(&journaletv1.PodFinished{Uid: "u"}))
		want("[] true")
	})
}

func TestDigestsDependOnContentsAndKey(t *testing.T) {
	root := t.TempDir()
	d := &digester{root: root}
	binary := Object{ConfigMap: &corev1.ConfigMap{BinaryData: map[string][]byte{"k": []byte("1")}}}
	split := Object{ConfigMap: &corev1.ConfigMap{Data: map[string]string{"k": "", "1": ""}}}
	all := map[string]bool{}
	for _, o := range []Object{cm("1"), cm("2"), sec("3"), split, {Data: []byte("1")}, {Data: []byte{}}} {
		all[d.digestOf(&o)] = true
	}
	if len(all) != 6 || !all[d.digestOf(&binary)] {
		t.Error(all)
	}
	again := &digester{root: root}
	if again.digestOf(ptr.To(cm("1"))) != d.digestOf(ptr.To(cm("1"))) {
		t.Error("another digest after a restart")
	}
	info, err := os.Stat(filepath.Join(root, KeyFile))
	must.OK(t, err)
	if info.Mode() != 0o600 || info.Size() != keyBytes {
		t.Error(info.Mode(), info.Size())
	}
	other := &digester{root: t.TempDir()}
	if other.digestOf(ptr.To(cm("1"))) == d.digestOf(ptr.To(cm("1"))) {
		t.Error("another node has the same digest")
	}
}

func TestDamagedKeyIsSetAsideAndReplaced(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"short": func(path string) error { return os.WriteFile(path, []byte("short"), 0o600) },
		"long":  func(path string) error { return os.WriteFile(path, make([]byte, 1000), 0o600) },
		"dir":   func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, t.TempDir())
			must.OK(t, damage(filepath.Join(r.root, KeyFile)))
			first := r.digest.digestOf(ptr.To(cm("1")))
			if _, err := os.Stat(filepath.Join(r.root, damagedKeyFile)); err != nil {
				t.Error(err)
			}
			if again := (&digester{root: r.root}).digestOf(ptr.To(cm("1"))); again != first {
				t.Error("the new key does not last")
			}
		})
	}
}

func TestKeyThatCannotBeWrittenServesOneRun(t *testing.T) {
	r := newRig(t, filepath.Join(t.TempDir(), "missing"))
	if a, b := r.digest.digestOf(ptr.To(cm("1"))), r.digest.digestOf(ptr.To(cm("1"))); a != b || len(a) != 64 {
		t.Error(a, b)
	}
}
