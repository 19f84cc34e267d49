package secureport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"sync"
	"time"

	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// maxPEMBytes bounds a file with certificates or a key.
	maxPEMBytes = 1 << 20
	// reloadEvery is how long what was read from files is used.
	reloadEvery = 10 * time.Second
	// selfLifetime is the lifetime of a self-signed certificate (kubelet: one year); it is replaced a tenth before its
	// end.
	selfLifetime = 365 * 24 * time.Hour
)

// files is what was read from files, read again when they change. What cannot be read leaves the last.
type files[T any] struct {
	paths []string
	parse func(data [][]byte) (T, error)
	now   func() time.Time
	log   *slog.Logger

	mu      sync.Mutex
	value   T
	sum     [sha256.Size]byte
	read    time.Time
	problem string
}

// newFiles reads the files for the first time; an error names what is wrong with them.
func newFiles[T any](paths []string, parse func([][]byte) (T, error), now func() time.Time,
	log *slog.Logger,
) (*files[T], error) {
	f := &files[T]{paths: paths, parse: parse, now: now, log: log}
	return f, f.load()
}

// load reads the files, and parses them if they have changed. f.mu is held.
func (f *files[T]) load() error {
	f.read = f.now()
	var all [][]byte
	h := sha256.New()
	for _, path := range f.paths {
		data, err := bounded.ReadFile(path, maxPEMBytes)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		h.Write(sum[:])
		all = append(all, data)
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	if sum == f.sum {
		return nil
	}
	value, err := f.parse(all)
	if err != nil {
		return fmt.Errorf("%v: %w", f.paths, err)
	}
	f.value, f.sum = value, sum
	return nil
}

// get returns what the files have.
func (f *files[T]) get() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if since := f.now().Sub(f.read); since >= 0 && since < reloadEvery {
		return f.value, nil
	}
	problem := ""
	if err := f.load(); err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != f.problem {
		f.log.Warn("cannot read certificates again; the last ones stay in use", "error", problem)
	}
	f.problem = problem
	return f.value, nil
}

// CertificateFiles returns the certificate of two files, as they are now. An error means that they cannot be used at
// the start.
func CertificateFiles(cert, key string, now func() time.Time, log *slog.Logger) (
	func() (*tls.Certificate, error), error,
) {
	f, err := newFiles([]string{cert, key}, func(data [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(data[0], data[1])
		return &pair, err
	}, now, log)
	if err != nil {
		return nil, fmt.Errorf("the serving certificate: %w; fix tlsCertFile and tlsPrivateKeyFile", err)
	}
	return f.get, nil
}

// ClientCAFile returns the authorities of a file, as it is now. An error means that it cannot be used at the start.
func ClientCAFile(path string, now func() time.Time, log *slog.Logger) (func() (*x509.CertPool, error), error) {
	f, err := newFiles([]string{path}, func(data [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data[0]) {
			return nil, errors.New("no certificate in it")
		}
		return pool, nil
	}, now, log)
	if err != nil {
		return nil, fmt.Errorf("the authorities of client certificates: %w; fix authentication.x509.clientCAFile", err)
	}
	return f.get, nil
}

// SelfSigned returns a certificate of the agent's own, for a host name and addresses, which is in memory only. Clients
// cannot verify it: the API server tries only if it is given the authorities of kubelets.
func SelfSigned(host string, addresses []string, now func() time.Time) func() (*tls.Certificate, error) {
	var mu sync.Mutex
	var current *tls.Certificate
	return func() (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		at := now()
		if current != nil && at.After(current.Leaf.NotBefore) &&
			at.Before(current.Leaf.NotAfter.Add(-selfLifetime/10)) {
			return current, nil
		}
		created, err := selfSigned(host, addresses, at)
		if err == nil {
			current = created
		}
		return created, err
	}
}

func selfSigned(host string, addresses []string, at time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(at.UnixNano()), Subject: pkix.Name{CommonName: fmt.Sprintf("%s@%d", host, at.Unix())},
		NotBefore: at.Add(-time.Hour), NotAfter: at.Add(selfLifetime), DNSNames: []string{host},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	for _, a := range addresses {
		if ip := net.ParseIP(a); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}
