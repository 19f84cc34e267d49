package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"time"

	"k8s.io/client-go/rest"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/certificate"
	"github.com/journalet/journalet/runtime/cluster/client"
)

// newIdentity returns the manager of the client certificate.
func (a *agent) newIdentity(c *cluster, begin *certificate.Start) (*certificate.Manager, error) {
	var m *certificate.Manager
	o := a.certificateOptions()
	o.Kind, o.Once = journaletv1.CertificateKind_CERTIFICATE_KIND_CLIENT, !a.cfg.Cluster.RotateCertificates
	o.Template = func() *x509.CertificateRequest { return certificate.ClientTemplate(a.facts.NodeName) }
	bootstraps := func() bool {
		has := m.Current()
		return (has == nil || !time.Now().Before(has.Leaf.NotAfter)) && a.cfg.Cluster.BootstrapKubeconfig != ""
	}
	o.Credentials = func() string {
		if bootstraps() {
			return a.cfg.Cluster.BootstrapKubeconfig
		}
		return a.cfg.KubeconfigPath()
	}
	o.Client = func() (*client.Client, error) {
		if !bootstraps() {
			return c.client, nil
		}
		// Read again at each attempt: an operator may have put a new token into it.
		config, err := client.Load(a.cfg.Cluster.BootstrapKubeconfig)
		if err != nil {
			return nil, err
		}
		return client.New(a.clientOptions(config, nil))
	}
	o.Issued = func(*tls.Certificate) error {
		c.client.CloseConnections()
		return certificate.WriteKubeconfig(a.cfg.KubeconfigPath(), a.cfg.CertificateDir(), begin.Config)
	}
	o.Failed = c.metrics.ClientCertificate(func() *tls.Certificate { return m.Current() })
	m, err := certificate.New(o)
	if err != nil {
		return nil, err
	}
	c.unwritten = begin.First == nil && m.Current() != nil
	if m.Current() == nil && begin.First != nil {
		m.Use(begin.First)
	}
	return m, nil
}

// explainRefusal returns why the API server may refuse this node, and what to do.
func (a *agent) explainRefusal(c *cluster, config *rest.Config) string {
	leaf, err := client.Certificate(config)
	if c.identity != nil && c.identity.Current() != nil {
		leaf, err = c.identity.Current().Leaf, nil
	}
	path := a.cfg.KubeconfigPath()
	if err == nil && leaf != nil {
		err = client.CheckIdentity(leaf, a.facts.NodeName, time.Now())
	}
	switch {
	case err != nil:
		return "kubeconfig " + path + ": " + err.Error()
	case leaf != nil:
		return "kubeconfig " + path + " has the certificate of " + leaf.Subject.CommonName + ", valid until " +
			leaf.NotAfter.UTC().Format(time.RFC3339) + "; it is not of this cluster, or may not be this node"
	}
	return "replace the credentials of kubeconfig " + path + ", or permit their user to be this node"
}

// keepIdentity keeps the client certificate. A kubeconfig that an earlier run did not come to write is written first.
func (a *agent) keepIdentity(c *cluster, config *rest.Config) func(context.Context) error {
	return func(ctx context.Context) error {
		if c.unwritten {
			if err := certificate.WriteKubeconfig(a.cfg.KubeconfigPath(), a.cfg.CertificateDir(), config); err != nil {
				a.log.Warn("the kubeconfig is not written; the next start needs the bootstrap kubeconfig", "error", err)
			}
		}
		return c.identity.Run(ctx)
	}
}

// newServing returns the manager of the serving certificate that the cluster signs.
func (a *agent) newServing(c *cluster) (*certificate.Manager, error) {
	o := a.certificateOptions()
	o.Kind = journaletv1.CertificateKind_CERTIFICATE_KIND_SERVING
	o.Template = func() *x509.CertificateRequest {
		n := c.node.Node()
		if n == nil {
			return nil
		}
		return certificate.ServingTemplate(n.Name, n.Status.Addresses)
	}
	o.Client = func() (*client.Client, error) { return c.client, nil }
	o.Issued = func(*tls.Certificate) error { return nil }
	var m *certificate.Manager
	o.Failed, o.Rotated = c.metrics.ServingCertificate(func() *tls.Certificate { return m.Current() })
	m, err := certificate.New(o)
	return m, err
}

// certificateOptions returns what both managers have in common.
func (a *agent) certificateOptions() certificate.Options {
	return certificate.Options{
		Dir: a.cfg.CertificateDir(), Now: time.Now, Log: a.log,
		Sink: func(ctx context.Context, f *journaletv1.CertificateChanged) error {
			return a.host.Fact(ctx, messages.Agent, messages.NewEvent(f))
		},
	}
}
