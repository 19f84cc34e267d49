package certificate

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
)

const csrs = "certificatesigningrequests.certificates.k8s.io"

// world is a manager and an API server whose control plane signs.
type world struct {
	*testing.T
	api     *fakeapi.Server
	dir     string
	options Options
	facts   chan *journaletv1.CertificateChanged
	issued  chan *tls.Certificate

	mu       sync.Mutex
	now      time.Time
	lifetime time.Duration
	deny     bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		T: t, api: fakeapi.New(), dir: t.TempDir(), now: time.Now().Truncate(time.Second), lifetime: time.Hour,
		facts: make(chan *journaletv1.CertificateChanged, 100), issued: make(chan *tls.Certificate, 100),
	}
	c, err := client.New(client.Options{
		Config: &rest.Config{Host: w.api.Start(t)}, ContentType: "application/json",
		Main: client.Limits{QPS: 1000, Burst: 1000},
	})
	must.OK(t, err)
	w.options = Options{
		Kind: journaletv1.CertificateKind_CERTIFICATE_KIND_CLIENT, Dir: w.dir,
		Template: func() *x509.CertificateRequest { return ClientTemplate("n") },
		Client:   func() (*client.Client, error) { return c, nil },
		Issued:   func(c *tls.Certificate) error { w.issued <- c; return nil },
		Sink: func(_ context.Context, f *journaletv1.CertificateChanged) error {
			w.facts <- f
			return nil
		},
		Now: w.clock, Log: slog.New(slog.DiscardHandler),
	}
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// run runs a new manager until the returned function is called.
func (w *world) run() (*Manager, func()) {
	w.Helper()
	m, err := New(w.options)
	must.OK(w, err)
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	var once sync.Once
	stop := func() { once.Do(func() { cancel(); must.OK(w, <-done) }) }
	w.Cleanup(stop)
	return m, stop
}

// sign signs one request as kube-controller-manager does, once it is there, and returns its name.
func (w *world) sign() string {
	w.Helper()
	name := w.requested()
	var csr certificatesv1.CertificateSigningRequest
	w.api.Change(csrs, "status", "", name, &csr, func() {
		if w.deny {
			csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
				Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: "No",
			}}
			return
		}
		csr.Status.Certificate = w.certificate(csr.Spec.Request)
	})
	return name
}

