package client

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
)

// certificate returns a self-signed certificate.
func certificate(t *testing.T, name string, from, until time.Time) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name, Organization: []string{"system:nodes"}},
		NotBefore: from, NotAfter: until,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must.OK(t, err)
	leaf, err := x509.ParseCertificate(der)
	must.OK(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

const kubeconfigText = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://api:6443", certificate-authority: pki/ca.crt}}]
users: [{name: u, user: {token: very-secret-token}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

func TestKubeconfigIsReadWithPathsRelativeToIt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kubelet.conf")
	must.OK(t, os.WriteFile(path, []byte(kubeconfigText), 0o600))
	must.OK(t, os.Mkdir(filepath.Join(dir, "pki"), 0o700))
	must.OK(t, os.WriteFile(filepath.Join(dir, "pki/ca.crt"), nil, 0o600))
	config, err := Load(path)
	must.OK(t, err)
	if config.Host != "https://api:6443" || config.CAFile != filepath.Join(dir, "pki/ca.crt") {
		t.Errorf("read host %q and CA %q", config.Host, config.CAFile)
	}
}

func TestBadKubeconfigIsNamedWithoutItsCredentials(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"no YAML": {kubeconfigText + "\t:\n", "not a valid Config"},
		"wrong type": {strings.ReplaceAll(kubeconfigText, "token: very-secret-token", "token: [very-secret-token]"),
			"not a valid Config"},
		"empty":         {"", "set current-context"},
		"no server":     {strings.ReplaceAll(kubeconfigText, `server: "https://api:6443", `, ""), "server"},
		"other context": {strings.ReplaceAll(kubeconfigText, "current-context: x", "current-context: other"), "other"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kubelet.conf")
			must.OK(t, os.WriteFile(path, []byte(test.text), 0o600))
			_, err := Load(path)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("returned %v, want the path and %q, and no credential", err, test.want)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("returned %v for a missing file", err)
	}
}

func TestIdentityIsThisNodesAndValidNow(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		name        string
		from, until time.Duration
		want        string
	}{
		{"system:node:n", -time.Hour, time.Hour, ""},
		{"admin", -time.Hour, time.Hour, ""},
		{"system:node:other", -time.Hour, time.Hour, "it is of other, this node is n"},
		{"system:node:n", -2 * time.Hour, -time.Hour, "expired"},
		{"system:node:n", 24 * time.Hour, 48 * time.Hour, "check the clock"},
	} {
		cert := certificate(t, test.name, now.Add(test.from), now.Add(test.until)).Leaf
		err := CheckIdentity(cert, "n", now)
		if got := fmt.Sprint(err); (err == nil) != (test.want == "") || !strings.Contains(got, test.want) && err != nil {
			t.Errorf("%s %v: returned %v, want %q", test.name, test.until, err, test.want)
		}
	}
}
