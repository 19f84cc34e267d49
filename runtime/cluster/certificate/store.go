package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/keyutil"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
)

const (
	// maxPairBytes bounds a file with certificates and a key.
	maxPairBytes = 1 << 20
	// timeInName is the kubelet's, in the names of its files.
	timeInName = "2006-01-02-15-04-05"
	dirMode    = 0o700
)

// store is the directory of one certificate, as the kubelet has it: PREFIX-TIME.pem with the certificate and its key,
// and PREFIX-current.pem, a link to the newest. PREFIX.key.tmp is the key of a request that has no certificate yet.
type store struct{ dir, prefix string }

func (s store) path(name string) string { return filepath.Join(s.dir, s.prefix+name) }

// current returns the certificate in use, nil if no certificate is stored.
func (s store) current() (*tls.Certificate, error) {
	data, err := bounded.ReadFile(s.path("-current.pem"), maxPairBytes)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	return parse(data, data, s.path("-current.pem"))
}

// parse returns a pair in PEM. An error does not repeat what was read.
func parse(cert, key []byte, path string) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s holds no certificate with its key in PEM; remove it, and the node requests another", path)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, fmt.Errorf("parse %s: %w", path, err)
		}
	}
	return &pair, nil
}

// save stores a certificate with its key, and swaps the link in one step.
func (s store) save(cert, key []byte, now time.Time) (*tls.Certificate, error) {
	pair, err := parse(cert, key, "the API server's answer")
	if err != nil {
		return nil, err
	}
	path := s.path("-" + now.UTC().Format(timeInName) + ".pem")
	if err := writeFile(path, append(bytes.TrimRight(cert, "\n"), append([]byte("\n"), key...)...)); err != nil {
		return nil, err
	}
	link := s.path("-updated.pem")
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("store the certificate: %w", err)
	}
	if err := os.Symlink(path, link); err != nil {
		return nil, fmt.Errorf("store the certificate: %w", err)
	}
	if err := os.Rename(link, s.path("-current.pem")); err != nil {
		return nil, fmt.Errorf("store the certificate: %w", err)
	}
	return pair, s.dropKey()
}

// key returns the key of the request under way, in PEM. It creates and stores the key if needed.
func (s store) key() ([]byte, error) {
	path := s.path(".key.tmp")
	data, err := bounded.ReadFile(path, maxPairBytes)
	if err == nil {
		if _, err := privateKey(data); err == nil {
			return data, nil
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the key of the request: %w", err)
	}
	created, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create a key: %w", err)
	}
	if data, err = keyutil.MarshalPrivateKeyToPEM(created); err != nil {
		return nil, fmt.Errorf("create a key: %w", err)
	}
	return data, writeFile(path, data)
}

// dropKey removes the key of the request under way: the next request has another one.
func (s store) dropKey() error {
	if err := os.Remove(s.path(".key.tmp")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the key of the request: %w", err)
	}
	return nil
}

// privateKey returns a key in PEM.
func privateKey(data []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	return x509.ParseECPrivateKey(block.Bytes)
}

// writeFile writes a file of mode 0600 so that a crash leaves the old or the new content.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := durable.Write(path, data); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
