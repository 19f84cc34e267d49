package client

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// maxKubeconfigBytes and maxPEMBytes bound the files that an operator or kubeadm writes.
	maxKubeconfigBytes = 1 << 20
	maxPEMBytes        = 1 << 20
	// nodeUser is the prefix of a node's user name (Node authorizer).
	nodeUser = "system:node:"
)

// Load reads a kubeconfig, and resolves its relative paths against its directory. An error names the file and what to
// change, and no credential. That a certificate has expired is no error here: see CheckIdentity.
func Load(path string) (*rest.Config, error) {
	data, err := bounded.ReadFile(path, maxKubeconfigBytes)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("kubeconfig %s does not exist; create it, or correct the flag that names it: %w", path, err)
	case err != nil:
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		// The parser repeats what it read, which may be a token.
		return nil, fmt.Errorf("kubeconfig %s is not a valid Config of v1; fix its YAML and its fields", path)
	}
	for _, c := range config.Clusters {
		c.LocationOfOrigin = path
	}
	for _, u := range config.AuthInfos {
		u.LocationOfOrigin = path
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	out, err := clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{}).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("kubeconfig %s has no current context with a cluster; set current-context", path)
	case err != nil:
		return nil, fmt.Errorf("kubeconfig %s: %w; fix its current context, with the cluster and the user", path, err)
	case out.Host == "":
		return nil, fmt.Errorf("kubeconfig %s has no server; set clusters[].cluster.server", path)
	}
	return out, nil
}

// Certificate returns the client certificate that a configuration names; nil if it names none.
func Certificate(c *rest.Config) (*x509.Certificate, error) {
	data := c.CertData
	if len(data) == 0 && c.CertFile != "" {
		var err error
		if data, err = bounded.ReadFile(c.CertFile, maxPEMBytes); err != nil {
			return nil, fmt.Errorf("read the client certificate: %w", err)
		}
	}
	if len(data) == 0 {
		return nil, nil
	}
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			return nil, errors.New("the client certificate has no CERTIFICATE block in PEM; replace the file")
		}
		if block.Type == "CERTIFICATE" {
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("parse the client certificate: %w; replace the file", err)
			}
			return cert, nil
		}
		data = rest
	}
}

// Errors of CheckIdentity.
var (
	ErrOtherNode   = errors.New("the client certificate is another node's")
	ErrExpired     = errors.New("the client certificate has expired")
	ErrNotYetValid = errors.New("the client certificate is not valid yet")
)

// CheckIdentity returns ErrExpired or ErrNotYetValid if a certificate is not valid by this machine's clock, and
// ErrOtherNode if it is the certificate of a node other than node. The API server has a clock of its own, and it judges
// certificates of users that are not nodes.
func CheckIdentity(cert *x509.Certificate, node string, now time.Time) error {
	user := cert.Subject.CommonName
	name, is := strings.CutPrefix(user, nodeUser)
	switch {
	case now.After(cert.NotAfter):
		return fmt.Errorf("%w: that of %s, on %s; renew it, or join the node again with --bootstrap-kubeconfig; it is %s "+
			"by this machine's clock", ErrExpired, user, cert.NotAfter.UTC().Format(time.RFC3339),
			now.UTC().Format(time.RFC3339))
	case is && name != node:
		return fmt.Errorf("%w: it is of %s, this node is %s; set --hostname-override, or use this node's kubeconfig",
			ErrOtherNode, name, node)
	case now.Before(cert.NotBefore):
		return fmt.Errorf("%w: that of %s is from %s on, which this machine's clock has not reached; check the clock",
			ErrNotYetValid, user, cert.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}
