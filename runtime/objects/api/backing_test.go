package api

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/runtime/objects/offlinecopy"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
)

const deadline = time.Minute

// rig is a backing of a fake API server, which runs.
type rig struct {
	*testing.T
	*Backing
	server *fakeapi.Server
	got    chan struct{}

	mu   sync.Mutex
	seen map[objects.Key]objects.Object
	log  []string
}

// Watch watches an object.
func (r *rig) Watch(k objects.Key) { r.Backing.Watch(k, "") }

func newRig(t *testing.T, kept Kept, faults func(fakeapi.APIRequest) *fakeapi.Fault) *rig {
	t.Helper()
	server := fakeapi.New()
	server.Faults = faults
	return newRigOf(t, server, server.Start(t), Options{Kept: kept}, func(*Backing) {})
}

// newRigOf returns a rig whose backing is called before it runs, as after a start.
func newRigOf(t *testing.T, server *fakeapi.Server, url string, o Options, before func(*Backing)) *rig {
	t.Helper()
	c, err := client.New(client.Options{
		Config: &rest.Config{Host: url}, NodeName: "n", ContentType: "application/json",
		Main: client.Limits{QPS: 500, Burst: 500},
	})
	must.OK(t, err)
	o.Client = c
	r := &rig{T: t, server: server, got: make(chan struct{}, 1), seen: map[objects.Key]objects.Object{}, Backing: New(o)}
	before(r.Backing)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Backing.Run(ctx, r.take)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func (r *rig) take(batch map[objects.Key]objects.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, o := range batch {
		r.seen[k] = o
		r.log = append(r.log, strings.TrimSpace(fmt.Sprintf("%s %s %s", k.Name, show(o), o.Message)))
	}
	select {
	case r.got <- struct{}{}:
	default:
	}
}

// show returns an object as a word.
func show(o objects.Object) string {
	switch {
	case o.ConfigMap != nil:
		return o.ConfigMap.Data["k"]
	case o.Secret != nil:
		return string(o.Secret.Data["k"])
	case o.Data != nil:
		return string(o.Data)
	case o.Away:
		return "AWAY"
	}
	return strings.TrimPrefix(o.State.String(), "OBJECT_STATE_")
}

// until waits until an object is as wanted.
func (r *rig) until(k objects.Key, want string) objects.Object {
	r.Helper()
	return r.untilThat(k, want, func(o objects.Object) bool { return show(o) == want })
}

func (r *rig) untilThat(k objects.Key, want string, is func(objects.Object) bool) objects.Object {
	r.Helper()
	for end := time.After(deadline); ; {
		r.mu.Lock()
		o := r.seen[k]
		log := strings.Join(r.log, "\n")
		r.mu.Unlock()
		if is(o) {
			return o
		}
		select {
		case <-r.got:
		case <-end:
			r.Fatalf("%s is %q, want %q; read:\n%s", k.Name, show(o), want, log)
		}
	}
}

func (r *rig) put(name, value string, immutable bool) {
	m := metav1.ObjectMeta{Namespace: "ns", Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}}
	r.server.Create("configmaps", &corev1.ConfigMap{ObjectMeta: m, Data: map[string]string{"k": value},
		Immutable: ptr.To(immutable)})
	r.server.Create("secrets", &corev1.Secret{ObjectMeta: m, Data: map[string][]byte{"k": []byte(value)},
		Immutable: ptr.To(immutable)})
}

// pod creates a pod with a service account, and returns its UID.
func (r *rig) pod() string {
	robot := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot"}}
	r.server.Create("serviceaccounts", robot)
	return r.server.Create("pods", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}})
}

func configMap(name string) objects.Key {
	return objects.Key{Kind: journaletv1.ObjectKind_OBJECT_KIND_CONFIG_MAP, Namespace: "ns", Name: name, API: true}
}

func secret(name string) objects.Key {
	return objects.Key{Kind: journaletv1.ObjectKind_OBJECT_KIND_SECRET, Namespace: "ns", Name: name, API: true}
}

func token(pod, uid string) objects.Key {
	return objects.Key{
		Kind: journaletv1.ObjectKind_OBJECT_KIND_SERVICE_ACCOUNT_TOKEN, Namespace: "ns", Name: "robot", API: true,
		Selector: `{"audience":"vault","expirationSeconds":3607}`, Pod: objects.PodID{Name: pod, UID: uid},
	}
}

