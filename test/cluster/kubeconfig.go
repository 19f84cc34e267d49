package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// The token of every cluster's bootstrap kubeconfig is bootstrapID.bootstrapSecret.
const (
	bootstrapID     = "jrnlet"
	bootstrapSecret = "0123456789abcdef"
)

// Admin returns the path of a kubeconfig that may do everything.
func (c *Cluster) Admin() string { return filepath.Join(c.Dir, "admin.kubeconfig") }

// Bootstrap returns the path of a kubeconfig with a bootstrap token: it may request the first certificate of a node.
func (c *Cluster) Bootstrap() string { return filepath.Join(c.Dir, "bootstrap.kubeconfig") }

// CA returns the path of the authority's certificates, in PEM: the API server and its clients verify each other with
// them.
func (c *Cluster) CA() string { return c.pki().crt("ca") }

// Server returns the URL of the API server.
func (c *Cluster) Server() string { return fmt.Sprintf("https://%s:%d", c.Address, c.APIPort) }

// Node returns the path of a kubeconfig with a client certificate of the node of this name. Where the node has one
// already, it is replaced.
func (c *Cluster) Node(name string) (string, error) {
	return c.Kubeconfig("node-"+name, "system:node:"+name, []string{"system:nodes"}, time.Time{})
}

// Kubeconfig writes a kubeconfig with a client certificate of a user, and returns its path. A certificate with a zero
// until outlasts the test; one in the past has expired.
func (c *Cluster) Kubeconfig(file, user string, groups []string, until time.Time) (string, error) {
	if err := c.pki().issue(file, identity{user: user, groups: groups, until: until}); err != nil {
		return "", err
	}
	crt, err := os.ReadFile(c.pki().crt(file))
	if err != nil {
		return "", err
	}
	key, err := os.ReadFile(c.pki().key(file))
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.Dir, file+".kubeconfig")
	return path, c.writeKubeconfig(path, &api.AuthInfo{ClientCertificateData: crt, ClientKeyData: key})
}

func (c *Cluster) writeKubeconfig(path string, user *api.AuthInfo) error {
	ca, err := os.ReadFile(c.CA())
	if err != nil {
		return err
	}
	const name = "lab"
	return clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{name: {Server: c.Server(), CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*api.AuthInfo{name: user},
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
}

// identities returns the identities of the control plane. The names of the users are Kubernetes' own: RBAC knows them.
func (c *Cluster) identities() map[string]identity {
	return map[string]identity{
		"apiserver": {user: "kube-apiserver", hosts: []string{c.Address, "127.0.0.1", "10.0.2.2", serviceIP, "localhost",
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}},
		"kubelet-client": {user: kubeletClient},
		"front-proxy":    {user: frontProxyClient},
	}
}

// writeIdentities writes the certificates and kubeconfigs that a start needs.
func (c *Cluster) writeIdentities() error {
	p, err := newPKI(c.pki().dir)
	if err != nil {
		return err
	}
	for name, id := range c.identities() {
		if err := p.issue(name, id); err != nil {
			return err
		}
	}
	for file, who := range map[string]identity{
		"admin":                   {user: "admin", groups: []string{"system:masters"}},
		string(ControllerManager): {user: "system:kube-controller-manager"},
		string(Scheduler):         {user: "system:kube-scheduler"},
	} {
		if _, err := c.Kubeconfig(file, who.user, who.groups, time.Time{}); err != nil {
			return err
		}
	}
	return c.writeKubeconfig(c.Bootstrap(), &api.AuthInfo{Token: bootstrapID + "." + bootstrapSecret})
}
