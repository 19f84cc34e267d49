package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
)

const (
	// rotateFrom and rotateWithin: a certificate is renewed after 70 to 90 % of its lifetime, as by the kubelet.
	rotateFrom, rotateWithin = 0.7, 0.2
	// firstRetry and maxRetry are the back-off after a failure, refusedRetry the pause after a refusal: a denied request
	// is no reason to send the next one at once.
	firstRetry   = 2 * time.Second
	maxRetry     = 32 * time.Second
	refusedRetry = 5 * time.Minute
	// checkEvery is how often the clock is compared: it may be set, and a timer would sleep on.
	checkEvery = 10 * time.Second
	// maxMessage bounds CertificateChanged.message.
	maxMessage = 512
)

// Options configure a Manager.
type Options struct {
	Kind journaletv1.CertificateKind
	// Dir is the directory of certificates.
	Dir string
	// Template returns what is requested; nil: it is not known yet.
	Template func() *x509.CertificateRequest
	// Once requests a certificate only while the Manager has no certificate, and never renews one.
	Once bool
	// Client returns the client that sends requests.
	Client func() (*client.Client, error)
	// Credentials names the file with those credentials; may be nil.
	Credentials func() string
	// Issued is called with each new certificate, before it is recorded.
	Issued func(*tls.Certificate) error
	// Sink records what is in use, and why there is no new one.
	Sink func(context.Context, *journaletv1.CertificateChanged) error
	// Failed is called with each failed attempt, Rotated with the age of a certificate that another one has replaced; both
	// may be nil.
	Failed  func()
	Rotated func(age time.Duration)
	Now     func() time.Time
	Log     *slog.Logger
}

// Manager keeps one certificate. Current may be called at any time.
type Manager struct {
	opts    Options
	store   store
	current atomic.Pointer[tls.Certificate]
	ready   chan struct{}
	due     time.Time // when the current one is renewed
	message string    // that was recorded last
}

// ClientTemplate returns the template of a node's client certificate.
func ClientTemplate(node string) *x509.CertificateRequest {
	return &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
	}
}

// ServingTemplate returns the template of a node's serving certificate, nil before it has an address.
func ServingTemplate(node string, addresses []corev1.NodeAddress) *x509.CertificateRequest {
	t := ClientTemplate(node)
	for _, a := range addresses {
		switch a.Type {
		case corev1.NodeInternalIP, corev1.NodeExternalIP:
			if ip := net.ParseIP(a.Address); ip != nil {
				t.IPAddresses = append(t.IPAddresses, ip)
			}
		default: // names
			if ip := net.ParseIP(a.Address); ip != nil {
				t.IPAddresses = append(t.IPAddresses, ip)
			} else if !slices.Contains(t.DNSNames, a.Address) {
				t.DNSNames = append(t.DNSNames, a.Address)
			}
		}
	}
	if len(t.IPAddresses) == 0 {
		return nil
	}
	return t
}

// New returns a manager with the stored certificate, if there is one.
func New(o Options) (*Manager, error) {
	m := &Manager{opts: o, store: store{dir: o.Dir, prefix: "kubelet-client"}, ready: make(chan struct{})}
	if o.Kind == journaletv1.CertificateKind_CERTIFICATE_KIND_SERVING {
		m.store.prefix = "kubelet-server"
	}
	stored, err := m.store.current()
	if err != nil {
		return nil, err
	}
	switch template := o.Template(); {
	case stored == nil, !o.Now().Before(stored.Leaf.NotAfter):
	case template != nil && template.Subject.CommonName != stored.Leaf.Subject.CommonName:
		o.Log.Warn("the stored certificate is another node's, and not used", "file", m.store.path("-current.pem"),
			"of", stored.Leaf.Subject.CommonName, "this node", template.Subject.CommonName)
	default:
		m.Use(stored)
	}
	return m, nil
}

// Use makes a certificate the current one. It may not be called during Run.
func (m *Manager) Use(c *tls.Certificate) {
	if m.current.Swap(c) == nil {
		close(m.ready)
	}
	lifetime := c.Leaf.NotAfter.Sub(c.Leaf.NotBefore)
	m.due = c.Leaf.NotBefore.Add(time.Duration(float64(lifetime) * (rotateFrom + rotateWithin*rand.Float64())))
}

