package api

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
)

const requestResources = "podcertificaterequests.certificates.k8s.io"

var started = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// signed is a rig with a pod that has sources of certificates.
type signed struct {
	*rig
	url   string
	clock *clock.Manual
	kept  *memory
	pod   *corev1.Pod

	mu     sync.Mutex
	events []string
}

func newSigned(t *testing.T, faults func(fakeapi.APIRequest) *fakeapi.Fault) *signed {
	t.Helper()
	server := fakeapi.New()
	server.Faults = faults
	s := &signed{url: server.Start(t), kept: &memory{all: map[objects.Key]objects.Object{}}}
	source := func(keyType string) corev1.VolumeProjection {
		return corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{
			SignerName: "example.com/ca", KeyType: keyType, MaxExpirationSeconds: ptr.To[int32](86400),
			CredentialBundlePath: "bundle", UserAnnotations: map[string]string{"example.com/for": "web"},
		}}
	}
	s.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: corev1.PodSpec{
			ServiceAccountName: "robot", Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes: []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					source("ECDSAP256"), source("ED25519"), source("DSA"),
				}}}}},
		},
	}
	server.Create("serviceaccounts", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot"}})
	server.Create("nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	s.pod.UID = "u"
	s.start(t, server, func(*Backing) {})
	return s
}

// start starts the backing, once more.
func (s *signed) start(t *testing.T, server *fakeapi.Server, before func(*Backing)) {
	t.Helper()
	s.clock = clock.NewManual(started)
	s.rig = newRigOf(t, server, s.url, Options{
		Kept: s.kept, NodeName: "n", Clock: s.clock, LaterAfter: time.Millisecond,
		Pod: func(_ context.Context, uid string) (*corev1.Pod, error) {
			if uid != "u" {
				return nil, fmt.Errorf("pod %s is not known", uid)
			}
			return s.pod, nil
		},
		Event: func(pod *journaletv1.PodRef, reason, message string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events = append(s.events, pod.GetNamespace()+"/"+pod.GetName()+" "+reason+": "+message)
		},
	}, before)
}

// key returns the key of a source.
func (s *signed) key(i int) objects.Key {
	ref := references.Certificate("tls", i, s.pod.Spec.Volumes[0].Projected.Sources[i].PodCertificate)
	return objects.Key{Kind: certificate, Namespace: "ns", Name: ref.GetName(), Selector: ref.GetSelector(), API: true,
		Pod: objects.PodID{Name: "p", UID: "u"}}
}

// requests waits until there are n requests at the API server, oldest first.
func (s *signed) requests(n int) (all []certificatesv1.PodCertificateRequest) {
	s.Helper()
	s.eventually(fmt.Sprintf("%d requests", n), func() bool {
		all = s.list()
		return len(all) == n
	})
	return all
}

func (s *signed) list() []certificatesv1.PodCertificateRequest {
	s.Helper()
	resp, err := http.Get(s.url + "/apis/certificates.k8s.io/v1/podcertificaterequests")
	must.OK(s.T, err)
	defer resp.Body.Close()
	var all certificatesv1.PodCertificateRequestList
	must.OK(s.T, json.NewDecoder(resp.Body).Decode(&all))
	slices.SortFunc(all.Items, func(a, b certificatesv1.PodCertificateRequest) int {
		return strings.Compare(a.Name, b.Name)
	})
	return all.Items
}

func (s *signed) eventually(what string, is func() bool) {
	s.Helper()
	must.Eventually(s, deadline, "no "+what, func() (string, bool) {
		holds := is()
		s.rig.mu.Lock()
		defer s.rig.mu.Unlock()
		return fmt.Sprintf("events %q, read %q", s.emitted(), s.log), holds
	})
}

func (s *signed) emitted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// emits waits until these events were emitted, and no other.
func (s *signed) emits(want ...string) {
	s.Helper()
	s.eventually(fmt.Sprintf("events %q", want), func() bool { return slices.Equal(s.emitted(), want) })
}

// pass lets time pass once somebody waits for it, and the watch has shown the requests that there are: a request that
// it does not show for minutes counts as deleted.
func (s *signed) pass(d time.Duration) {
	s.Helper()
	must.OK(s.T, s.clock.WaitPending(s.Context(), 1))
	s.eventually("watch event of each request", s.watched)
	s.clock.Advance(d)
}

// watched reports whether the watch has shown all requests that the backing waits for, unless they were deleted.
func (s *signed) watched() bool {
	there := map[string]bool{}
	for _, r := range s.list() {
		there[r.Name] = true
	}
	s.issuing.mu.Lock()
	defer s.issuing.mu.Unlock()
	for _, r := range s.issuing.requests {
		if there[r.name] && !r.there {
			return false
		}
	}
	return true
}

// passUntil lets minutes pass until something is so, each once somebody waits for it.
func (s *signed) passUntil(what string, is func() bool) {
	s.Helper()
	s.eventually(what, func() bool {
		if is() {
			return true
		}
		s.pass(time.Minute)
		return false
	})
}

// change changes the status of a request.
func (s *signed) change(name string, change func(*certificatesv1.PodCertificateRequestStatus)) {
	s.Helper()
	var o certificatesv1.PodCertificateRequest
	if !s.server.Change(requestResources, "status", "ns", name, &o, func() { change(&o.Status) }) {
		s.Fatalf("there is no request %s", name)
	}
}

func condition(kind, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(started)}}
}