func TestObjectsAreFollowedWhileWatched(t *testing.T) {
	r := newRig(t, nil, nil)
	r.put("a", "one", false)
	r.Watch(configMap("a"))
	r.Watch(secret("a"))
	r.Watch(secret("none"))
	if o := r.until(configMap("a"), "one"); o.Version == "" || o.ConfigMap.ManagedFields != nil {
		t.Errorf("read %v", o)
	}
	r.until(secret("a"), "one")
	if o := r.until(secret("none"), "MISSING"); o.Message != `secret "none" not found` {
		t.Errorf("reported %q", o.Message)
	}
	var s corev1.Secret
	r.server.Change("secrets", "", "ns", "a", &s, func() { s.Data["k"] = []byte("two") })
	r.until(secret("a"), "two")
	r.server.Delete("secrets", "ns", "a", 0)
	r.until(secret("a"), "MISSING")
	r.put("none", "late", false)
	r.until(secret("none"), "late")
	for _, req := range r.server.Requests("* secrets") {
		if q := req.HTTP.URL.Query().Get("fieldSelector"); !strings.HasPrefix(q, "metadata.name=") {
			t.Errorf("%s selects %q: the authorizer refuses it", req, q)
		}
	}
}

func TestImmutableObjectsAreNotFollowedFurther(t *testing.T) {
	r := newRig(t, nil, nil)
	r.put("a", "one", true)
	r.Watch(secret("a"))
	o := r.until(secret("a"), "one")
	if !o.Immutable {
		t.Error("not reported as immutable")
	}
	must.Until(t, deadline, "no longer watched", func() bool { return r.server.Watching("secrets") == 0 })
	// Another object of this name is read again. Pods that have the first one keep it without a request.
	first := secret("a")
	first.UID = o.UID
	r.Watch(first)
	r.Unwatch(secret("a"))
	r.server.Delete("secrets", "ns", "a", 0)
	r.server.Create("secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"},
		Data: map[string][]byte{"k": []byte("other")}})
	r.Watch(secret("a"))
	r.until(secret("a"), "other")
	r.until(first, "one")
}

func TestObjectsAreReadAsNewAsTheRequest(t *testing.T) {
	r := newRig(t, nil, func(req fakeapi.APIRequest) *fakeapi.Fault {
		if req.HTTP.URL.Query().Get("sendInitialEvents") != "" { // an API server that sends lists apart
			return &fakeapi.Fault{Code: http.StatusUnprocessableEntity, Reason: "Invalid", Message: "no such list"}
		}
		return nil
	})
	r.put("a", "one", true)
	requested := time.Now()
	r.Watch(secret("a"))
	if o := r.until(secret("a"), "one"); o.Requested.Before(requested) || time.Now().Before(o.Requested) {
		t.Errorf("requested at %v, want after %v", o.Requested, requested)
	}
	lists := r.server.Requests("list secrets")
	for _, req := range lists {
		if req.HTTP.URL.Query().Get("resourceVersion") == "0" {
			t.Errorf("%s takes a list of any age", req)
		}
	}
	if len(lists) == 0 {
		t.Error("nothing was listed")
	}
}

func TestLagOfTheAuthorizerIsNotReported(t *testing.T) {
	var refused atomic.Int32
	r := newRig(t, nil, func(req fakeapi.APIRequest) *fakeapi.Fault {
		if req.Namespace == "ns" && refused.Add(1) <= 6 {
			return &fakeapi.Fault{Code: http.StatusForbidden, Reason: "Forbidden", Message: "no relationship found"}
		}
		return nil
	})
	r.put("a", "one", false)
	r.Watch(secret("a"))
	r.until(secret("a"), "one")
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.log) != 1 {
		t.Errorf("reported %q", r.log)
	}
}

