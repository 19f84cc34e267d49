package certificate

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/cert"

	"github.com/journalet/journalet/runtime/bounded"
)

// SelfSigned returns the serving certificate of a server without another one: kubelet.crt and kubelet.key in dir, which
// are created if they do not exist. It is valid for a year and not renewed; who connects cannot verify it.
func SelfSigned(dir, host string, addresses []string) (*tls.Certificate, error) {
	certPath, keyPath := filepath.Join(dir, "kubelet.crt"), filepath.Join(dir, "kubelet.key")
	crt, err := bounded.ReadFile(certPath, maxPairBytes)
	if err == nil {
		key, err := bounded.ReadFile(keyPath, maxPairBytes)
		if err != nil {
			return nil, fmt.Errorf("read the key of the serving certificate: %w", err)
		}
		return parse(crt, key, certPath)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the serving certificate: %w", err)
	}
	var ips []net.IP
	for _, a := range addresses {
		if ip := net.ParseIP(a); ip != nil {
			ips = append(ips, ip)
		}
	}
	crt, key, err := cert.GenerateSelfSignedCertKey(host, ips, nil)
	if err != nil {
		return nil, fmt.Errorf("create a serving certificate: %w", err)
	}
	if err := errors.Join(writeFile(keyPath, key), writeFile(certPath, crt)); err != nil {
		return nil, err
	}
	return parse(crt, key, certPath)
}