func (s *signed) condition(name, kind, reason, message string) {
	s.Helper()
	s.change(name, func(o *certificatesv1.PodCertificateRequestStatus) { o.Conditions = condition(kind, reason, message) })
}

// issue issues a chain that is to be renewed an hour from now and ends two hours from now.
func (s *signed) issue(name, chain string) {
	s.Helper()
	now := s.clock.Now()
	s.change(name, func(o *certificatesv1.PodCertificateRequestStatus) {
		o.Conditions = condition("Issued", "Issued", "")
		o.CertificateChain = chain
		o.NotBefore, o.BeginRefreshAt = ptr.To(metav1.NewTime(now)), ptr.To(metav1.NewTime(now.Add(time.Hour)))
		o.NotAfter = ptr.To(metav1.NewTime(now.Add(2 * time.Hour)))
	})
}

// certificateFor returns a certificate for a key in PEM.
func certificateFor(t *testing.T, public crypto.PublicKey) string {
	t.Helper()
	ca, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "p"},
		NotBefore: started, NotAfter: started.Add(2 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, ca)
	must.OK(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"X": "y"}, Bytes: der}))
}

func (s *signed) chainFor(r *certificatesv1.PodCertificateRequest) string {
	s.Helper()
	stub, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	must.OK(s.T, err)
	must.OK(s.T, stub.CheckSignature())
	return "before\n" + certificateFor(s.T, stub.PublicKey) + "between\n" + certificateFor(s.T, stub.PublicKey) + "after"
}

// holds waits until a source has another certificate than one.
func (s *signed) holds(i int, not *objects.Certificate) *objects.Certificate {
	s.Helper()
	return s.untilThat(s.key(i), "another certificate", func(o objects.Object) bool {
		return o.State == present && o.Certificate != nil && o.Certificate != not
	}).Certificate
}