// Current returns the certificate in use, nil before there is one.
func (m *Manager) Current() *tls.Certificate { return m.current.Load() }

// Ready is closed once there is a certificate.
func (m *Manager) Ready() <-chan struct{} { return m.ready }

// Run keeps the certificate until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	retry := time.Duration(0)
	for {
		wait := checkEvery
		if template := m.opts.Template(); template != nil && m.needs(template) {
			err := m.renew(ctx, template)
			switch {
			case ctx.Err() != nil:
				return nil
			case err == nil:
				retry = 0
			default:
				retry = min(max(2*retry, firstRetry), maxRetry)
				wait = retry
				if m.opts.Failed != nil {
					m.opts.Failed()
				}
				if errors.Is(err, errRefused) {
					wait = refusedRetry
				}
				if err := m.failed(ctx, err, wait); err != nil {
					return err
				}
			}
		} else if template == nil {
			wait = time.Second
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// needs reports whether another certificate is to be requested.
func (m *Manager) needs(template *x509.CertificateRequest) bool {
	c := m.current.Load()
	switch {
	case c == nil:
		return true
	case m.opts.Once:
		return false
	case !m.opts.Now().Before(m.due), c.Leaf.Subject.CommonName != template.Subject.CommonName:
		return true
	}
	for _, ip := range template.IPAddresses {
		if !slices.ContainsFunc(c.Leaf.IPAddresses, ip.Equal) {
			return true
		}
	}
	for _, name := range template.DNSNames {
		if !slices.Contains(c.Leaf.DNSNames, name) {
			return true
		}
	}
	return false
}

// renew requests a certificate, stores it and puts it to use.
func (m *Manager) renew(ctx context.Context, template *x509.CertificateRequest) error {
	signer, usage := certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.UsageClientAuth
	if m.opts.Kind == journaletv1.CertificateKind_CERTIFICATE_KIND_SERVING {
		signer, usage = certificatesv1.KubeletServingSignerName, certificatesv1.UsageServerAuth
	}
	c, err := m.opts.Client()
	if err != nil {
		return err
	}
	key, err := m.store.key()
	if err != nil {
		return err
	}
	r, err := newRequest(key, template, signer, usage)
	if err != nil {
		return err
	}
	signed, err := r.send(ctx, c)
	switch {
	case errors.Is(err, errRefused):
		return errors.Join(err, m.store.dropKey())
	case apierrors.IsUnauthorized(err) && m.opts.Credentials != nil:
		return fmt.Errorf("%w; the credentials of %s are not valid: replace them", err, m.opts.Credentials())
	case err != nil:
		return err
	}
	pair, err := m.store.save(signed, key, m.opts.Now())
	if err != nil {
		return err
	}
	if before := m.current.Load(); before != nil && m.opts.Rotated != nil {
		m.opts.Rotated(m.opts.Now().Sub(before.Leaf.NotBefore))
	}
	m.Use(pair)
	if err := m.opts.Issued(pair); err != nil {
		return err
	}
	if !m.opts.Now().Before(m.due) {
		return fmt.Errorf("%w: the new certificate is to be renewed since %s already; check this machine's clock",
			errRefused, m.due.UTC().Format(time.RFC3339))
	}
	m.message = ""
	m.opts.Log.Info("a certificate was issued", "kind", m.opts.Kind, "request", r.name, "until", pair.Leaf.NotAfter)
	return m.opts.Sink(ctx, m.changed(r.name, ""))
}

// failed records why there is no new certificate, once a reason.
func (m *Manager) failed(ctx context.Context, err error, wait time.Duration) error {
	text := client.Message(err)
	if len(text) > maxMessage {
		text = text[:maxMessage]
	}
	if text == m.message {
		return nil
	}
	m.message = text
	m.opts.Log.Warn("no new certificate; trying again", "kind", m.opts.Kind, "error", text, "in", wait)
	return m.opts.Sink(ctx, m.changed("", text))
}

func (m *Manager) changed(request, message string) *journaletv1.CertificateChanged {
	out := &journaletv1.CertificateChanged{Kind: m.opts.Kind, Request: request, Message: message}
	if c := m.current.Load(); c != nil {
		out.NotBefore, out.NotAfter = timestamppb.New(c.Leaf.NotBefore), timestamppb.New(c.Leaf.NotAfter)
	}
	return out
}
