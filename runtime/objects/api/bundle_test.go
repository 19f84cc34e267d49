package api

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
)

const (
	bundleResources = "clustertrustbundles.certificates.k8s.io"
	discovery       = "/apis/certificates.k8s.io/"
)

func bundleKey(name, selector string) objects.Key {
	return objects.Key{
		Kind: journaletv1.ObjectKind_OBJECT_KIND_CLUSTER_TRUST_BUNDLE, Name: name, Selector: selector, API: true,
	}
}

// block returns a PEM block whose bytes are a word: nothing here reads certificates.
func block(kind, word string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte(word)}))
}

func (r *rig) putBundle(name, signer, label, text string) {
	r.server.Create(bundleResources, &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"for": label}},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: text},
	})
}

// has waits until a source has these certificates, in any order and each once.
func (r *rig) has(k objects.Key, words ...string) objects.Object {
	r.Helper()
	return r.untilThat(k, strings.Join(words, " "), func(o objects.Object) bool {
		if o.Data == nil || len(o.Data) != len(strings.Join(each(words), "")) {
			return false
		}
		for _, text := range each(words) {
			if !strings.Contains(string(o.Data), text) {
				return false
			}
		}
		return true
	})
}

func each(words []string) (all []string) {
	for _, w := range words {
		all = append(all, block("CERTIFICATE", w))
	}
	return all
}

// says waits until a source has a state and a message.
func (r *rig) says(k objects.Key, state journaletv1.ObjectState, message string) objects.Object {
	r.Helper()
	return r.untilThat(k, state.String()+" "+message, func(o objects.Object) bool {
		return o.State == state && strings.Contains(o.Message, message)
	})
}

func TestTrustBundlesAreSelectedAsByTheKubelet(t *testing.T) {
	r := newRig(t, nil, nil)
	r.putBundle("own", "", "x", "text before\n"+block("CERTIFICATE", "a")+block("PRIVATE KEY", "secret")+
		block("CERTIFICATE", "a"))
	r.putBundle("example.com:ca:1", "example.com/ca", "web", block("CERTIFICATE", "a")+block("CERTIFICATE", "b"))
	r.putBundle("example.com:ca:2", "example.com/ca", "mail", block("CERTIFICATE", "b")+block("CERTIFICATE", "c"))
	r.putBundle("example.com:other:1", "example.com/other", "web", block("CERTIFICATE", "d"))
	r.putBundle("garbage", "", "x", "no certificate \xff at all")
	own := bundleKey("own", "")
	web := bundleKey("", `{"signerName":"example.com/ca","labelSelector":{"matchLabels":{"for":"web"}},"path":""}`)
	all := bundleKey("", `{"signerName":"example.com/ca","labelSelector":{},"path":""}`)
	none := bundleKey("", `{"signerName":"example.com/ca","path":""}`)
	late := bundleKey("late", "")
	long := bundleKey("", fmt.Sprintf(
		`{"signerName":"example.com/ca","labelSelector":{"matchExpressions":[{"key":"k","operator":"In","values":[%q]}]}}`,
		strings.Repeat("v", 60)+strings.Repeat(`","`+strings.Repeat("v", 60), 2000)))
	for _, k := range []objects.Key{own, web, all, none, late, bundleKey("garbage", ""), bundleKey("", "nonsense")} {
		r.Watch(k)
	}
	r.has(own, "a")
	r.has(web, "a", "b")
	before := r.has(all, "a", "b", "c")
	r.says(none, missing, "combination of signerName and labelSelector matched zero ClusterTrustBundles")
	r.says(late, missing, `while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "late" not found`)
	if o := r.says(bundleKey("garbage", ""), present, ""); o.Data == nil || len(o.Data) > 0 {
		t.Errorf("of a bundle without certificates %q was read, and not an empty file", o.Data)
	}
	r.says(bundleKey("", "nonsense"), unreadable, "cannot be read")
	long.Selector = strings.ReplaceAll(long.Selector, `\"`, `"`)
	r.Watch(long)
	r.says(long, unreadable, "is larger than 102400")

	// A change is with all sources that it concerns.
	var b certificatesv1.ClusterTrustBundle
	r.server.Change(bundleResources, "", "", "example.com:ca:2", &b, func() { b.Labels["for"] = "web" })
	r.has(web, "a", "b", "c")
	r.server.Change(bundleResources, "", "", "own", &b, func() { b.Spec.TrustBundle = block("CERTIFICATE", "e") })
	r.has(own, "e")
	r.putBundle("late", "", "x", block("CERTIFICATE", "f"))
	r.has(late, "f")
	r.server.Delete(bundleResources, "", "own", 0)
	r.says(own, missing, `"own" not found`)
	r.server.Delete(bundleResources, "", "example.com:ca:1", 0)
	r.has(web, "b", "c")
	r.has(all, "b", "c")
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.seen[web]; &now.Data[0] != &r.seen[all].Data[0] || string(before.Data) == string(now.Data) {
		t.Error("sources with the same bundles do not share them")
	}
}

