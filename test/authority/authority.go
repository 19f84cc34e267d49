package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
)

// Authority signs certificates.
type Authority struct {
	Cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New returns an authority that nobody trusts yet.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{}
	c := a.Sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	})
	a.Cert, a.key = c.Leaf, c.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// Sign returns a certificate of a template. Without other dates it is valid for an hour before and after now.
func (a *Authority) Sign(t testing.TB, template *x509.Certificate) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	if a.Cert == nil {
		a.Cert, a.key = template, key // it signs itself
	}
	der := a.SignFor(t, template, &key.PublicKey)
	leaf, err := x509.ParseCertificate(der)
	must.OK(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// SignFor returns a certificate of a template for a key of another, in DER.
func (a *Authority) SignFor(t testing.TB, template *x509.Certificate, key any) []byte {
	t.Helper()
	template.SerialNumber, template.BasicConstraintsValid = big.NewInt(time.Now().UnixNano()), true
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Cert, key, a.key)
	must.OK(t, err)
	return der
}

// Client returns a client's certificate.
func (a *Authority) Client(t testing.TB, name string, groups ...string) *tls.Certificate {
	t.Helper()
	return a.Sign(t, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// Server returns a server's certificate for 127.0.0.1.
func (a *Authority) Server(t testing.TB) *tls.Certificate {
	t.Helper()
	return a.Sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// Pool returns the pool of this authority alone.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.Cert)
	return p
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Cert.Raw})
}

// Write writes a certificate and its key into a directory, and returns their paths.
func Write(t testing.TB, dir string, c *tls.Certificate) (cert, key string) {
	t.Helper()
	certPEM, keyPEM := Encode(t, c)
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	must.OK(t, os.WriteFile(cert, certPEM, 0o600))
	must.OK(t, os.WriteFile(key, keyPEM, 0o600))
	return cert, key
}

// Encode returns a certificate and its key in PEM.
func Encode(t testing.TB, c *tls.Certificate) (cert, key []byte) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	must.OK(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
