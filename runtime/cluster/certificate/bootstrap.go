package certificate

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/cluster/client"
)

// Start holds the credentials that a run begins with.
type Start struct {
	// Config is the API server, with credentials unless Managed.
	Config *rest.Config
	// Managed means that a Manager has the client certificate, First what it begins with; nil: it requests one.
	Managed bool
	First   *tls.Certificate
	// Problem is why the API server will refuse this node; nil: nothing is known against it.
	Problem error
}

// Begin reads the kubeconfig. If it is missing or its certificate has expired, Begin uses the bootstrap kubeconfig
// instead, if there is one: then Managed is true, and the certificate is requested. As with the kubelet, a certificate
// that is not valid yet, or that is another node's, is used as it is: the API server decides. kubeadm removes the
// bootstrap kubeconfig once a node has joined, and what runs on a node needs no API server: so a missing bootstrap
// kubeconfig prevents only the first start. An error prevents a start.
func Begin(kubeconfig, bootstrap, node string, rotate bool, now time.Time) (*Start, error) {
	if missing(bootstrap) && !missing(kubeconfig) {
		bootstrap = ""
	}
	config, err := client.Load(kubeconfig)
	if err == nil {
		s := &Start{Config: config}
		if s.First, err = pairOf(config, node, now); err != nil {
			s.Problem = fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
		}
		usable := err == nil || errors.Is(err, client.ErrOtherNode) || errors.Is(err, client.ErrNotYetValid)
		if usable || bootstrap == "" {
			s.Managed = rotate && s.First != nil
			return s, nil
		}
	} else if bootstrap == "" {
		return nil, err
	}
	if config, err = client.Load(bootstrap); err != nil {
		return nil, err
	}
	return &Start{Config: rest.AnonymousClientConfig(config), Managed: true}, nil
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// pairOf returns the client certificate of a configuration. It returns nil if the configuration has no certificate, or
// another node's, which is not renewed under this node's name. The error is from reading the certificate, or from
// CheckIdentity.
func pairOf(config *rest.Config, node string, now time.Time) (*tls.Certificate, error) {
	leaf, err := client.Certificate(config)
	if err != nil || leaf == nil {
		return nil, err
	}
	if err := client.CheckIdentity(leaf, node, now); errors.Is(err, client.ErrOtherNode) {
		return nil, err
	}
	cert, key := config.CertData, config.KeyData
	if len(cert) == 0 {
		if cert, err = bounded.ReadFile(config.CertFile, maxPairBytes); err != nil {
			return nil, fmt.Errorf("read the client certificate: %w", err)
		}
	}
	if len(key) == 0 {
		if key, err = bounded.ReadFile(config.KeyFile, maxPairBytes); err != nil {
			return nil, fmt.Errorf("read the key of the client certificate: %w", err)
		}
	}
	pair, err := parse(cert, key, "the kubeconfig")
	if err != nil {
		return nil, err
	}
	return pair, client.CheckIdentity(leaf, node, now)
}

// WriteKubeconfig writes a kubeconfig that names the current certificate in dir, as the kubelet writes it, unless the
// kubeconfig at path already does.
func WriteKubeconfig(path, dir string, config *rest.Config) error {
	pair := filepath.Join(dir, "kubelet-client-current.pem")
	if existing, err := client.Load(path); err == nil && existing.CertFile == pair && existing.Host == config.Host {
		return nil
	}
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"default-cluster": {
			Server: config.Host, TLSServerName: config.ServerName, InsecureSkipTLSVerify: config.Insecure,
			CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"default-auth": {ClientCertificate: pair, ClientKey: pair}},
		Contexts: map[string]*clientcmdapi.Context{"default-context": {
			Cluster: "default-cluster", AuthInfo: "default-auth", Namespace: "default",
		}},
		CurrentContext: "default-context",
	})
	if err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("write the kubeconfig: %s is not a regular file; remove it", path)
	}
	return writeFile(path, data)
}