func TestWhatIsReadStaysWhileTheServerIsAway(t *testing.T) {
	r := newRig(t, nil, nil)
	r.put("a", "one", false)
	r.Watch(configMap("a"))
	r.until(configMap("a"), "one")
	r.server.SetDown(true)
	r.Watch(configMap("b"))
	if o := r.until(configMap("b"), "AWAY"); o.State != 0 || !strings.HasPrefix(o.Message, "the API server does not") {
		t.Errorf("reported %v", o)
	}
	r.put("b", "two", false)
	var m corev1.ConfigMap
	r.server.Change("configmaps", "", "ns", "a", &m, func() { m.Data["k"] = "three" })
	r.until(configMap("a"), "one")
	r.server.SetDown(false)
	r.until(configMap("a"), "three")
	r.until(configMap("b"), "two")
}

func TestTokensAreOfOnePodAndRenewed(t *testing.T) {
	r := newRig(t, nil, nil)
	var requests []authenticationv1.TokenRequestSpec
	var mu sync.Mutex
	r.server.Token = func(_, _ string, req *authenticationv1.TokenRequest) error {
		mu.Lock()
		defer mu.Unlock()
		requests = append(requests, *req.Spec.DeepCopy())
		req.Status.Token = fmt.Sprintf("token-%d", len(requests))
		if len(requests) == 1 {
			req.Spec.ExpirationSeconds = ptr.To(int64(1)) // renewed after half of it: the jitter is longer
		}
		return nil
	}
	uid := r.pod()
	r.Watch(token("p", uid))
	r.until(token("p", uid), "token-2")
	mu.Lock()
	first := requests[0]
	mu.Unlock()
	if len(first.Audiences) != 1 || first.Audiences[0] != "vault" || *first.ExpirationSeconds != 3607 ||
		first.BoundObjectRef.Name != "p" || string(first.BoundObjectRef.UID) != uid {
		t.Errorf("requested %v", first)
	}
	// A pod of the same name with another UID gets none.
	r.Watch(token("p", "other"))
	if o := r.until(token("p", "other"), "UNREADABLE"); !strings.HasPrefix(o.Message, "failed to fetch token: ") {
		t.Errorf("reported %q", o.Message)
	}
}

func TestTokensOfRunningPodsAreRequestedLast(t *testing.T) {
	server := fakeapi.New()
	requests := make(chan string, 10)
	server.Token = func(_, _ string, req *authenticationv1.TokenRequest) error {
		requests <- req.Spec.BoundObjectRef.Name
		return nil
	}
	url := server.Start(t)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }
	server.Create("serviceaccounts", &corev1.ServiceAccount{ObjectMeta: meta("robot")})
	keys := map[string]objects.Key{}
	for _, name := range []string{"running", "needs it", "new"} {
		keys[name] = token(name, server.Create("pods", &corev1.Pod{ObjectMeta: meta(name)}))
	}
	r := newRigOf(t, server, url, Options{LaterAfter: time.Hour}, func(b *Backing) {
		b.WatchLater(keys["running"], "")
		b.WatchLater(keys["needs it"], "")
	})
	for _, name := range []string{"new", "needs it"} {
		r.Watch(keys[name])
		if got := <-requests; got != name {
			t.Errorf("requested the token of pod %q, want that of pod %q", got, name)
		}
	}
	r = newRigOf(t, server, url, Options{LaterAfter: time.Millisecond}, func(b *Backing) {
		b.WatchLater(keys["running"], "")
	})
	if got := <-requests; got != "running" {
		t.Errorf("requested the token of pod %q, want that of the pod that runs", got)
	}
	r.Watch(keys["running"])
}

// After a start, the volumes of a pod that runs are set up again: what nothing waited for is watched once more.
func TestWatchAfterWatchLaterOfAnObjectThatDoesNotWait(t *testing.T) {
	server := fakeapi.New()
	r := newRigOf(t, server, server.Start(t), Options{}, func(b *Backing) { b.WatchLater(configMap("c"), "") })
	r.Watch(configMap("c"))
	r.put("c", "1", false)
	r.until(configMap("c"), "1")
	r.Watch(configMap("c"))
	r.Unwatch(configMap("c"))
	r.Watch(configMap("c"))
	r.put("d", "1", false)
	r.Watch(configMap("d"))
	r.until(configMap("d"), "1")
}