func TestCertificateIsRequestedIssuedAndRenewed(t *testing.T) {
	s := newSigned(t, nil)
	s.put("a", "one", false)
	s.Watch(configMap("a"))
	s.until(configMap("a"), "one")
	for _, req := range s.server.Requests("") {
		if strings.Contains(req.HTTP.URL.Path, "certificates.k8s.io") {
			t.Errorf("requested %s without a use", req.HTTP.URL.Path)
		}
	}
	s.Watch(s.key(0))
	first := s.requests(1)[0]
	s.stand("not_yet_issued")
	var account corev1.ServiceAccount
	var node corev1.Node
	s.server.Get("serviceaccounts", "ns", "robot", &account)
	s.server.Get("nodes", "", "n", &node)
	want := certificatesv1.PodCertificateRequestSpec{
		SignerName: "example.com/ca", PodName: "p", PodUID: "u", ServiceAccountName: "robot",
		ServiceAccountUID: account.UID, NodeName: "n", NodeUID: node.UID, MaxExpirationSeconds: ptr.To[int32](86400),
		StubPKCS10Request:         first.Spec.StubPKCS10Request,
		UnverifiedUserAnnotations: map[string]string{"example.com/for": "web"},
	}
	if got, want := must1(json.Marshal(first.Spec)), must1(json.Marshal(want)); got != want || account.UID == "" {
		t.Errorf("requested\n%s\nwant\n%s", got, want)
	}
	if o := first.OwnerReferences; !strings.HasPrefix(first.Name, "req-") || len(o) != 1 || o[0].Kind != "Pod" ||
		o[0].Name != "p" || o[0].UID != "u" {
		t.Errorf("the request is %s of %v", first.Name, first.OwnerReferences)
	}
	s.issue(first.Name, s.chainFor(&first))
	one := s.holds(0, nil)
	s.stand("fresh")
	pair, err := tls.X509KeyPair(one.Chain, one.Key)
	must.OK(t, err)
	if len(pair.Certificate) != 2 || bytes.Contains(one.Chain, []byte("between")) ||
		bytes.Contains(one.Chain, []byte("X:")) {
		t.Errorf("the chain is %s", one.Chain)
	}
	if !bytes.HasPrefix(one.Key, []byte("-----BEGIN PRIVATE KEY-----\n")) {
		t.Error("the key is no PKCS #8")
	}
	s.pass(59 * time.Minute)
	s.pass(30 * time.Second)
	if n := len(s.list()); n != 1 {
		t.Errorf("%d requests before it is time", n)
	}
	s.passUntil("renewal", func() bool { return len(s.list()) == 2 })
	if late := s.clock.Now().Sub(started.Add(time.Hour)); late > maxJitter+2*checkEvery {
		t.Errorf("renewed %v late", late)
	}
	second := s.requests(2)[1]
	if bytes.Equal(second.Spec.StubPKCS10Request, first.Spec.StubPKCS10Request) {
		t.Error("the key is not renewed")
	}
	s.issue(second.Name, s.chainFor(&second))
	s.holds(0, one)
	s.emits()
	if n := s.server.Watching(requestResources); n != 1 {
		t.Errorf("%d watches", n)
	}
	if len(s.kept.all) != 1 {
		t.Errorf("kept %v", s.kept.all)
	}
	for _, req := range s.server.Requests("watch " + requestResources) {
		if q := req.HTTP.URL.Query().Get("fieldSelector"); q != "spec.nodeName=n" {
			t.Errorf("watched %q: the authorizer refuses it", q)
		}
	}
	s.Unwatch(s.key(0))
	s.eventually("end of the watch", func() bool { return s.server.Watching(requestResources) == 0 })
	s.eventually("end of what is held", func() bool {
		s.issuing.mu.Lock()
		defer s.issuing.mu.Unlock()
		return len(s.issuing.held) == 0 && len(s.issuing.requests) == 0
	})
	s.stand()
}

// stand expects that the certificates of the signer stand like this, a word for each.
func (s *signed) stand(words ...string) {
	s.Helper()
	want := map[CertificateState]int{}
	for _, word := range words {
		want[CertificateState{"example.com/ca", word}]++
	}
	if got := s.Certificates(); !maps.Equal(got, want) {
		s.Errorf("certificates stand as %v, want %v", got, want)
	}
}