// requested waits for a request without an answer, and returns its name.
func (w *world) requested() string {
	w.Helper()
	deadline, tick := time.After(20*time.Second), time.NewTicker(2*time.Millisecond)
	defer tick.Stop()
	for {
		for _, r := range w.api.Requests("get " + csrs) {
			var csr certificatesv1.CertificateSigningRequest
			if w.api.Get(csrs, "", r.Name, &csr) && csr.Status.Certificate == nil && csr.Status.Conditions == nil {
				return r.Name
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			w.Fatalf("no request waits; requests %v", w.api.Requests(""))
		}
	}
}

func (w *world) certificate(request []byte) []byte {
	block, _ := pem.Decode(request)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	must.OK(w, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(w, err)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: csr.Subject, DNSNames: csr.DNSNames, IPAddresses: csr.IPAddresses,
		NotBefore: w.clock(), NotAfter: w.clock().Add(w.lifetime),
	}, ca, csr.PublicKey, key)
	must.OK(w, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestCertificateIsRequestedStoredAndUsed(t *testing.T) {
	w := newWorld(t)
	m, stop := w.run()
	name := w.sign()
	pair := <-w.issued
	if m.Current() != pair || pair.Leaf.Subject.CommonName != "system:node:n" {
		t.Errorf("uses %v", pair.Leaf.Subject)
	}
	if f := <-w.facts; f.GetRequest() != name || f.GetMessage() != "" ||
		!f.GetNotAfter().AsTime().Equal(pair.Leaf.NotAfter) {
		t.Errorf("recorded %v", f)
	}
	<-m.Ready()
	info, err := os.Stat(filepath.Join(w.dir, "kubelet-client-current.pem"))
	must.OK(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the key has mode %v", info.Mode())
	}
	if _, err := os.Stat(filepath.Join(w.dir, "kubelet-client.key.tmp")); err == nil {
		t.Error("the key of the request is left")
	}
	stop()
	again, err := New(w.options)
	must.OK(t, err)
	if again.Current() == nil || !again.Current().Leaf.Equal(pair.Leaf) {
		t.Error("a restart does not find the certificate")
	}
}

func TestRequestIsTheSameAfterACrash(t *testing.T) {
	w := newWorld(t)
	_, stop := w.run()
	first := w.requested()
	stop()
	w.run()
	if second := w.sign(); second != first {
		t.Errorf("requested %s, then %s", first, second)
	}
	<-w.issued
}

func TestCertificateIsRenewedBeforeItExpires(t *testing.T) {
	w := newWorld(t)
	ages := make(chan time.Duration, 10)
	w.options.Rotated = func(age time.Duration) { ages <- age }
	m, stop := w.run()
	first := w.sign()
	<-w.issued
	stop()
	template := ClientTemplate("n")
	for part, want := range map[float64]bool{0.69: false, 0.91: true} {
		w.mu.Lock()
		at := m.Current().Leaf.NotBefore.Add(time.Duration(part * float64(w.lifetime)))
		w.now = at
		w.mu.Unlock()
		if m.needs(template) != want {
			t.Errorf("renews at %v of the lifetime: %v", part, !want)
		}
	}
	w.mu.Lock()
	w.now = m.Current().Leaf.NotBefore.Add(w.lifetime * 95 / 100)
	w.mu.Unlock()
	w.run()
	if second := w.sign(); second == first {
		t.Error("the renewal has the old key")
	}
	<-w.issued
	if age := <-ages; age != w.lifetime*95/100 || len(ages) != 0 {
		t.Errorf("reported an age of %v, and %d more", age, len(ages))
	}
}

func TestDeniedRequestIsReportedAndItsKeyDropped(t *testing.T) {
	w := newWorld(t)
	w.deny = true
	failed := make(chan struct{}, 10)
	w.options.Failed = func() { failed <- struct{}{} }
	m, _ := w.run()
	w.sign()
	<-failed
	if f := <-w.facts; !strings.Contains(f.GetMessage(), "Denied") || f.GetNotAfter() != nil {
		t.Errorf("recorded %v", f)
	}
	if m.Current() != nil {
		t.Error("there is a certificate")
	}
	if _, err := os.Stat(filepath.Join(w.dir, "kubelet-client.key.tmp")); err == nil {
		t.Error("the refused key is left")
	}
}

func TestRefusalOfTheAPIServerIsReportedOnce(t *testing.T) {
	w := newWorld(t)
	w.api.Faults = func(fakeapi.APIRequest) *fakeapi.Fault {
		return &fakeapi.Fault{Code: http.StatusForbidden, Reason: "Forbidden", Message: "no"}
	}
	w.run()
	if f := <-w.facts; f.GetMessage() == "" {
		t.Errorf("recorded %v", f)
	}
}

func TestServingCertificateWaitsForAnAddressAndFollowsIt(t *testing.T) {
	if ServingTemplate("n", []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n"}}) != nil {
		t.Error("requested without an address")
	}
	w := newWorld(t)
	addresses := []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeHostName, Address: "n"},
	}
	w.options.Kind = journaletv1.CertificateKind_CERTIFICATE_KIND_SERVING
	w.options.Template = func() *x509.CertificateRequest { return ServingTemplate("n", addresses) }
	m, stop := w.run()
	w.sign()
	<-w.issued
	stop()
	if m.needs(w.options.Template()) {
		t.Error("renews a certificate that fits")
	}
	addresses[0].Address = "10.0.0.2"
	if !m.needs(w.options.Template()) {
		t.Error("keeps a certificate of another address")
	}
}

func TestStoredCertificateOfAnotherNodeIsReplaced(t *testing.T) {
	w := newWorld(t)
	_, stop := w.run()
	w.sign()
	<-w.issued
	stop()
	w.options.Template = func() *x509.CertificateRequest { return ClientTemplate("other") }
	m, stop := w.run()
	if m.Current() != nil {
		t.Errorf("uses the certificate of %s", m.Current().Leaf.Subject)
	}
	w.sign()
	<-m.Ready()
	stop()
	if got := m.Current().Leaf.Subject.CommonName; got != "system:node:other" {
		t.Errorf("uses the certificate of %s", got)
	}
	if !m.needs(ClientTemplate("third")) {
		t.Error("keeps a certificate of another name")
	}
}