func TestTokensAreRenewedAsByTheKubelet(t *testing.T) {
	for _, test := range []struct{ lifetime, earlier, want time.Duration }{
		{time.Hour, 0, 48 * time.Minute},
		{time.Hour, 10 * time.Second, 48*time.Minute - 10*time.Second},
		{365 * 24 * time.Hour, 5 * time.Second, 24*time.Hour - 5*time.Second},
		{10 * time.Second, 10 * time.Second, 5 * time.Second},
	} {
		if got := renewAfter(test.lifetime, test.earlier); got != test.want {
			t.Errorf("a token of %s is renewed after %s, want %s", test.lifetime, got, test.want)
		}
	}
}

func TestTokenIsRenewedInTimeWhateverTheClockIsSetTo(t *testing.T) {
	const at = 90 * time.Second
	for set, want := range map[time.Duration]time.Duration{
		0: time.Hour, 24 * time.Hour: 2 * wallCheck,
		// Until then the token is of the future (kubernetes/kubernetes#123415).
		-24 * time.Hour: 2 * wallCheck, -5 * time.Minute: 2 * wallCheck,
		// It was issued before the time that it is now, or hardly after it.
		-time.Minute: time.Hour, -2 * time.Minute: time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			var off atomic.Int64
			b := New(Options{Wall: func() time.Time { return time.Now().Round(0).Add(time.Duration(off.Load())) }})
			time.AfterFunc(at, func() { off.Store(int64(set)) })
			begun := time.Now()
			b.sleep(t.Context(), time.Hour)
			if took := time.Since(begun); took != want {
				t.Errorf("with the clock set by %v it waited %v, want %v", set, took, want)
			}
		})
	}
}

func TestTokenStaysInUseWhileARenewalFails(t *testing.T) {
	var down atomic.Bool
	r := newRig(t, nil, func(req fakeapi.APIRequest) *fakeapi.Fault {
		if req.Subresource == "token" && down.Load() {
			return &fakeapi.Fault{Code: http.StatusInternalServerError}
		}
		return nil
	})
	r.server.Token = func(_, _ string, req *authenticationv1.TokenRequest) error {
		req.Spec.ExpirationSeconds = ptr.To(int64(1))
		down.Store(true)
		return nil
	}
	uid := r.pod()
	r.Watch(token("p", uid))
	requests := func() int { return len(r.server.Requests("create serviceaccounts/token")) }
	must.Eventually(t, deadline, "requests", func() (string, bool) { return fmt.Sprint(requests()), requests() >= 3 })
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.log) != 1 {
		t.Errorf("reported %q", r.log)
	}
}

func TestCopiesCountUntilTheServerAnswers(t *testing.T) {
	root, keys := t.TempDir(), t.TempDir()
	dir := filepath.Join(root, "offline")
	seal, err := offlinecopy.Seal(t.Context(), keys, root, dir)
	must.OK(t, err)
	store := func() *offlinecopy.Store {
		s := offlinecopy.New(offlinecopy.Options{Dir: dir, Seal: seal})
		t.Cleanup(s.Flush)
		return s
	}
	server := fakeapi.New()
	url := server.Start(t)
	before := store()
	first := newRigOf(t, server, url, Options{Kept: before}, func(*Backing) {})
	first.put("a", "one", false)
	uid := first.pod()
	all := []objects.Key{configMap("a"), secret("a"), token("p", uid)}
	for _, k := range all {
		first.Watch(k)
	}
	first.until(configMap("a"), "one")
	first.until(secret("a"), "one")
	first.untilThat(token("p", uid), "a token", func(o objects.Object) bool { return o.Data != nil })
	before.Flush()

	// The node starts again while the server is away.
	server.SetDown(true)
	second := newRigOf(t, server, url, Options{Kept: store()}, func(b *Backing) {
		for _, k := range append(all, secret("b")) {
			b.Watch(k, "")
		}
	})
	if o := second.until(secret("a"), "one"); o.Version == "" {
		t.Error("the copy has no version")
	}
	second.until(configMap("a"), "one")
	second.untilThat(token("p", uid), "a token", func(o objects.Object) bool { return o.Data != nil })
	second.until(secret("b"), "AWAY")
	server.Delete("secrets", "ns", "a", 0)
	server.SetDown(false)
	second.until(secret("a"), "MISSING")
}
