package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	// validFor is how long certificates hold unless a caller wants another end: longer than any test.
	validFor = 365 * 24 * time.Hour
	// skew is how far back they begin, for machines whose clocks differ a little.
	skew = time.Hour
)

// pki is a directory with a certificate authority and what it has issued: NAME.crt and NAME.key, in PEM.
type pki struct{ dir string }

// identity is what a certificate names.
type identity struct {
	user   string
	groups []string
	hosts  []string // for a server: names and addresses
	until  time.Time
}

func (p pki) crt(name string) string { return filepath.Join(p.dir, name+".crt") }
func (p pki) key(name string) string { return filepath.Join(p.dir, name+".key") }

// newPKI writes a certificate authority and a key for the tokens of service accounts.
func newPKI(dir string) (pki, error) {
	p := pki{dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return p, err
	}
	template := template(identity{user: "journalet-test-ca"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.ExtKeyUsage = nil // of an authority it would bound all that it signs
	template.KeyUsage |= x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return p, err
	}
	if err := p.write("ca", template, template, key, key); err != nil {
		return p, err
	}
	tokens, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return p, err
	}
	public, err := x509.MarshalPKIXPublicKey(tokens.Public())
	return p, errors.Join(err, p.writeKey("sa", tokens),
		os.WriteFile(filepath.Join(dir, "sa.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600))
}

func template(id identity) *x509.Certificate {
	now := time.Now()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: id.user, Organization: id.groups},
		NotBefore:    now.Add(-skew), NotAfter: now.Add(validFor),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if !id.until.IsZero() {
		c.NotAfter = id.until
		if c.NotBefore.After(id.until) {
			c.NotBefore = id.until.Add(-skew) // it has expired
		}
	}
	for _, host := range id.hosts {
		if ip := net.ParseIP(host); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, host)
		}
	}
	if len(id.hosts) > 0 {
		c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	return c
}

// issue writes a certificate and its key, signed by the authority.
func (p pki) issue(name string, id identity) error {
	ca, caKey, err := p.authority()
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return p.write(name, template(id), ca, key, caKey)
}

func (p pki) write(name string, c, parent *x509.Certificate, key *ecdsa.PrivateKey, signer crypto.Signer) error {
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		return fmt.Errorf("certificate %s: %w", name, err)
	}
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return errors.Join(p.writeKey(name, key), os.WriteFile(p.crt(name), b, 0o600))
}

func (p pki) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(p.key(name), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

func (p pki) authority() (*x509.Certificate, crypto.Signer, error) {
	der := func(path string) ([]byte, error) {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		block, _ := pem.Decode(b)
		if block == nil {
			return nil, fmt.Errorf("%s holds no PEM", path)
		}
		return block.Bytes, nil
	}
	crt, err := der(p.crt("ca"))
	if err != nil {
		return nil, nil, err
	}
	key, err := der(p.key("ca"))
	if err != nil {
		return nil, nil, err
	}
	ca, err := x509.ParseCertificate(crt)
	if err != nil {
		return nil, nil, err
	}
	signer, err := x509.ParseECPrivateKey(key)
	return ca, signer, err
}
