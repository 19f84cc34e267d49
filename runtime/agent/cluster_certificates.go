package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
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
	o.Client = func() (*client.Client, error) {
		has := m.Current()
		if has != nil && time.Now().Before(has.Leaf.NotAfter) || a.cfg.Cluster.BootstrapKubeconfig == "" {
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
	m, err := certificate.New(o)
	if err != nil {
		return nil, err
	}
	c.unwritten = begin.First == nil && m.Current() != nil
	if stored := m.Current(); stored != nil {
		if err := client.CheckIdentity(stored.Leaf, a.facts.NodeName, time.Now()); errors.Is(err, client.ErrOtherNode) {
			return nil, err
		}
	} else if begin.First != nil {
		m.Use(begin.First)
	}
	return m, nil
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
	return certificate.New(o)
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
