package api

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"
)

// pemCertificate is the type of a block of PEM.
const pemCertificate = "CERTIFICATE"

// key is a key of a pod. It is in memory only, and in the files of the pod once there are certificates for it.
type key struct {
	// private is PKCS #8 in PEM, stub a signed PKCS #10 request without names: it proves that we have the key.
	private, stub []byte
	public        interface{ Equal(crypto.PublicKey) bool }
}

// newKey creates a key of a type of the API (PodCertificateProjection.keyType). RSA4096 takes seconds of a core.
func newKey(keyType string) (*key, error) {
	var private crypto.Signer
	var err error
	switch keyType {
	case "RSA3072":
		private, err = rsa.GenerateKey(rand.Reader, 3072)
	case "RSA4096":
		private, err = rsa.GenerateKey(rand.Reader, 4096)
	case "ECDSAP256":
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ECDSAP384":
		private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ECDSAP521":
		private, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "ED25519":
		_, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		return nil, fmt.Errorf("this node does not know keys of type %q", keyType)
	}
	if err != nil {
		return nil, fmt.Errorf("create a key of type %s: %w", keyType, err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("encode a key of type %s: %w", keyType, err)
	}
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	if err != nil {
		return nil, fmt.Errorf("sign a request with a key of type %s: %w", keyType, err)
	}
	public, ok := private.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok {
		return nil, fmt.Errorf("keys of type %s cannot be compared", keyType)
	}
	return &key{private: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), stub: stub, public: public}, nil
}

// chain returns the certificates of an answer as blocks without headers and without what is between them. The API
// server validates as much of an answer; programs in pods would fail with less in words of their own.
func (k *key) chain(a response) ([]byte, error) {
	switch {
	case len(a.chain) > maxChainBytes:
		return nil, fmt.Errorf("its certificates have more than %d bytes", maxChainBytes)
	case a.refreshAt.IsZero() || a.notAfter.IsZero():
		return nil, errors.New("it has no beginRefreshAt or no notAfter")
	}
	var out bytes.Buffer
	n := 0
	for block, rest := pem.Decode([]byte(a.chain)); block != nil; block, rest = pem.Decode(rest) {
		n++
		if block.Type != pemCertificate {
			return nil, fmt.Errorf("block %d is no certificate", n)
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d cannot be read: %w", n, err)
		}
		if n == 1 && !k.public.Equal(one.PublicKey) {
			return nil, errors.New("its first certificate is not for the key of the request")
		}
		if err := pem.Encode(&out, &pem.Block{Type: pemCertificate, Bytes: block.Bytes}); err != nil {
			return nil, err
		}
	}
	if n == 0 {
		return nil, errors.New("it has no certificate")
	}
	return out.Bytes(), nil
}

// turns has work done one at a time. Namespaces alternate: of each namespace no more than one waits beside the others.
type turns struct {
	all chan struct{}

	mu          sync.Mutex
	byNamespace map[string]*turn // by namespace
}

type turn struct {
	users int
	one   chan struct{}
}

func newTurns() turns { return turns{all: make(chan struct{}, 1), byNamespace: map[string]*turn{}} }

// do calls f when it is the turn of a namespace, unless ctx ends before.
func (t *turns) do(ctx context.Context, namespace string, f func()) error {
	t.mu.Lock()
	own := t.byNamespace[namespace]
	if own == nil {
		own = &turn{one: make(chan struct{}, 1)}
		t.byNamespace[namespace] = own
	}
	own.users++
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(t.byNamespace, namespace)
		}
	}()
	return exclusively(ctx, own.one, func() error {
		return exclusively(ctx, t.all, func() error { f(); return nil })
	})
}

// exclusively calls f while it has the one place of a channel. Callers that wait get the place in their order.
func exclusively(ctx context.Context, place chan struct{}, f func() error) error {
	select {
	case place <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-place }()
	return f()
}