func must1(text []byte, err error) string {
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestRefusalOfASignerIsFinal(t *testing.T) {
	s := newSigned(t, nil)
	s.Watch(s.key(0))
	denied := s.requests(1)[0]
	s.Watch(s.key(1))
	failed := s.requests(2)[1]
	s.condition(denied.Name, "Denied", "Policy", "not you")
	s.says(s.key(0), unreadable, `PodCertificateRequest was permanently denied: reason="Policy" message="not you"`)
	s.condition(failed.Name, "Failed", "Broken", strings.Repeat("x\x1b", 1<<10))
	o := s.says(s.key(1), unreadable, `PodCertificateRequest was permanently failed: reason="Broken" message="x\x1b`)
	if len(o.Message) > 4<<10 {
		t.Errorf("a message of %d bytes", len(o.Message))
	}
	s.stand("denied", "failed")
	if all := s.emitted(); len(all) != 2 ||
		all[0] != `ns/p Denied: PodCertificateRequest ns/`+denied.Name+` was denied, reason="Policy", message="not you"` ||
		!strings.HasPrefix(all[1], "ns/p Failed: PodCertificateRequest ns/"+failed.Name+
			` failed, reason="Broken", message="x`) {
		t.Errorf("emitted %q", all)
	}
	s.clock.Advance(48 * time.Hour)
	s.issue(denied.Name, s.chainFor(&denied))
	s.put("a", "one", false)
	s.Watch(configMap("a"))
	s.until(configMap("a"), "one")
	if n := len(s.list()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// A pod whose signer does not answer waits, and nobody else does. A request that somebody has deleted is repeated.
func TestSourceWaitsForItsSigner(t *testing.T) {
	s := newSigned(t, nil)
	s.Watch(s.key(0))
	first := s.requests(1)[0]
	s.pass(pendingAfter)
	s.says(s.key(0), unreadable, "credential bundle is not issued yet")
	s.server.Delete(requestResources, "ns", first.Name, 0)
	for range 9 {
		s.pass(time.Minute)
	}
	if n := len(s.list()); n != 0 {
		t.Errorf("%d requests, though the watch may lag", n)
	}
	s.passUntil("repetition", func() bool { return len(s.list()) == 1 })
	s.eventually("report of it", func() bool {
		s.rig.mu.Lock()
		defer s.rig.mu.Unlock()
		return strings.Contains(strings.Join(s.log, "\n"), "appears to have been deleted")
	})
	for range 20 {
		s.pass(time.Minute)
	}
	s.untilThat(s.key(0), "not issued", func(o objects.Object) bool { return o.Message == notIssued })
	s.Watch(s.key(1))
	other := s.requests(2)[1] // and no second one for a request that is there
	s.issue(other.Name, s.chainFor(&other))
	s.holds(1, nil)
	s.emits()
}

// What a signer issues is checked: the program in the pod would fail with it in words of its own.
func TestCertificatesThatCannotBeUsedAreRequestedAgain(t *testing.T) {
	s := newSigned(t, nil)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	s.Watch(s.key(0))
	var want []string
	wait := firstUnusable
	for i, c := range []struct {
		chain func(*certificatesv1.PodCertificateRequest) string
		why   string
	}{
		{func(*certificatesv1.PodCertificateRequest) string { return "garbage" }, "it has no certificate"},
		{func(*certificatesv1.PodCertificateRequest) string { return block("CERTIFICATE", "x") },
			"certificate 1 cannot be read"},
		{func(*certificatesv1.PodCertificateRequest) string { return certificateFor(t, stranger.Public()) },
			"its first certificate is not for the key of the request"},
		{func(r *certificatesv1.PodCertificateRequest) string {
			return s.chainFor(r) + "\n" + block("PUBLIC KEY", "x")
		},
			"block 3 is no certificate"},
		{func(r *certificatesv1.PodCertificateRequest) string {
			return s.chainFor(r) + strings.Repeat("x", 100<<10)
		},
			"its certificates have more than 102400 bytes"},
	} {
		r := s.requests(i + 1)[i]
		s.issue(r.Name, c.chain(&r))
		s.says(s.key(0), unreadable, `failed, and another one follows: reason="InvalidCertificateChain" message="`+c.why)
		want = append(want, fmt.Sprintf("ns/p Failed: PodCertificateRequest ns/%s failed, reason=%q, message=%q", r.Name,
			reasonInvalid, c.why))
		s.pass(wait - time.Second)
		if n := len(s.list()); n != i+1 {
			t.Errorf("%d requests before %v have passed", n, wait)
		}
		s.pass(time.Second)
		wait = min(2*wait, lastUnusable)
	}
	r := s.requests(6)[5]
	s.condition(r.Name, "Issued", "Issued", "")
	s.says(s.key(0), unreadable, "it has no beginRefreshAt or no notAfter")
	s.clock.Advance(lastUnusable)
	r = s.requests(7)[6]
	s.issue(r.Name, s.chainFor(&r))
	s.holds(0, nil)
	for i, got := range s.emitted() {
		if i < len(want) && !strings.HasPrefix(got, strings.TrimSuffix(want[i], `"`)) {
			t.Errorf("emitted %q, want %q", got, want[i])
		}
	}
}

func TestCertificateThatIsNotRenewedStaysInUse(t *testing.T) {
	s := newSigned(t, nil)
	s.Watch(s.key(0))
	first := s.requests(1)[0]
	s.issue(first.Name, s.chainFor(&first))
	one := s.holds(0, nil)
	s.pass(59 * time.Minute)
	s.passUntil("renewal", func() bool { return len(s.list()) == 2 })
	s.passUntil("event", func() bool { return len(s.emitted()) > 0 })
	if o := s.says(s.key(0), unreadable, "PodCertificate refresh overdue"); o.Certificate != one {
		t.Error("the certificate is not used any more")
	}
	s.stand("overdue_for_refresh")
	late := s.clock.Now().Sub(started.Add(time.Hour))
	if late < overdueAfter || late > overdueAfter+maxJitter+2*checkEvery {
		t.Errorf("overdue after %v", late)
	}
	s.passUntil("end", func() bool { return len(s.emitted()) > 1 })
	if o := s.says(s.key(0), unreadable, "PodCertificate expired"); o.Certificate != one {
		t.Error("the certificate is not used any more")
	}
	s.stand("expired")
	if now := s.clock.Now(); now.Before(started.Add(2 * time.Hour)) {
		t.Errorf("expired at %v", now)
	}
	for range 30 {
		s.pass(time.Minute)
	}
	s.emits("ns/p CertificateOverdueForRefresh: PodCertificate refresh overdue",
		"ns/p CertificateExpired: PodCertificate expired")
	second := s.requests(2)[1]
	s.issue(second.Name, s.chainFor(&second))
	two := s.holds(0, one)
	s.stand("fresh")
	// A refusal of a renewal takes nothing away.
	s.pass(59 * time.Minute)
	s.passUntil("second renewal", func() bool { return len(s.list()) == 3 })
	s.condition(s.requests(3)[2].Name, "Denied", "Policy", "no more")
	if o := s.says(s.key(0), unreadable, "was permanently denied"); o.Certificate != two {
		t.Error("the certificate is not used any more")
	}
	s.stand("denied")
}

// Not even a start without the API server has a key from before.
func TestCertificatesAreRequestedAgainAfterARestart(t *testing.T) {
	s := newSigned(t, nil)
	s.Watch(s.key(0))
	first := s.requests(1)[0]
	s.issue(first.Name, s.chainFor(&first))
	one := s.holds(0, nil)
	if len(s.kept.all) > 0 {
		t.Errorf("kept %v", s.kept.all)
	}
	s.start(t, s.server, func(b *Backing) { b.WatchLater(s.key(0), "") })
	second := s.requests(2)[1]
	s.issue(second.Name, s.chainFor(&second))
	if two := s.holds(0, nil); bytes.Equal(two.Key, one.Key) {
		t.Error("the key is the same as before")
	}
}

func TestFailuresToRequestACertificateSayWhatIsWrong(t *testing.T) {
	var mu sync.Mutex
	var fault *fakeapi.Fault
	set := func(f *fakeapi.Fault) {
		mu.Lock()
		defer mu.Unlock()
		fault = f
	}
	s := newSigned(t, func(req fakeapi.APIRequest) *fakeapi.Fault {
		mu.Lock()
		defer mu.Unlock()
		if req.Resource == requestResources && req.Verb == "create" || strings.HasSuffix(req.HTTP.URL.Path, "/v1") {
			return fault
		}
		return nil
	})
	set(&fakeapi.Fault{Code: http.StatusNotFound, Reason: "NotFound", Message: "the server could not find it"})
	s.Watch(s.key(0))
	s.says(s.key(0), unreadable, "it is to be one of Kubernetes 1.37 or later")
	set(&fakeapi.Fault{Code: http.StatusUnprocessableEntity, Reason: "Invalid", Message: "spec.signerName: no"})
	s.says(s.key(0), unreadable, "credential bundle is not issued yet: spec.signerName: no")
	set(&fakeapi.Fault{Serve: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"PodCertificateRequest","apiVersion":"certificates.k8s.io/v1"}`))
	}})
	s.says(s.key(0), unreadable, "answered without a PodCertificateRequest")
	set(nil)
	s.requests(1)
	s.Watch(s.key(2))
	s.says(s.key(2), unreadable, `this node does not know keys of type "DSA"`)
	other := s.key(1)
	other.Pod.UID = "of nobody"
	s.Watch(other)
	s.says(other, unreadable, "pod of nobody is not known")
}

// One namespace has no more of the node's memory than its share, and another one has its own.
func TestCertificatesOfANamespaceAreBounded(t *testing.T) {
	s := newSigned(t, nil)
	s.issuing.most = sourceBytes + 2<<10
	s.Watch(s.key(0))
	r := s.requests(1)[0]
	s.Watch(s.key(1))
	s.says(s.key(1), unreadable, "hold too much on this node")
	chain := s.chainFor(&r)
	s.issue(r.Name, strings.Repeat(chain, 4))
	s.says(s.key(0), unreadable, "hold too much on this node")
	s.passUntil("request for a shorter chain", func() bool { return len(s.list()) == 2 })
	r = s.requests(2)[1]
	s.issue(r.Name, s.chainFor(&r))
	s.holds(0, nil)
	if !s.issuing.hold("other", sourceBytes) {
		t.Error("another namespace has no room")
	}
	s.Unwatch(s.key(0))
	s.passUntil("request of the other source", func() bool { return len(s.list()) == 3 })
}