// A node whose pods use no trust bundles does not even ask for their version; one watch is for all sources of a signer,
// and none is left after the last one.
func TestTrustBundlesThatNobodyUsesCostNothing(t *testing.T) {
	r := newRig(t, nil, nil)
	r.put("a", "one", false)
	r.putBundle("example.com:ca:1", "example.com/ca", "web", block("CERTIFICATE", "a"))
	r.Watch(configMap("a"))
	r.until(configMap("a"), "one")
	for _, req := range r.server.Requests("") {
		if strings.Contains(req.HTTP.URL.Path, "certificates.k8s.io") {
			t.Errorf("requested %s without a use", req.HTTP.URL.Path)
		}
	}
	var keys []objects.Key
	for i := range 5 {
		k := bundleKey("", fmt.Sprintf(
			`{"signerName":"example.com/ca","labelSelector":{"matchExpressions":[{"key":"n%d","operator":"DoesNotExist"}]}}`, i))
		keys = append(keys, k)
		r.Watch(k)
	}
	for _, k := range keys {
		r.has(k, "a")
	}
	if n := r.server.Watching(bundleResources); n != 1 {
		t.Errorf("%d watches for one signer", n)
	}
	for i, k := range keys {
		r.Backing.mu.Lock()
		r.end(r.entries[k]) // what Unwatch does after a minute
		r.Backing.mu.Unlock()
		if i == 0 {
			r.putBundle("example.com:ca:2", "example.com/ca", "web", block("CERTIFICATE", "b"))
			r.has(keys[1], "a", "b")
		}
	}
	must.Until(t, deadline, "no longer watched", func() bool { return r.server.Watching(bundleResources) == 0 })
}

func TestVersionOfTrustBundlesIsDiscovered(t *testing.T) {
	var served atomic.Pointer[string]
	serve := func(version string) { served.Store(&version) }
	serve("none")
	server := fakeapi.New()
	server.Faults = func(req fakeapi.APIRequest) *fakeapi.Fault {
		rest, ok := strings.CutPrefix(req.HTTP.URL.Path, discovery)
		if version, _, _ := strings.Cut(rest, "/"); ok && version != *served.Load() {
			return &fakeapi.Fault{Code: http.StatusNotFound, Reason: "NotFound", Message: "no such resource"}
		}
		return nil
	}
	r := newRigOf(t, server, server.Start(t), Options{}, func(b *Backing) { b.trust.again = time.Hour })
	r.putBundle("own", "", "x", block("CERTIFICATE", "a"))
	r.putBundle("example.com:ca:1", "example.com/ca", "web", block("CERTIFICATE", "a"))
	own, all := bundleKey("own", ""), bundleKey("", `{"signerName":"example.com/ca","labelSelector":{}}`)
	r.Watch(own)
	r.Watch(all)
	for _, k := range []objects.Key{own, all} {
		if o := r.says(k, unreadable, "has no ClusterTrustBundles"); o.Message != errUnserved.Error() {
			t.Errorf("says %q", o.Message)
		}
	}
	for i := range 50 {
		r.Watch(bundleKey(fmt.Sprint("other-", i), ""))
		r.says(bundleKey(fmt.Sprint("other-", i), ""), unreadable, "has no ClusterTrustBundles")
	}
	requests := 0
	for _, req := range r.server.Requests("") {
		if strings.HasPrefix(req.HTTP.URL.Path, discovery) {
			requests++
		}
	}
	if want := len(client.ClusterTrustBundles); requests != want {
		t.Errorf("52 sources sent %d requests for the versions, want %d", requests, want)
	}
	r.Backing.trust.finding.Lock()
	r.Backing.trust.absent = time.Time{} // the hour has passed
	r.Backing.trust.finding.Unlock()
	serve("v1beta1")
	r.has(own, "a")
	r.has(all, "a")
	serve("v1")
	r.server.Compact()
	r.server.FailWatches(bundleResources)
	r.putBundle("example.com:ca:2", "example.com/ca", "web", block("CERTIFICATE", "b"))
	r.has(all, "a", "b")
}