func TestRefusedCredentialsOfARequestAreNamed(t *testing.T) {
	w := newWorld(t)
	w.options.Credentials = func() string { return "/etc/bootstrap.conf" }
	w.api.Faults = func(fakeapi.APIRequest) *fakeapi.Fault {
		return &fakeapi.Fault{Code: http.StatusUnauthorized, Reason: "Unauthorized"}
	}
	w.run()
	if f := <-w.facts; !strings.Contains(f.GetMessage(), "the credentials of /etc/bootstrap.conf are not valid") {
		t.Errorf("recorded %q", f.GetMessage())
	}
}

func TestStartPrefersAValidCertificateToTheBootstrap(t *testing.T) {
	w := newWorld(t)
	_, stop := w.run()
	w.sign()
	pair := <-w.issued
	<-w.facts
	stop()
	kubeconfig := filepath.Join(t.TempDir(), "kubelet.conf")
	bootstrap := filepath.Join(t.TempDir(), "bootstrap.conf")
	must.OK(t, os.WriteFile(bootstrap, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"x",
		"clusters":[{"name":"c","cluster":{"server":"https://boot:6443"}}],
		"users":[{"name":"u","user":{"token":"abc.def"}}],
		"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}]}`), 0o600))
	begin := func(node string, now time.Time) (*Start, error) { return Begin(kubeconfig, bootstrap, node, true, now) }
	s, err := begin("n", w.now)
	must.OK(t, err)
	if !s.Managed || s.First != nil || s.Config.BearerToken != "" || s.Config.Host != "https://boot:6443" {
		t.Errorf("without a kubeconfig began with %+v", s)
	}
	must.OK(t, WriteKubeconfig(kubeconfig, w.dir, &rest.Config{Host: "https://api:6443"}))
	if s, err = begin("n", w.now); err != nil || !s.Managed || !s.First.Leaf.Equal(pair.Leaf) ||
		s.Config.Host != "https://api:6443" {
		t.Errorf("with a valid certificate began with %+v, %v", s, err)
	}
	if s, err = begin("n", w.now.Add(2*w.lifetime)); err != nil || s.First != nil || s.Config.Host != "https://boot:6443" {
		t.Errorf("with an expired certificate began with %+v, %v", s, err)
	}
	// Another node's certificate is used as it is and not renewed. A certificate that is not valid yet is used, too.
	if s, err = begin("other", w.now); err != nil || s.Managed || s.Config.Host != "https://api:6443" ||
		!errors.Is(s.Problem, client.ErrOtherNode) || !strings.Contains(s.Problem.Error(), kubeconfig) {
		t.Errorf("with another node's certificate began with %+v, %v", s, err)
	}
	if s, err = begin("n", w.now.Add(-24*time.Hour)); err != nil || !s.Managed || !s.First.Leaf.Equal(pair.Leaf) ||
		!errors.Is(s.Problem, client.ErrNotYetValid) {
		t.Errorf("with the clock a day behind began with %+v, %v", s, err)
	}
	if s, err = begin("other", w.now.Add(2*w.lifetime)); err != nil || s.Config.Host != "https://boot:6443" {
		t.Errorf("with an expired certificate of another node began with %+v, %v", s, err)
	}
	// kubeadm removes the bootstrap kubeconfig of a node that has joined.
	must.OK(t, os.Remove(bootstrap))
	if s, err = begin("n", w.now.Add(2*w.lifetime)); err != nil || s.Problem == nil || s.Config.Host != "https://api:6443" {
		t.Errorf("with an expired certificate and no bootstrap kubeconfig began with %+v, %v", s, err)
	}
	must.OK(t, os.Remove(kubeconfig))
	if _, err = begin("n", w.now); err == nil || !strings.Contains(err.Error(), bootstrap) {
		t.Errorf("with neither kubeconfig: %v", err)
	}
}