// What one signer or bundle has keeps no other source from its certificates.
func TestHostileTrustBundlesHarmNoOther(t *testing.T) {
	var mu sync.Mutex
	hanging := 0
	server := fakeapi.New()
	server.Faults = func(req fakeapi.APIRequest) *fakeapi.Fault {
		switch selector := req.HTTP.URL.Query().Get("fieldSelector"); selector {
		case "spec.signerName=example.com/hangs", "metadata.name=hangs":
			mu.Lock()
			hanging++
			mu.Unlock()
			return &fakeapi.Fault{Hold: func(ctx context.Context) { <-ctx.Done() }}
		case "spec.signerName=example.com/refused":
			return &fakeapi.Fault{Code: http.StatusUnprocessableEntity, Reason: "Invalid", Message: "no such field"}
		case "metadata.name=json":
			return &fakeapi.Fault{Body: `{"kind":"ClusterTrustBundleList","items":[{"metadata":`}
		}
		return nil
	}
	r := newRigOf(t, server, server.Start(t), Options{}, func(b *Backing) { b.trust.most = 64 << 10 })
	for i := range 3 {
		r.putBundle(fmt.Sprintf("example.com:huge:%d", i), "example.com/huge", "web",
			block("CERTIFICATE", strings.Repeat("x", 30<<10)))
	}
	for i := range 200 {
		r.putBundle(fmt.Sprintf("example.com:many:%d", i), "example.com/many", "web", "-")
	}
	r.putBundle("huge", "", "x", strings.Repeat("x", 13<<20))
	r.putBundle("example.com:ca:1", "example.com/ca", "web", block("CERTIFICATE", "a"))
	allOf := func(signer string) objects.Key {
		return bundleKey("", `{"signerName":"example.com/`+signer+`","labelSelector":{}}`)
	}
	for _, k := range []objects.Key{allOf("hangs"), bundleKey("hangs", ""), bundleKey("json", ""), allOf("refused"),
		allOf("huge"), allOf("many"), bundleKey("huge", ""), allOf("ca")} {
		r.Watch(k)
	}
	r.has(allOf("ca"), "a")
	r.says(allOf("huge"), unreadable, "those of example.com/huge have more than 65536")
	r.says(allOf("many"), unreadable, "have too many bytes")
	r.says(allOf("refused"), unreadable, "no such field")
	r.says(bundleKey("huge", ""), unreadable, "may have")
	r.until(bundleKey("json", ""), "AWAY")
	r.putBundle("example.com:ca:2", "example.com/ca", "web", block("CERTIFICATE", strings.Repeat("y", 60<<10)))
	// What was read before stays in use.
	if o := r.says(allOf("ca"), unreadable, "those of example.com/ca have more than"); string(o.Data) !=
		block("CERTIFICATE", "a") {
		t.Errorf("%d bytes are left of what was read", len(o.Data))
	}
	r.server.Delete(bundleResources, "", "example.com:huge:0", 0)
	r.server.Delete(bundleResources, "", "example.com:huge:1", 0)
	r.untilThat(allOf("huge"), "what is left", func(o objects.Object) bool { return o.State == present })
	mu.Lock()
	defer mu.Unlock()
	if hanging == 0 {
		t.Error("nothing hung")
	}
}

func TestTrustBundlesOfAServerThatIsAwayAreThoseOfBefore(t *testing.T) {
	server := fakeapi.New()
	url := server.Start(t)
	kept := &memory{all: map[objects.Key]objects.Object{}}
	all, other := bundleKey("", `{"signerName":"example.com/ca","labelSelector":{}}`),
		bundleKey("", `{"signerName":"example.com/ca","labelSelector":{"matchLabels":{"for":"none"}}}`)
	first := newRigOf(t, server, url, Options{Kept: kept}, func(*Backing) {})
	first.putBundle("example.com:ca:1", "example.com/ca", "web", block("CERTIFICATE", "a"))
	first.Watch(all)
	first.has(all, "a")
	server.SetDown(true)
	second := newRigOf(t, server, url, Options{Kept: kept}, func(b *Backing) { b.Watch(all, "") })
	second.has(all, "a")
	second.Watch(other) // while the API server is away
	second.until(other, "AWAY")
	server.SetDown(false)
	second.says(other, missing, "zero ClusterTrustBundles")
}

// memory keeps copies in memory.
type memory struct {
	mu  sync.Mutex
	all map[objects.Key]objects.Object
}

func (m *memory) Save(k objects.Key, o *objects.Object, _ time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[k] = *o
}

func (m *memory) Load(k objects.Key) (objects.Object, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.all[k]
	return o, ok
}

func (m *memory) Remove(k objects.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, k)
}

func (m *memory) Sweep(map[objects.Key]bool) {}

// A list that an attempt reads on after its end does not end the next attempt.
func TestLateListOfTrustBundlesEndsItsOwnAttempt(t *testing.T) {
	b := &Backing{}
	b.trust.most = 1
	s := &signer{b: b, name: "example.com/ca"}
	ended := map[string]error{}
	attempt := func(name string) (take func(*certificatesv1.ClusterTrustBundle)) {
		s.stop = func(cause error) { ended[name] = cause }
		return s.begin()
	}
	first := attempt("first")
	attempt("second")
	first(&certificatesv1.ClusterTrustBundle{Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: s.name}})
	if !errors.Is(ended["first"], errTooLarge) || ended["second"] != nil {
		t.Errorf("ended: %v", ended)
	}
}
